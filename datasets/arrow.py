"""Arrow columns from and to Python and numpy, without pandas and `pyarrow.compute`.

pyarrow's own `to_numpy`, `pa.array` and `read_table` import pandas where it is installed, and `take`,
`sort_by` and `unique` import `pyarrow.compute`: half a second of commands that take two.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.datasets.row_groups import parquet_parts, parquet_schema

_OF_THE_FILE = (b"content_defined_chunking",)
"""Notes of a writer on how it cut this very file, which do not hold for a copy."""


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a parquet file, all of its columns or some.

    Raises:
        pa.ArrowException: the file is damaged or misses a column.
        OSError: it cannot be read.
    """
    return _plain(pa.concat_tables([part.read(columns) for part in _parts(path, columns)]))


def read_batches(path: Path, columns: Sequence[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
    """Read a parquet file, `rows` rows at a time at most.

    Raises:
        pa.ArrowException, OSError: as `read_table`.
    """
    for part in _parts(path, columns):
        yield from part.iter_batches(rows, columns=columns)


def read_tables(path: Path, rows: int) -> Iterator[pa.Table]:
    """Read a parquet file in tables of `rows` rows, the last of them smaller; at least one.

    Raises:
        pa.ArrowException, OSError: as `read_table`.
    """
    waiting = _plain(pa.Table.from_batches([], parquet_schema(path)))
    for batch in read_batches(path, None, rows):
        waiting = pa.concat_tables([waiting, _plain(pa.Table.from_batches([batch]))])
        if len(waiting) > rows:
            yield waiting.slice(0, rows).combine_chunks()
            waiting = waiting.slice(rows)
    yield waiting.combine_chunks()


def _parts(path: Path, columns: Sequence[str] | None) -> Iterator[pq.ParquetFile]:
    for part in parquet_parts(path):
        if missing := set(columns or ()) - set(part.schema_arrow.names):
            raise pa.ArrowInvalid(f"no column {', '.join(sorted(missing))}")
        yield part


def _plain(table: pa.Table) -> pa.Table:
    """A table without what its writer noted of the file."""
    metadata = {key: text for key, text in (table.schema.metadata or {}).items() if key not in _OF_THE_FILE}
    return table.replace_schema_metadata(metadata or None)


def to_numpy(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """The values of a column of numbers, (rows,)."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if values.null_count or not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        return values.to_numpy(zero_copy_only=False)
    return np.from_dlpack(values)


def list_items(column: pa.Array) -> pa.Array:
    """The items of all lists of a column in one array, as `flatten` gives them."""
    if column.null_count:
        return column.flatten()
    if isinstance(column, pa.FixedSizeListArray):
        size = column.type.list_size
        return column.values.slice(column.offset * size, len(column) * size)
    first, end = (column.offsets[i].as_py() for i in (0, -1))
    return column.values.slice(first, end - first)


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
    if pa.types.is_string(kind):
        texts = [(text or "").encode() for text in values]
        buffers = [validity, _offsets([len(text) for text in texts]), pa.py_buffer(b"".join(texts))]
        return pa.Array.from_buffers(kind, len(values), buffers)
    if null.any():
        values = [0 if value is None else value for value in values]
    numbers = np.ascontiguousarray(values, kind.to_pandas_dtype())
    data = _bits(numbers) if pa.types.is_boolean(kind) else pa.py_buffer(numbers)
    return pa.Array.from_buffers(kind, len(values), [validity, data])


def _offsets(lengths: Sequence[int]) -> pa.Buffer:
    return pa.py_buffer(np.cumsum([0, *lengths], dtype=np.int32))


def _bits(flags: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
