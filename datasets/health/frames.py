"""The rows of all data files that number the frames of a dataset: what lerobot loads first."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets.arrow import read_table, to_numpy
from goalreel.datasets.episode_rows import line
from goalreel.datasets.row_groups import parquet_schema

NUMBERS = ("episode_index", "frame_index", "index", "task_index", "timestamp")
THREADS = 4
MISSING = np.iinfo(np.int64).min
"""Stands for an integer that is not there."""


@dataclass(frozen=True, eq=False)
class FrameRows:
    """One value a row, in lerobot's order of files and rows, (rows,)."""

    paths: tuple[Path, ...]
    file: NDArray[np.int64]
    """Which of `paths`."""
    episode: NDArray[np.int64]
    frame: NDArray[np.int64]
    index: NDArray[np.int64]
    task: NDArray[np.int64]
    time: NDArray[np.float64]
    """Seconds; NaN where there is none."""

    @classmethod
    def read(cls, paths: Iterable[Path]) -> "FrameRows":
        """Read files that are readable.

        Raises:
            pa.ArrowException, OSError: one is not.
        """
        paths = tuple(paths)
        columns = in_threads(_read, paths)
        lengths = [len(c["episode_index"]) for c in columns]
        whole = {name: np.concatenate([c[name] for c in columns] or [np.zeros(0)]) for name in NUMBERS}
        episode, frame, index, task = (whole[name].astype(np.int64) for name in NUMBERS[:4])
        file = np.repeat(np.arange(len(paths)), lengths)
        return cls(paths, file, episode, frame, index, task, whole["timestamp"].astype(np.float64))

    def __len__(self) -> int:
        return len(self.episode)

    @cached_property
    def of_episode(self) -> dict[int, NDArray[np.int64]]:
        """Episode -> its rows in their order."""
        order = np.argsort(self.episode, kind="stable")
        starts = np.flatnonzero(np.diff(self.episode[order], prepend=MISSING))
        parts = np.split(order, starts[1:]) if len(order) else []
        return {int(self.episode[rows[0]]): rows for rows in parts}


def in_threads[Item, Result](work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """`work` for each item, several at once, in their order."""
    with ThreadPoolExecutor(THREADS, "goalreel-check") as pool:
        return list(pool.map(work, items))


def _read(path: Path) -> dict[str, NDArray[np.generic]]:
    names = parquet_schema(path).names
    table = read_table(path, [n for n in NUMBERS if n in names])
    columns: dict[str, NDArray[np.generic]] = {}
    for name in NUMBERS:
        empty = np.nan if name == "timestamp" else MISSING
        values = np.full(len(table), empty)
        if name in table.column_names:
            column = table[name].combine_chunks()
            valid = slice(None) if not column.null_count else np.array(column.is_valid())
            kept = to_numpy(column) if not column.null_count else to_numpy(column.drop_null())
            values = np.full(len(table), empty, np.float64 if name == "timestamp" else np.int64)
            values[valid] = kept.reshape(-1)
        columns[name] = values
    return columns


def unreadable(path: Path) -> str | None:
    """Why a data file is not readable; None where it is, with a table of columns."""
    try:
        parquet_schema(path)
    except (pa.ArrowException, OSError) as e:
        return line(e)
    return None
