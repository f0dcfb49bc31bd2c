"""Parquet files and Arrow columns, from and to Python and numpy, without pandas and `pyarrow.compute`.

pyarrow's own `to_numpy`, `pa.array` and `read_table` import pandas where it is installed, and `take`,
`sort_by` and `unique` import `pyarrow.compute`: half a second of commands that take two.
"""

import itertools
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

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


GROUPS = 256
"""Row groups of a part: each takes 25 KB of memory, and two parts are in memory when the next is opened."""
SMALL = 1 << 20
"""A footer of up to so many bytes is left whole: about a thousand groups."""
_MAGIC = b"PAR1"
_ROW_GROUPS = b"\x19"
"""The header of the field `row_groups`: a list, the first field after `num_rows`."""
_INTEGERS = re.compile(rb"(?:[\x14-\x16\x24-\x26\x34-\x36\x44-\x46][\x80-\xff]*+[\x00-\x7f])*+")
"""Integer fields in a row, a header and a number each: most of what there is, skipped at once."""


@dataclass(frozen=True)
class _Footer:
    """A footer that is cut: what precedes the list of row groups, where its parts are, and what follows."""

    before: bytes
    parts: tuple[tuple[int, int, int], ...]
    """Where the first group of a part begins in the file, where its last ends, and how many there are."""
    after: bytes


def parquet_parts(path: Path, first: int = 0) -> Generator[pq.ParquetFile]:
    """Open a file part by part, in the order of its rows, from the part `first` on; most files are one part.

    Of a part's metadata, `num_rows` tells of the whole file.

    Raises:
        pa.ArrowException, OSError: the file is damaged, or is not there.
    """
    status = path.stat()
    footer = _cut(path, status.st_mtime_ns, status.st_size)
    if footer is None:
        with pq.ParquetFile(path) as file:
            yield file
        return
    for start, end, count in footer.parts[first:]:
        with path.open("rb") as stream:
            stream.seek(start)
            groups = stream.read(end - start)
        text = b"".join((footer.before, _list_header(count), groups, footer.after))
        whole = b"".join((_MAGIC, text, len(text).to_bytes(4, "little"), _MAGIC))
        with pq.ParquetFile(path, metadata=pq.read_metadata(pa.BufferReader(whole))) as part:
            yield part


def row_groups(path: Path) -> Iterator[pq.RowGroupMetaData]:
    """Describe the row groups of a file one by one.

    Raises:
        pa.ArrowException, OSError: as `parquet_parts`.
    """
    for part in parquet_parts(path):
        yield from map(part.metadata.row_group, range(part.num_row_groups))


def read_row_groups(path: Path, numbers: Iterable[int]) -> Iterator[pa.Table]:
    """Read some row groups of a file, `numbers` counted from 0 on and ascending, one at a time.

    Raises:
        pa.ArrowException, OSError: as `parquet_parts`.
    """
    status = path.stat()
    is_cut = _cut(path, status.st_mtime_ns, status.st_size) is not None
    for part, inside in itertools.groupby(numbers, lambda number: number // GROUPS if is_cut else 0):
        with closing(parquet_parts(path, part)) as parts:
            file = next(parts)
            yield from (file.read_row_group(number - part * GROUPS) for number in inside)


def value_spans(path: Path, name: str) -> list[tuple[int, int] | None]:
    """The least and the greatest integer of a column in each part; None where the part does not tell.

    Raises:
        pa.ArrowException, OSError: as `parquet_parts`.
    """
    return [_value_span(part.metadata, name) for part in parquet_parts(path)]


def _value_span(metadata: pq.FileMetaData, name: str) -> tuple[int, int] | None:
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    # Not by `metadata.schema`: the two hold one another, and wait for the garbage collector, at 6 MB a part.
    paths = [groups[0].column(i).path_in_schema for i in range(metadata.num_columns)] if groups else []
    at = paths.index(name) if name in paths else None
    statistics = [] if at is None else [group.column(at).statistics for group in groups]
    spans = [(s.min, s.max) for s in statistics if s is not None and s.has_min_max]
    whole = spans and len(spans) == len(groups)
    return (min(a for a, _ in spans), max(b for _, b in spans)) if whole else None


def count_rows(path: Path) -> int:
    """The number of a file's rows.

    Raises:
        pa.ArrowException, OSError: as `parquet_parts`.
    """
    return next(parquet_parts(path)).metadata.num_rows


def parquet_schema(path: Path) -> pa.Schema:
    """The columns of a file.

    Raises:
        pa.ArrowException, OSError: as `parquet_parts`.
    """
    return next(parquet_parts(path)).schema_arrow


@lru_cache(maxsize=8)
def _cut(path: Path, mtime_ns: int, size: int) -> _Footer | None:
    """Cut the footer of a file; None where it is small, or unlike those that are known."""
    with path.open("rb") as stream:
        stream.seek(max(size - 8, 0))
        tail = stream.read()
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or not SMALL < length < size:
            return None
        stream.seek(size - 8 - length)
        text = stream.read(length)
    try:
        return _footer_parts(text, size - 8 - length)
    except (IndexError, ValueError):
        return None


def _footer_parts(text: bytes, offset: int) -> _Footer | None:
    """Cut a footer that begins at `offset` of its file."""
    at = 0
    for _ in range(3):  # version, schema, num_rows
        at = _skip(text, at + 1, text[at] & 15)
    head = text[:at] + _ROW_GROUPS
    if text[at : at + 1] != _ROW_GROUPS:
        return None
    count, kind, at = _list(text, at + 1)
    parts = []
    for first in range(0, count, GROUPS):
        start, groups = at, min(GROUPS, count - first)
        for _ in range(groups):
            at = _skip(text, at, kind)
        parts.append((offset + start, offset + at, groups))
    return _Footer(head, tuple(parts), text[at:])


def _skip(text: bytes, at: int, kind: int) -> int:
    """The place after a value of some kind that begins at `at`."""
    if kind == 12:
        while header := text[at := _end_of_integers(text, at)]:
            at += 1
            if header < 16:  # the field's number follows
                _, at = _number(text, at)
            if (kind := header & 15) > 2:  # else a boolean, in the header
                at = _skip(text, at, kind)
        return at + 1
    if kind == 8:
        length, at = _number(text, at)
        return at + length
    if kind in (4, 5, 6):
        return _number(text, at)[1]
    if kind in (9, 10):
        count, kind, at = _list(text, at)
        for _ in range(count):
            at = _skip(text, at, kind)
        return at
    if kind in (1, 2, 3, 7):
        return at + (8 if kind == 7 else 1)
    raise ValueError(f"no Thrift type {kind} is known in a footer")


def _end_of_integers(text: bytes, at: int) -> int:
    match = _INTEGERS.match(text, at)
    return match.end() if match else at


def _list(text: bytes, at: int) -> tuple[int, int, int]:
    """The length of a list, the kind of its items, and where they begin."""
    header, at = text[at], at + 1
    count = header >> 4
    if count == 15:
        count, at = _number(text, at)
    return count, header & 15, at


def _number(text: bytes, at: int) -> tuple[int, int]:
    """A varint, and the place after it."""
    value = shift = 0
    while (byte := text[at]) > 127:
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
    return value | byte << shift, at + 1


def _list_header(count: int) -> bytes:
    """The header of a list of structs."""
    if count < 15:
        return bytes([count << 4 | 12])
    number = bytearray()
    while count > 127:
        number.append(count & 127 | 128)
        count >>= 7
    return bytes([0xFC]) + bytes(number) + bytes([count])
