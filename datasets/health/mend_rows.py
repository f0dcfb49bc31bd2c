"""Mend the rows of a copy: their order, and the columns that number them.

A number is mended where the other numbers of the rows leave one value for it.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.datasets.arrow import array, read_table
from goalreel.datasets.episode_rows import EpisodeRows
from goalreel.datasets.health.frames import FrameRows
from goalreel.datasets.health.issues import spell
from goalreel.datasets.info_file import read_info
from goalreel.datasets.row_groups import parquet_parts, parquet_schema, read_row_groups, row_groups
from goalreel.datasets.writing.copies import data_files
from goalreel.datasets.writing.schema import put_column, put_field
from goalreel.datasets.writing.shards import GROUPS
from goalreel.files import atomic


def write_in_order(path: Path, order: NDArray[np.int64]) -> None:
    """Write the rows of a data file in another order, with as many row groups as before, GROUPS at most.

    One of them is in memory at a time, beside one as it was.

    Raises:
        DatasetError: the disk is full.
    """
    edges = np.cumsum([0, *(group.num_rows for group in row_groups(path))])
    schema = parquet_schema(path).with_metadata(read_table(path, ["episode_index"]).schema.metadata)
    with (
        atomic(path) as tmp,
        pq.ParquetWriter(tmp, schema, compression="snappy", use_dictionary=True) as writer,
    ):
        for rows in np.array_split(order, min(max(len(edges) - 1, 1), GROUPS)):
            # In the order of the file first, in which the row groups are read.
            there = np.sort(rows)
            groups = np.searchsorted(edges, there, side="right") - 1
            numbers = np.unique(groups).tolist()
            tables = [
                table.take(array(there[groups == number] - edges[number], pa.int64()))
                for number, table in zip(numbers, read_row_groups(path, numbers), strict=True)
            ]
            table = pa.concat_tables(tables).take(array(np.argsort(np.argsort(rows)), pa.int64()))
            writer.write_table(table, row_group_size=len(table))


def set_column(rows: FrameRows, name: str, values: NDArray[np.generic]) -> None:
    """Write the values of a column of numbers, one a row of all files, where they differ from those there.

    One row group is in memory at a time, or several where there are more than GROUPS.

    Raises:
        DatasetError: the disk is full.
    """
    for number, path in enumerate(rows.paths):
        old = read_table(path, [name])
        field = old.schema.field(name)
        column = pa.chunked_array([array(values[rows.file == number], field.type)])
        if not column.equals(old[name]):
            schema = put_field(parquet_schema(path).with_metadata(old.schema.metadata), field)
            _write_column(path, schema, field, column)


def _write_column(path: Path, schema: pa.Schema, field: pa.Field, column: pa.ChunkedArray) -> None:
    groups = (part.read_row_group(i) for part in parquet_parts(path) for i in range(part.num_row_groups))
    together = -(-sum(1 for _ in row_groups(path)) // GROUPS)
    at = 0
    with (
        atomic(path) as tmp,
        pq.ParquetWriter(tmp, schema, compression="snappy", use_dictionary=True) as writer,
    ):
        for tables in itertools.batched(groups, together):
            table = pa.concat_tables(tables)
            table = put_column(table, field, column.slice(at, len(table)))
            writer.write_table(table, row_group_size=len(table))
            at += len(table)


def sort_files(root: Path) -> Iterator[str]:
    """Sort the rows of a file by episode and frame, where `frame_index` has each frame of an episode once."""
    rows, lengths = FrameRows.read(data_files(root)), _lengths(root)
    for number, path in enumerate(rows.paths):
        at = np.flatnonzero(rows.file == number)
        order = np.lexsort((rows.frame[at], rows.episode[at]))
        if np.array_equal(order, np.arange(len(at))):
            continue
        episodes = np.unique(rows.episode[at]).tolist()
        if all(_is_whole(rows, rows.of_episode[e], lengths.get(e)) for e in episodes):
            write_in_order(path, order)
            yield f"{path.relative_to(root)}: rows sorted by episode and frame"


def _is_whole(rows: FrameRows, at: NDArray[np.int64], length: int | None) -> bool:
    """Whether rows are in one file and have each frame of an episode of this length once."""
    one_file = len(np.unique(rows.file[at])) == 1
    return one_file and len(at) == length and np.array_equal(np.sort(rows.frame[at]), np.arange(len(at)))


def number_rows(root: Path) -> Iterator[str]:
    """Number rows and frames anew, and write `frame_index` / fps where times do not increase."""
    rows, fps = FrameRows.read(data_files(root)), float(read_info(root)["fps"])
    if not are_together(rows):
        return
    if not np.array_equal(rows.index, np.arange(len(rows))):
        set_column(rows, "index", np.arange(len(rows)))
        yield "index: rows numbered from 0 on"
    frame, time, renumbered, timed = rows.frame.copy(), rows.time.copy(), list[int](), list[int]()
    for episode, at in rows.of_episode.items():
        counts = np.array_equal(frame[at], np.arange(len(at)))
        increases = bool(np.isfinite(time[at]).all() and (np.diff(time[at]) > 0).all())
        if increases and not counts:
            frame[at] = np.arange(len(at))
            renumbered.append(episode)
        elif counts and not increases:
            time[at] = np.arange(len(at)) / fps
            timed.append(episode)
    if renumbered:
        set_column(rows, "frame_index", frame)
        yield f"frame_index: {spell(renumbered)} numbered from 0 on, in the order of the timestamps"
    if timed:
        set_column(rows, "timestamp", time)
        yield f"timestamp: frame_index / fps written in {spell(timed)}, where times did not increase"


def are_together(rows: FrameRows) -> bool:
    """Whether the rows of each episode lie together."""
    return all(at[-1] - at[0] + 1 == len(at) for at in rows.of_episode.values())


def _lengths(root: Path) -> dict[int, int]:
    rows = EpisodeRows.read(root)
    return dict(zip(rows.indices.tolist(), rows.column("length"), strict=True))
