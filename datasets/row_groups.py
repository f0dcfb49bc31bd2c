"""Parquet files of any number of row groups, some of the groups at a time.

pyarrow describes every row group of a file that it opens, 10 KB each: 1 GB where 100,000 episodes have one
each. So the footer of a large file is cut here into footers of some groups, without reading what they say.
It is a struct of Thrift's compact protocol (`parquet.thrift`, `FileMetaData`).
"""

import itertools
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

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
    return [_span(part.metadata, name) for part in parquet_parts(path)]


def _span(metadata: pq.FileMetaData, name: str) -> tuple[int, int] | None:
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
        return _parts(text, size - 8 - length)
    except (IndexError, ValueError):
        return None


def _parts(text: bytes, offset: int) -> _Footer | None:
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
