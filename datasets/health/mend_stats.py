"""Compute meta/stats.json of a copy anew, of numbers and of cameras.

Quantiles are those of all rows, where lerobot averages those of its episodes.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalreel.datasets.health.frames import in_threads
from goalreel.datasets.health.numbers import read_numbers, stats_issues
from goalreel.datasets.health.tables import NUMERIC
from goalreel.datasets.source import Source
from goalreel.datasets.writing.copies import data_files
from goalreel.datasets.writing.meta import episode_stats, write_json
from goalreel.datasets.writing.stats import QUANTILES, PictureLevels, Stats, aggregate
from goalreel.errors import DatasetError

_EPISODES, _FRAMES = 20, 5
"""Of a camera without statistics in meta/episodes, so many episodes and frames of each are looked at."""


def compute_stats(root: Path) -> Iterator[str]:
    """Write the statistics where `inspect` complains of them."""
    source, path = Source.open(root), root / "meta" / "stats.json"
    if not any(stats_issues(source)):
        return
    names = [name for name, f in source.features.items() if f["dtype"] in NUMERIC]
    stats = {
        name: statistics for name in names if (statistics := _of_numbers(root, name, source.features[name]))
    }
    stats |= {camera: statistics for camera in source.cameras if (statistics := _of_camera(source, camera))}
    write_json(path, {name: {key: v.tolist() for key, v in of.items()} for name, of in stats.items()})
    yield "meta/stats.json: computed anew"


def _of_numbers(root: Path, name: str, feature: dict[str, Any]) -> Stats | None:
    """Statistics of a feature over all rows in which it is finite; None where there is no such row."""
    parts = [part for part in in_threads(partial(read_numbers, name), data_files(root)) if len(part)]
    size = int(np.prod(feature["shape"]))
    finite = [np.isfinite(part).all(axis=1) for part in parts]
    if not any(map(np.any, finite)) or {part.shape[1] for part in parts} != {size}:
        return None
    # One dimension at a time: of millions of frames all would take gigabytes.
    dimensions = [
        _of_dimension(
            np.concatenate([part[ok, i] for part, ok in zip(parts, finite, strict=True)], dtype=np.float64)
        )
        for i in range(size)
    ]
    stats = {key: np.array([of[key] for of in dimensions]) for key in dimensions[0]}
    shaped = {key: value.reshape(feature["shape"]) for key, value in stats.items()}
    return {**shaped, "count": np.array([sum(map(np.count_nonzero, finite))])}


def _of_dimension(values: NDArray[np.float64]) -> dict[str, float]:
    quantiles = zip(QUANTILES, np.quantile(values, QUANTILES), strict=True)
    return {
        "min": values.min(),
        "max": values.max(),
        "mean": values.mean(),
        "std": values.std(),
        **{f"q{int(q * 100):02d}": value for q, value in quantiles},
    }


def _of_camera(source: Source, camera: str) -> Stats | None:
    """Statistics of a camera: those of its episodes together, or else of some of its pictures."""
    groups = [group for group in episode_stats(source.root, camera, (3, 1, 1)) if len(group.get("count", ()))]
    if groups and sum(len(group["count"]) for group in groups) == len(source.rows):
        return aggregate(groups)
    levels, looked_at, indices = PictureLevels(), 0, source.indices
    for index in indices[:: max(1, len(indices) // _EPISODES)]:
        try:
            episode = source.episode(index)
            images = episode.frames(camera, range(0, len(episode), max(1, len(episode) // _FRAMES)))
        except DatasetError:
            continue
        for image in images:
            levels.add(1, image.pixels)
            looked_at += 1
    return levels.stats() if looked_at else None
