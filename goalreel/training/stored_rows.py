"""Rows of a corpus on disk, by number; a row's pictures are decoded when it is read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow
from datasets.exceptions import DatasetGenerationError

from goalreel.datasets.corpora.columns import features, from_columns
from goalreel.datasets.corpora.kind import RowKind
from goalreel.errors import InputError, first_line


class StoredRows[R]:
    """The rows of one kind in the Parquet files `shards`.

    Raises:
        InputError: they hold no rows of that kind.
    """

    def __init__(self, kind: RowKind[R], shards: Sequence[Path]) -> None:
        files: list[Any] = [str(shard) for shard in shards]
        try:
            stored: Any = datasets.Dataset.from_parquet(files, columns=list(kind.columns))
            stored = stored.cast(features(kind))
        except (ValueError, pyarrow.ArrowInvalid, DatasetGenerationError) as e:
            raise InputError(f"{files[0]} and others hold no {kind.name}: {_cause(e)}") from e
        for name in kind.pictures:
            stored = stored.cast_column(name, datasets.Image(decode=False))
        self._kind, self._stored = kind, stored

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, number: int) -> R:
        """Read a row."""
        return from_columns(self._kind, self._stored[number])

    def column(self, name: str) -> list[Any]:
        """Read one column of all rows."""
        return list(self._stored[name])


def _cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error)[:200]
