"""Exact camera statistics; a picture is counted once, however many frames it stands for.

lerobot (`compute_stats.compute_episode_stats`) samples about a hundred frames and bins their pixels; the
frames of a goal camera are most often a handful of pictures, so whole histograms over all frames cost less
than that.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

type Stats = dict[str, NDArray[Any]]
QUANTILES = (0.01, 0.10, 0.50, 0.90, 0.99)
"""lerobot's `DEFAULT_QUANTILES`."""


class PictureLevels:
    """How often each level occurs in the pictures of an episode, as they pass."""

    def __init__(self) -> None:
        self._frames = 0
        self._histogram = np.zeros((3, 256), np.int64)

    def add(self, frames: int, picture: NDArray[np.uint8]) -> None:
        """Count a (height, width, 3) picture for so many frames."""
        self._frames += frames
        self._histogram += frames * _histogram(picture)

    def stats(self) -> Stats:
        """As lerobot stores them, of one picture or more.

        `min`, `max`, `mean`, `std` and `q01`-like quantiles are (3, 1, 1) in [0, 1]; `count` is (1,) frames.
        """
        levels, histogram = np.arange(256) / 255.0, self._histogram
        pixels = histogram.sum(axis=1)
        mean = histogram @ levels / pixels
        variance = histogram @ levels**2 / pixels - mean**2
        present = histogram > 0
        values_by_name = {
            "min": levels[present.argmax(axis=1)],
            "max": levels[255 - present[:, ::-1].argmax(axis=1)],
            "mean": mean,
            "std": np.sqrt(np.maximum(variance, 0.0)),
        }
        reached = histogram.cumsum(axis=1)
        for q in QUANTILES:
            values_by_name[f"q{int(q * 100):02d}"] = levels[(reached >= q * pixels[:, None]).argmax(axis=1)]
        stats: Stats = {name: value.reshape(3, 1, 1) for name, value in values_by_name.items()}
        return {**stats, "count": np.array([self._frames])}


def aggregate(groups: Sequence[Stats]) -> Stats:
    """Statistics of a whole dataset from those of its episodes, as lerobot's `aggregate_feature_stats`.

    Each group holds the statistics of some episodes, (episodes, 3, 1, 1) for pictures and (episodes, 1) for
    numbers, and their `count`, (episodes, 1), which may be 0. A quantile of the whole is the mean of the
    episodes' quantiles, weighted by their frames.
    """
    parts = {name: [group[name] for group in groups] for name in groups[0]}
    stats = {name: part[0] if len(part) == 1 else np.concatenate(part) for name, part in parts.items()}
    count = stats.pop("count")
    total, weight = count.sum(axis=0), count.reshape(-1, *(1,) * (stats["mean"].ndim - 1))
    frames = np.maximum(total, 1)
    mean = (stats["mean"] * weight).sum(axis=0) / frames
    variance = ((stats["std"] ** 2 + (stats["mean"] - mean) ** 2) * weight).sum(axis=0) / frames
    quantiles = {name: values for name, values in stats.items() if name.startswith("q")}
    return {
        "min": stats["min"].min(axis=0),
        "max": stats["max"].max(axis=0),
        "mean": mean,
        "std": np.sqrt(variance),
        "count": total,
        **{name: (values * weight).sum(axis=0) / frames for name, values in quantiles.items()},
    }


def _histogram(picture: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Pixels a channel and level, (3, 256)."""
    return np.stack([np.bincount(picture[:, :, c].ravel(), minlength=256) for c in range(3)])
