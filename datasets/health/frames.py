"""The rows of all data files that number the frames of a dataset: what lerobot loads first."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.datasets.parquet import read_table, to_numpy
from goalreel.errors import first_line

NUMBERS = ("episode_index", "frame_index", "index", "task_index", "timestamp")
THREADS = 4
MISSING = np.iinfo(np.int64).min
"""Stands for an integer that is not there."""


@dataclass(frozen=True, eq=False)
class FrameRows:
    """One value a row, in lerobot's order of files and rows, (rows,)."""

    paths: tuple[Path, ...]
    file: NDArray[np.integer]
    """Which of `paths`."""
    episode: NDArray[np.integer]
    frame: NDArray[np.integer]
    index: NDArray[np.integer]
    task: NDArray[np.integer]
    time: NDArray[np.float64]
    """Seconds; NaN where there is none."""

    @classmethod
    def read(cls, paths: Iterable[Path]) -> "FrameRows":
        """Read files that are readable, one at least."""
        paths = tuple(paths)
        columns = in_threads(_read, paths)
        file = np.repeat(np.arange(len(paths)), [len(c["timestamp"]) for c in columns])
        return cls(paths, file, *(np.concatenate([part[name] for part in columns]) for name in NUMBERS))

    def __len__(self) -> int:
        return len(self.episode)

    @cached_property
    def of_episode(self) -> dict[int, NDArray[np.int64]]:
        """Episode -> its rows in their order."""
        order = np.argsort(self.episode, kind="stable")
        episode = self.episode[order]
        starts = np.flatnonzero(np.diff(episode, prepend=episode[:1] - 1))
        return dict(zip(episode[starts].tolist(), np.split(order, starts[1:]), strict=False))


def in_threads[Item, Result](work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Do `work` for each item, several at once; the results are in the order of the items."""
    with ThreadPoolExecutor(THREADS, "goalreel-check") as pool:
        return list(pool.map(work, items))


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """Read the columns of a file; one that it lacks is empty throughout."""
    names = pq.read_schema(path).names
    table = read_table(path, [name for name in NUMBERS if name in names])
    columns: dict[str, NDArray[Any]] = {}
    for name in NUMBERS:
        is_time = name == "timestamp"
        values = np.full(len(table), np.nan if is_time else MISSING, np.float64 if is_time else np.int64)
        if name in names:
            column = table[name].combine_chunks()
            valid = np.array(column.is_valid()) if column.null_count else slice(None)
            values[valid] = to_numpy(column.drop_null() if column.null_count else column).reshape(-1)
        columns[name] = values
    return columns


def unreadable(path: Path) -> str | None:
    """Say why a data file is not readable; None where it is, with a table of columns."""
    try:
        pq.read_schema(path)
    except (pa.ArrowException, OSError) as e:
        return first_line(e)
    return None
