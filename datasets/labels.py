"""The sub-task labels that a LeRobot dataset has already: rows of `language_persistent` of style subtask."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from goalreel.datasets.arrow import to_numpy
from goalreel.errors import DatasetError

type Label = tuple[float, str]
"""Seconds since the episode's start, and the text, which may be empty."""
type Labels = dict[int, tuple[Label, ...]]


def subtask_labels(path: Path) -> Labels:
    """Episode -> its subtask rows in order of time, of one data file; only episodes that have some.

    Raises:
        DatasetError: the file cannot be read.
    """
    try:
        status = path.stat()
        return _read(path, status.st_mtime_ns, status.st_size)
    except FileNotFoundError as e:
        raise DatasetError(f"{path} is missing: copy the dataset again") from e
    except (pa.ArrowException, OSError) as e:
        message = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise DatasetError(f"{path} is not readable ({message})") from e


@lru_cache(maxsize=2)
def _read(path: Path, mtime_ns: int, size: int) -> Labels:
    """Every frame of an episode has the same rows, so those of its first frame are read."""
    if not {"language_persistent", "frame_index"} <= set(pq.read_schema(path).names):
        return {}
    labels_by_episode: Labels = {}
    for first in _first_frames(path):
        rows = [row for row in first["language_persistent"] or () if row["style"] == "subtask"]
        if rows:
            labels = ((float(row["timestamp"]), row["content"] or "") for row in rows)
            labels_by_episode[first["episode_index"]] = tuple(sorted(labels))
    return labels_by_episode


def _first_frames(path: Path) -> Iterator[dict[str, Any]]:
    """`episode_index` and `language_persistent` of the first frame of each episode."""
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            frames = to_numpy(file.read_row_group(group, ["frame_index"])["frame_index"])
            if len(starts := np.flatnonzero(frames == 0)):
                table = file.read_row_group(group, ["episode_index", "language_persistent"])
                yield from (table.slice(start, 1).to_pylist()[0] for start in starts)
