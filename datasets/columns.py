"""The types that the columns of a LeRobot dataset's tables may have, of data files and of meta/episodes."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.types import (
    is_boolean,
    is_dictionary,
    is_floating,
    is_integer,
    is_large_string,
    is_null,
    is_string,
    is_struct,
)

from goalreel.datasets.parquet import read_schema

COUNTS = ("episode_index", "frame_index", "index", "task_index", "subtask_index", "timestamp")
_NEEDED = ("episode_index", "frame_index", "timestamp")
_ROWS = {"role": "text", "content": "text", "style": "text", "timestamp": "numbers"}
_EPISODES = (
    (re.compile(r"tasks|(dense_|sparse_|)subtask_names"), "text"),
    (re.compile(r"(dense_|sparse_|)subtask_(start|end)_(times|frames)"), "numbers"),
)
_LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)


def column_faults(schema: pa.Schema, features: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Say of each column of a data file that is missing, or of a type that nobody reads, what to write."""
    if missing := [name for name in _NEEDED if name not in schema.names]:
        yield f"has no column {', '.join(missing)}: copy the dataset again"
    for field in schema:
        dtype = str(features.get(field.name, {}).get("dtype"))
        needed = _needed(field.name, dtype, field.type)
        if needed is not None:
            yield f"{field.name} is of type {field.type}: write {needed}"


def first_fault(path: Path, features: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Find the first of `column_faults` of a file, which is read once.

    Raises:
        pa.ArrowException, OSError: as `open_parquet`.
    """
    status = path.stat()
    return next(column_faults(_schema(path, status.st_mtime_ns, status.st_size), features), None)


@lru_cache(maxsize=2)
def _schema(path: Path, mtime_ns: int, size: int) -> pa.Schema:
    return read_schema(path)


def needed_in_episodes(name: str, kind: pa.DataType) -> str | None:
    """Say what a column of meta/episodes should hold, lists of texts or numbers; None where it does."""
    needed = next((needed for pattern, needed in _EPISODES if pattern.fullmatch(name)), None)
    if needed is None or is_null(kind) or (isinstance(kind, _LISTS) and _is(needed, kind.value_type)):
        return None
    return f"lists of {needed}"


def _needed(name: str, dtype: str, kind: pa.DataType) -> str | None:
    """Say what a column should hold; None where it holds that."""
    if name in COUNTS:
        return None if is_integer(kind) or is_floating(kind) else "numbers"
    if name in ("language_persistent", "language_events"):
        rows = kind.value_type if isinstance(kind, _LISTS) else None
        if is_null(kind) or (rows is not None and is_null(rows)):
            return None
        wanted = {n: what for n, what in _ROWS.items() if n != "timestamp" or name == "language_persistent"}
        fields = {f.name: f.type for f in rows} if rows is not None and is_struct(rows) else {}
        bad = [n for n, what in wanted.items() if n not in fields or not _is(what, fields[n])]
        return f"lists of rows with {', '.join(bad)}, as lerobot does" if bad else None
    if dtype == "image":
        return None if is_null(kind) or is_struct(kind) else "pictures, as lerobot does"
    if re.match(r"float|u?int|bool", dtype):
        while isinstance(kind, (pa.BaseExtensionType, *_LISTS)):
            kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind.value_type
        return None if _is("numbers", kind) else "numbers"
    return None


def _is(needed: str, kind: pa.DataType) -> bool:
    if needed == "text":
        return any(known(kind) for known in (is_null, is_string, is_large_string, is_dictionary))
    return any(known(kind) for known in (is_null, is_integer, is_floating, is_boolean))
