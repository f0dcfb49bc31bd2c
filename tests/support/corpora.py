"""Rows of a corpus, read as they are stored."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from goalreel.datasets.corpora.rows import RowKind, from_columns
from goalreel.files import find


def read_rows[R](folder: Path, kind: RowKind[R]) -> Iterator[R]:
    """Yield the rows of the shards that are finished, in order."""
    for shard in find(folder / "data", "*.parquet"):
        yield from (from_columns(kind, values) for values in pq.read_table(shard).to_pylist())
