"""Parquet files and Arrow columns, from and to Python and numpy, without pandas and `pyarrow.compute`.

pyarrow's own `to_numpy`, `pa.array` and `read_table` import pandas where it is installed, and `take`,
`sort_by` and `unique` import `pyarrow.compute`: half a second of commands that take two.
"""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import types

from goalreel import errors, files

_ROWS = 512
"""Rows that are read at a time where a row may hold pictures."""


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a parquet file for reading.

    Raises:
        pa.ArrowException: the file is damaged, or has two columns of one name.
        OSError: it is none, or cannot be read.
    """
    files.check_file(path)
    try:
        with pq.ParquetFile(path.absolute()) as file:  # see `atomic`
            if twice := [name for name, count in Counter(file.schema_arrow.names).items() if count > 1]:
                raise pa.ArrowInvalid(f"two columns are called {twice[0]}: remove one")
            _check_features(file.schema_arrow.metadata or {})
            yield file
    except (UnicodeError, OverflowError) as e:  # of names and sizes that are damaged
        raise pa.ArrowInvalid(errors.first_line(e)) from e


def _check_features(metadata: Mapping[bytes, bytes]) -> None:
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features") or {}
        if isinstance(features, dict):
            return
    except (ValueError, AttributeError, RecursionError):
        pass
    raise pa.ArrowInvalid("its description of features for Hugging Face is damaged")


def read_schema(path: Path) -> pa.Schema:
    """The columns of a parquet file; raises as `open_parquet`."""
    with open_parquet(path) as file:
        return file.schema_arrow


def read_metadata(path: Path) -> pq.FileMetaData:
    """The header of a parquet file; raises as `open_parquet`."""
    with open_parquet(path) as file:
        return file.metadata


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read all columns of a parquet file, or some; raises as `open_parquet`, and where one is missing."""
    with open_parquet(path) as file:
        _check_columns(file, columns)
        table = file.read(columns)
    metadata = dict(table.schema.metadata or {})
    metadata.pop(b"content_defined_chunking", None)  # how this very file was cut: not true of a copy
    return table.replace_schema_metadata(metadata or None)


def read_batches(path: Path, columns: Sequence[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
    """Read a parquet file, `rows` rows at a time at most."""
    with open_parquet(path) as file:
        _check_columns(file, columns)
        yield from file.iter_batches(rows, columns=columns)


def episode_tables(path: Path, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
    """Yield each run of rows of one episode in a data file, all `columns` or some with `episode_index`."""
    at, parts = 0, list[pa.RecordBatch]()
    for batch in read_batches(path, columns, _ROWS):
        episodes = to_numpy(batch.column("episode_index"))
        starts = np.flatnonzero(np.diff(episodes, prepend=episodes[:1] - 1)).tolist()
        for start, stop in itertools.pairwise([*starts, len(episodes)]):
            if parts and episodes[start] != at:
                yield at, pa.Table.from_batches(parts).combine_chunks()
                parts = []
            at = int(episodes[start])
            parts.append(batch.slice(start, stop - start))
    if parts:
        yield at, pa.Table.from_batches(parts).combine_chunks()


def _check_columns(file: pq.ParquetFile, columns: Sequence[str] | None) -> None:
    if missing := set(columns or ()) - set(file.schema_arrow.names):
        raise pa.ArrowInvalid(f"no column {', '.join(sorted(missing))}")


def value_spans(metadata: pq.FileMetaData, name: str) -> list[tuple[int, int] | None]:
    """Least and greatest integer of a column in each row group; None where a group does not tell."""
    spans: list[tuple[int, int] | None] = []
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        columns = map(group.column, range(group.num_columns))
        found = next((c.statistics for c in columns if c.path_in_schema == name), None)
        spans.append((found.min, found.max) if found is not None and found.has_min_max else None)
    return spans


def to_numpy(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """The values of a column of numbers, (rows,)."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not values.null_count and (types.is_integer(values.type) or types.is_floating(values.type)):
        return np.from_dlpack(values)
    return values.to_numpy(zero_copy_only=False)


def list_items(column: pa.Array) -> pa.Array:
    """The items of all lists of a column in one array, as `flatten` gives them."""
    if column.null_count:
        return column.flatten()
    if isinstance(column, pa.FixedSizeListArray):
        size = column.type.list_size
        return column.values.slice(column.offset * size, len(column) * size)
    first, end = (column.offsets[i].as_py() for i in (0, -1))
    return column.values.slice(first, end - first)


def is_ragged(column: pa.Array | pa.ChunkedArray) -> bool:
    """Tell if the lists of a column differ in length; empty cells do not count."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not isinstance(values, pa.ListArray | pa.LargeListArray):
        return False
    lengths = values.value_lengths()
    return len(np.unique(to_numpy(lengths.drop_null() if lengths.null_count else lengths))) > 1


def sort_rows(table: pa.Table, name: str) -> pa.Table:
    """Sort the rows by a column of numbers; equal ones keep their order."""
    keys = to_numpy(table[name])
    if (np.diff(keys) >= 0).all():
        return table
    return table.take(array(np.argsort(keys, kind="stable"), pa.int64()))


def array(values: Sequence[Any] | NDArray[Any], kind: pa.DataType) -> pa.Array:
    """An array of numbers, booleans, strings, JSON texts, lists or structs; None is null."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array(values, kind.storage_type))
    null = np.zeros(len(values), bool)
    if not isinstance(values, np.ndarray):
        null = np.array([value is None for value in values], bool)
    validity = _bits(~null) if null.any() else None
    if isinstance(kind, pa.StructType):
        fields = [array([row and row[field.name] for row in values], field.type) for field in kind]
        return pa.Array.from_buffers(kind, len(values), [validity], children=fields)
    if isinstance(kind, pa.ListType):
        items = array([item for row in values for item in row or ()], kind.value_type)
        offsets = _offsets([len(row or ()) for row in values])
        return pa.Array.from_buffers(kind, len(values), [validity, offsets], children=[items])
    if types.is_string(kind):
        texts = [(text or "").encode() for text in values]
        buffers = [validity, _offsets([len(text) for text in texts]), pa.py_buffer(b"".join(texts))]
        return pa.Array.from_buffers(kind, len(values), buffers)
    if null.any():
        values = [0 if value is None else value for value in values]
    numbers = np.ascontiguousarray(values, kind.to_pandas_dtype())
    data = _bits(numbers) if types.is_boolean(kind) else pa.py_buffer(numbers)
    return pa.Array.from_buffers(kind, len(values), [validity, data])


def _offsets(lengths: Sequence[int]) -> pa.Buffer:
    return pa.py_buffer(np.cumsum([0, *lengths], dtype=np.int32))


def _bits(flags: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


COUNTS = ("episode_index", "frame_index", "index", "task_index", "subtask_index", "timestamp")
_NEEDED = ("episode_index", "frame_index", "timestamp")
LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)


def column_faults(schema: pa.Schema, dtypes: Mapping[str, str]) -> Iterator[str]:
    """Yield faults of a data file: columns that are missing, or of a type that nobody reads.

    `dtypes` are those of the features in meta/info.json.
    """
    if missing := [name for name in _NEEDED if name not in schema.names]:
        yield f"has no column {', '.join(missing)}: copy the dataset again"
    for field in schema:
        if needed := _needed(field.name, dtypes.get(field.name, ""), field.type):
            yield f"{field.name} is of type {field.type}: write {needed}"


def are_texts(kind: pa.DataType) -> bool:
    """Tell if a column holds lists of texts, or nothing."""
    return types.is_null(kind) or (isinstance(kind, LISTS) and _is_text(kind.value_type))


def _needed(name: str, dtype: str, kind: pa.DataType) -> str | None:
    """Say what a column should hold; None where it holds that."""
    if name in COUNTS:
        return None if types.is_integer(kind) or types.is_floating(kind) else "numbers"
    if name in ("language_persistent", "language_events"):
        rows = kind.value_type if isinstance(kind, LISTS) else kind
        fields = {f.name: f.type for f in rows} if rows is not kind and types.is_struct(rows) else {}
        bad = [n for n in ("role", "content", "style") if n not in fields or not _is_text(fields[n])]
        if name == "language_persistent" and not _is_number(fields.get("timestamp", pa.string())):
            bad.append("timestamp")  # an event belongs to its frame
        if types.is_null(rows) or not bad:
            return None
        return f"lists of rows with {', '.join(bad)}, as lerobot does"
    if dtype == "image":
        return None if types.is_null(kind) or types.is_struct(kind) else "pictures, as lerobot does"
    if re.match(r"float|u?int|bool", dtype):
        while isinstance(kind, (pa.BaseExtensionType, *LISTS)):
            kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind.value_type
        return None if _is_number(kind) else "numbers"
    return None


def depth(kind: pa.DataType) -> int:
    """Count the lists of a cell, one in another; a matrix has another type where `datasets` is imported."""
    if isinstance(kind, pa.BaseExtensionType):
        return depth(kind.storage_type)
    return 1 + depth(kind.value_type) if isinstance(kind, LISTS) else 0


def _is_text(kind: pa.DataType) -> bool:
    known = (types.is_null, types.is_string, types.is_large_string, types.is_dictionary)
    return any(is_known(kind) for is_known in known)


def _is_number(kind: pa.DataType) -> bool:
    known = (types.is_null, types.is_integer, types.is_floating, types.is_boolean)
    return any(is_known(kind) for is_known in known)
