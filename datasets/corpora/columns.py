"""Convert rows to columns of a Hugging Face dataset, and back; pictures are PNG."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalreel.datasets.corpora.kind import PICTURE, Column, RowKind
from goalreel.errors import DatasetError
from goalreel.image import Image

if TYPE_CHECKING:
    from datasets import Features


def features(kind: RowKind[Any]) -> "Features":
    """The columns of a kind of row, as Hugging Face describes them."""
    from datasets import Features

    return Features({name: _feature(column) for name, column in kind.columns.items()})


def _feature(column: Column) -> object:
    from datasets import Image as Picture
    from datasets import Value

    if isinstance(column, str):
        return Picture() if column == PICTURE else Value(column)
    if isinstance(column, tuple):
        return [_feature(column[0])]
    return {name: _feature(each) for name, each in column.items()}


def to_columns[R](kind: RowKind[R], row: R) -> dict[str, Any]:
    """The row as plain values; pictures as PNG bytes in the form that `datasets` stores."""
    values = kind.encode(row)
    lists = {name: [_stored(image) for image in values[name]] for name in kind.picture_lists}
    return values | {name: _stored(values[name]) for name in kind.pictures} | lists


def _stored(image: Image) -> dict[str, Any]:
    return {"bytes": image.png(), "path": None}


def from_columns[R](kind: RowKind[R], values: Mapping[str, Any]) -> R:
    """The row that `to_columns` made the values from."""
    pictures = {name: Image.decode(values[name]["bytes"]) for name in kind.pictures}
    lists = {name: [Image.decode(v["bytes"]) for v in values[name]] for name in kind.picture_lists}
    return kind.decode({**values, **pictures, **lists})


def read_rows[R](folder: Path, kind: RowKind[R]) -> Iterator[R]:
    """Read the rows of a corpus that `goalreel corpus make` wrote, in order; those finished before a kill.

    Raises:
        DatasetError: there are none, or an older goalreel wrote them.
    """
    import pyarrow.parquet as pq

    shards = sorted((folder / "data").glob("[!.]*.parquet"))  # what a killed run left half-written has a dot
    if not shards:
        raise DatasetError(f"{folder} holds no corpus: `goalreel corpus make --kind {kind.name}` writes one")
    for shard in shards:
        file = pq.ParquetFile(shard)
        if missing := kind.columns.keys() - set(file.schema_arrow.names):
            columns = ", ".join(sorted(missing))
            raise DatasetError(f"{shard} has no {columns}: an older goalreel made it; make the corpus again")
        for batch in file.iter_batches(batch_size=64):
            yield from (from_columns(kind, values) for values in batch.to_pylist())
