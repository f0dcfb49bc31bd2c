"""The rows of all data files that number the frames of a dataset: what lerobot loads first."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets.episode_rows import EpisodeTable
from goalreel.datasets.parquet import count_rows, parquet_schema, read_batches, to_numpy
from goalreel.datasets.writing.layout import ROWS
from goalreel.errors import first_line

NUMBERS = ("episode_index", "frame_index", "index", "task_index", "timestamp")
THREADS = 4
MISSING = np.iinfo(np.int64).min
"""Stands for an integer that is not there."""


@dataclass(frozen=True, eq=False)
class FrameRows:
    """One value a row, in lerobot's order of files and rows, (rows,): integers in 32 bits where they fit."""

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
        """Read files that are readable.

        Raises:
            pa.ArrowException, OSError: one is not.
        """
        paths = tuple(paths)
        columns = in_threads(_read, paths)
        file = np.repeat(np.arange(len(paths), dtype=np.int32), [len(c["timestamp"]) for c in columns])
        parts = columns or [_empty(0)]
        del columns
        return cls(paths, file, *(_joined([part.pop(name) for part in parts]) for name in NUMBERS))

    def __len__(self) -> int:
        return len(self.episode)

    @cached_property
    def of_episode(self) -> EpisodeTable[NDArray[np.int64]]:
        """Episode -> its rows in their order."""
        order = None if (np.diff(self.episode) >= 0).all() else np.argsort(self.episode, kind="stable")
        episode = self.episode if order is None else self.episode[order]
        edges = np.flatnonzero(np.diff(episode, prepend=episode[:1] - 1, append=episode[-1:] + 1))

        def rows(span: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.arange(*span) if order is None else order[slice(*span)]

        return EpisodeTable(episode[edges[:-1]], np.stack([edges[:-1], edges[1:]], axis=1), rows)


def in_threads[Item, Result](work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """`work` for each item, several at once, in their order."""
    with ThreadPoolExecutor(THREADS, "goalreel-check") as pool:
        return list(pool.map(work, items))


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """The columns of a file, filled batch by batch: a list of batches would be in memory beside them."""
    names, start = parquet_schema(path).names, 0
    columns = _empty(count_rows(path))
    for batch in read_batches(path, [n for n in NUMBERS if n in names], ROWS):
        for name in NUMBERS:
            column = batch.column(name) if name in names else None
            values = _values(column, len(batch), is_time=name == "timestamp")
            if values.itemsize > columns[name].itemsize:
                columns[name] = columns[name].astype(values.dtype)
            columns[name][start : start + len(batch)] = values
        start += len(batch)
    return columns


def _empty(count: int) -> dict[str, NDArray[Any]]:
    """Columns of so many rows, to be filled."""
    return {name: np.empty(count, np.float64 if name == "timestamp" else np.int32) for name in NUMBERS}


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _values(column: pa.Array | None, rows: int, *, is_time: bool) -> NDArray[Any]:
    values = np.full(rows, np.nan if is_time else MISSING, np.float64 if is_time else np.int64)
    if column is not None and column.null_count:
        values[np.array(column.is_valid())] = to_numpy(column.drop_null()).reshape(-1)
    elif column is not None:
        values[:] = to_numpy(column).reshape(-1)
    if is_time:
        return values
    small = values.astype(np.int32)
    return small if np.array_equal(small, values) else values


def unreadable(path: Path) -> str | None:
    """Why a data file is not readable; None where it is, with a table of columns."""
    try:
        parquet_schema(path)
    except (pa.ArrowException, OSError) as e:
        return first_line(e)
    return None
