"""The rows of an episode in its data file, of which a part is in memory at a time."""

import itertools
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets.arrow import array, sort_rows, to_numpy
from goalreel.datasets.row_groups import parquet_parts, parquet_schema, value_spans
from goalreel.errors import DatasetError, first_line


def read_rows(
    path: Path, episode: int, where: str, numbers: tuple[str, ...] = (), camera: str | None = None
) -> pa.Table:
    """The episode's rows in frame order: the plain numbers, or one camera's stored images."""
    try:
        status = path.stat()
        if camera is None:
            firsts = _first_episodes(path, status.st_mtime_ns, status.st_size)
            part = max(int(np.searchsorted(firsts, episode, side="right")) - 1, 0) if len(firsts) else None
            table, episodes = _shard(path, part, numbers, status.st_mtime_ns, status.st_size)
            start, stop = np.searchsorted(episodes, [episode, episode + 1]).tolist()
            return sort_rows(table.slice(start, stop - start), "frame_index")
        return sort_rows(_stored_rows(path, episode, ["episode_index", "frame_index", camera]), "frame_index")
    except FileNotFoundError as e:
        raise DatasetError(f"{where}: {path} is missing: copy the dataset again") from e
    except (pa.ArrowException, OSError, KeyError) as e:
        message = first_line(e)
        raise DatasetError(f"{where}: {path} is not readable ({message})") from e


def _stored_rows(path: Path, episode: int, columns: list[str]) -> pa.Table:
    """The rows of an episode; row groups without any are not read, for stored images are large."""
    parts = []
    for file in parquet_parts(path):
        for group in range(file.num_row_groups):
            episodes = to_numpy(file.read_row_group(group, ["episode_index"])["episode_index"])
            rows = np.flatnonzero(episodes == episode)
            if len(rows):
                part = file.read_row_group(group, columns)
                whole = rows[-1] - rows[0] + 1 == len(rows)
                parts.append(part.slice(rows[0], len(rows)) if whole else part.take(array(rows, pa.int64())))
    if parts:
        return pa.concat_tables(parts)
    schema = parquet_schema(path)
    return pa.schema([schema.field(name) for name in columns]).empty_table()


@lru_cache(maxsize=8)
def _first_episodes(path: Path, mtime_ns: int, size: int) -> NDArray[np.int64]:
    """The first episode of each part of a data file; none where it is one part, or parts share episodes."""
    spans = [span for span in value_spans(path, "episode_index") if span is not None]
    in_order = len(spans) > 1 and all(a < b for (_, a), (b, _) in itertools.pairwise(spans))
    return np.array([first for first, _ in spans] if in_order else [], np.int64)


@lru_cache(maxsize=2)
def _shard(
    path: Path, part: int | None, numbers: tuple[str, ...], mtime_ns: int, size: int
) -> tuple[pa.Table, NDArray[np.int64]]:
    """The numeric columns of a data file, or of a part of it, and the episode of each row, ascending.

    Episodes are read in order, so the last file or two serve them all.
    """
    columns = ("timestamp", "frame_index", "episode_index", "task_index", "subtask_index", *numbers)
    names = [name for name in parquet_schema(path).names if name in columns]
    parts = parquet_parts(path, part or 0)
    table = pa.concat_tables([p.read(names) for p in itertools.islice(parts, None if part is None else 1)])
    table = table.combine_chunks()
    episodes = to_numpy(table["episode_index"])
    if (np.diff(episodes) < 0).any():
        order = np.argsort(episodes, kind="stable")
        table, episodes = table.take(array(order, pa.int64())), episodes[order]
    return table, episodes
