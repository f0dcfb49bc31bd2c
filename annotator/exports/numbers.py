"""Statistics of a dataset's numbers: of each episode in lerobot's form, of all frames in GR00T's."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets.arrow import read_batches
from goalreel.datasets.row_groups import parquet_schema
from goalreel.datasets.source import Source
from goalreel.datasets.writing.copies import episode_files
from goalreel.datasets.writing.progress import PROGRESS

_NUMBERS = ("float", "int", "uint", "bool")
_AT_ONCE = 256

type EpisodeStats = dict[str, dict[str, Any]]
"""Feature -> statistic -> values, as JSON."""


class FrameNumbers:
    """Collects the numbers of episode after episode: vectors and scalars, 4 bytes each in memory."""

    def __init__(self, features: Mapping[str, Mapping[str, Any]]) -> None:
        # The progress is NaN on some frames, and nothing to normalise.
        self._kept: dict[str, list[NDArray[np.float32]]] = {
            name: []
            for name, feature in features.items()
            if feature["dtype"].startswith(_NUMBERS) and len(feature["shape"]) == 1 and name != PROGRESS
        }

    def add(self, table: pa.Table) -> EpisodeStats:
        """Collect the numbers of an episode, and return their min, max, mean, std and count."""
        stats: EpisodeStats = {}
        for name, columns in self._kept.items():
            values = _array(table[name])
            columns.append(values.astype(np.float32))
            stats[name] = {
                "min": values.min(axis=0).tolist(),
                "max": values.max(axis=0).tolist(),
                "mean": values.mean(axis=0).tolist(),
                "std": values.std(axis=0).tolist(),
                "count": [len(values)],
            }
        return stats

    def total(self) -> EpisodeStats:
        """Compute the statistics of all frames, with quantiles.

        There is no count, since GR00T's loader indexes by dimension.
        """
        stats: EpisodeStats = {}
        for name, columns in self._kept.items():
            values = np.concatenate(columns)
            low, high = np.quantile(values, (0.01, 0.99), axis=0)
            stats[name] = {
                "mean": values.mean(axis=0, dtype=np.float64).tolist(),
                "std": values.std(axis=0, dtype=np.float64).tolist(),
                "min": values.min(axis=0).tolist(),
                "max": values.max(axis=0).tolist(),
                "q01": low.tolist(),
                "q99": high.tolist(),
            }
        return stats


def camera_stats(source: Source, cameras: Sequence[str]) -> dict[int, EpisodeStats]:
    """Map each episode to the statistics of its cameras in meta/episodes."""
    stats: dict[int, EpisodeStats] = {}
    names = {
        f"stats/{camera}/{name}": (camera, name)
        for camera in cameras
        for name in ("min", "max", "mean", "std", "count")
    }
    for path in episode_files(source.root):
        columns = [name for name in names if name in parquet_schema(path).names]
        for batch in read_batches(path, ["episode_index", *columns], _AT_ONCE):
            for row in batch.to_pylist():
                episode_stats = stats[row.pop("episode_index")] = {}
                for column, values in row.items():
                    camera, name = names[column]
                    episode_stats.setdefault(camera, {})[name] = values
    return stats


def _array(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Give an array (rows, dims)."""
    rows, values = len(column), column.combine_chunks()
    if not isinstance(values, (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)):
        return np.asarray(values.to_numpy(zero_copy_only=False), np.float64).reshape(rows, 1)
    return np.asarray(values.flatten().to_numpy(zero_copy_only=False), np.float64).reshape(rows, -1)
