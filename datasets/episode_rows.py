"""`meta/episodes` of a dataset, kept as columns: as Python objects 100,000 rows would take 250 MB."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets.parquet import (
    are_texts,
    read_metadata,
    read_schema,
    read_table,
    sort_rows,
    to_numpy,
    value_spans,
)
from goalreel.errors import DatasetError, first_line
from goalreel.files import find

_NEEDED = ("episode_index", "length", "data/chunk_index", "data/file_index")
_WHOLE = (*_NEEDED[:2], "dataset_from_index", "dataset_to_index")
_AT_ONCE = 1000
type Place = tuple[int, int]
"""`data/chunk_index` and `data/file_index`."""

_FILE = re.compile(r"chunk-(\d+)/file-(\d+)\.parquet")


class EpisodeRows:
    """A row an episode, without its statistics, in episode order; each is made when it is asked for."""

    def __init__(self, table: pa.Table, moved: frozenset[int] = frozenset()) -> None:
        self._table = table.combine_chunks()
        self.moved = moved
        """The episodes of which meta/episodes names another data file than they are in."""
        self.indices: NDArray[np.int64] = to_numpy(self._table["episode_index"])
        """Index of each row's episode, ascending, (rows,)."""

    @classmethod
    def read(cls, root: Path) -> Self:
        """Read them from the dataset in `root`.

        Raises:
            DatasetError: files or columns are missing or damaged.
        """
        files = find(root / "meta" / "episodes", "*/*.parquet")
        if not files:
            raise DatasetError(f"{root}: meta/episodes holds no parquet file: copy the dataset again")
        tables: list[pa.Table] = []
        for path in files:
            try:
                names = [n for n in read_schema(path).names if not n.startswith("stats/")]
                tables.append(read_table(path, names))
            except (pa.ArrowException, OSError) as e:
                text = f"{path}: not readable as parquet ({first_line(e)}), where lerobot fails"
                raise DatasetError(f"{text}: remove a stray file, or copy the dataset again") from e
            if not len(tables[-1]):
                raise DatasetError(f"{path}: holds no episode, where lerobot fails: remove the file")
        try:
            table = pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException as e:
            raise DatasetError(
                f"{root}: the files in meta/episodes differ in their columns ({first_line(e)})"
            ) from e
        if missing := set(_NEEDED) - set(table.column_names):
            names = ", ".join(sorted(missing))
            raise DatasetError(f"{files[0]}: misses the columns {names}: copy the dataset again")
        table = _with_types(root, table)
        if empty := table["episode_index"].null_count:
            raise DatasetError(
                f"{root}: meta/episodes: episode_index is empty in {empty} row(s): number them"
            )
        return cls(sort_rows(table, "episode_index"))

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self._table.column_names

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, at: int) -> dict[str, Any]:
        return self._table.slice(range(len(self))[at], 1).to_pylist()[0]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self._table.slice(start, _AT_ONCE).to_pylist()

    def __contains__(self, episode: int) -> bool:
        at = int(np.searchsorted(self.indices, episode))
        return at < len(self) and self.indices[at] == episode

    def places(self) -> list[Place]:
        """The data file of each row."""
        return list(zip(self.column("data/chunk_index"), self.column("data/file_index"), strict=True))

    def move(self, places: Mapping[int, Place]) -> "EpisodeRows":
        """Rows with other places of these episodes."""
        table, moved = self._table, zip(self.indices.tolist(), self.places(), strict=True)
        chunks, files = zip(*(places.get(episode, place) for episode, place in moved), strict=True)
        for name, values in (("data/chunk_index", chunks), ("data/file_index", files)):
            at = table.schema.get_field_index(name)
            field = table.schema.field(at)
            table = table.set_column(at, field, pa.array(values, field.type))
        return EpisodeRows(table, frozenset(places))

    def of(self, episode: int) -> dict[str, Any]:
        """The row of an episode.

        Raises:
            KeyError: there is none.
        """
        if episode not in self:
            raise KeyError(episode)
        return self[int(np.searchsorted(self.indices, episode))]

    def column(self, name: str) -> list[Any]:
        """One value a row; None throughout where there is no such column."""
        return self._table[name].to_pylist() if name in self._table.column_names else [None] * len(self)


def _with_types(root: Path, table: pa.Table) -> pa.Table:
    """The places of episodes as whole numbers and seconds, whichever numbers hold them.

    Raises:
        DatasetError: they are no such numbers, or lerobot makes no path of them.
    """
    for at, field in enumerate(table.schema):
        if field.name == "tasks" and not are_texts(field.type):
            raise DatasetError(f"{root}: meta/episodes: tasks is of type {field.type}: write lists of texts")
        of_video, kind, needed = field.name.startswith("videos/"), pa.int64(), "whole numbers, as int64"
        if of_video and field.name.endswith("_timestamp"):
            kind, needed = pa.float64(), "seconds"
        elif field.name not in _WHOLE and not field.name.endswith(("/chunk_index", "/file_index")):
            continue
        is_fraction = pa.types.is_floating(field.type)
        is_number = is_fraction or pa.types.is_integer(field.type) or pa.types.is_null(field.type)
        try:
            # Of a fraction lerobot makes no path of a video.
            if not is_number or (is_fraction and of_video and kind == pa.int64()):
                raise pa.ArrowInvalid
            if field.type != kind:
                values = pa.array(table[at].to_pylist(), from_pandas=True)  # where NaN stands for nothing
                table = table.set_column(at, field.name, values.cast(kind))
        except pa.ArrowException as e:
            text = f"{root}: meta/episodes: {field.name} is of type {field.type}: write {needed}"
            raise DatasetError(text) from e
    return table


def locate(root: Path, rows: EpisodeRows) -> EpisodeRows:
    """Return the rows of meta/episodes with the places of the data files that hold the episodes.

    lerobot finds an episode by the column episode_index, not by what meta/episodes says. An episode that is
    nowhere, or in a file that is not readable, keeps its place.
    """
    inside: dict[Place, set[int]] = {}
    for path in find(root / "data", "*/*.parquet"):
        if match := _FILE.fullmatch(path.relative_to(root / "data").as_posix()):
            inside[int(match[1]), int(match[2])] = _episodes(path)
    named = dict(zip(rows.indices.tolist(), rows.places(), strict=True))
    moved = {
        episode: place
        for place, episodes in inside.items()
        for episode in episodes & named.keys()
        if episode not in inside.get(named[episode], ())
    }
    return rows.move(moved) if moved else rows


def _episodes(path: Path) -> set[int]:
    """Name the episodes in a data file: by its footer, or by its rows where a row group is of several."""
    try:
        spans = value_spans(read_metadata(path), "episode_index")
        if all(span is not None and span[0] == span[1] for span in spans):
            return {span[0] for span in spans if span is not None}
        return set(to_numpy(read_table(path, ["episode_index"])["episode_index"]).tolist())
    except (pa.ArrowException, OSError, TypeError):  # of lists and structs, which no set holds
        return set()
