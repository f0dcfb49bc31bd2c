"""`meta/episodes` of a dataset, kept as columns: as Python objects 100,000 rows would take 250 MB."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets.parquet import are_texts, read_schema, read_table, sort_rows, to_numpy
from goalreel.errors import DatasetError, first_line
from goalreel.files import find

_NEEDED = ("episode_index", "length", "data/chunk_index", "data/file_index")
_WHOLE = (*_NEEDED[:2], "dataset_from_index", "dataset_to_index")
_FILE = re.compile(r"chunk-(\d+)/file-(\d+)\.parquet")


class EpisodeRows:
    """A row an episode, without its statistics, in episode order; each is made when it is asked for."""

    def __init__(self, table: pa.Table, moved: Collection[int] = ()) -> None:
        self._table, self.moved = table.combine_chunks(), moved
        self.indices: NDArray[np.int64] = to_numpy(self._table["episode_index"])
        """Index of each row's episode, ascending, (rows,)."""

    @classmethod
    def read(cls, root: Path) -> Self:
        """Read those of the dataset in `root`; raises DatasetError where any are missing or damaged."""
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
        where = f"{root}: meta/episodes"
        try:
            table = pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException as e:
            raise DatasetError(f"{where}: its files differ in their columns ({first_line(e)})") from e
        if missing := set(_NEEDED) - set(table.column_names):
            names = ", ".join(sorted(missing))
            raise DatasetError(f"{files[0]}: misses the columns {names}: copy the dataset again")
        table = _with_types(where, table)
        for name in ("episode_index", "data/chunk_index", "data/file_index"):
            if empty := table[name].null_count:
                raise DatasetError(f"{where}: {name} is empty in {empty} row(s): fill it")
        return cls(sort_rows(table, "episode_index"))

    def located(self, root: Path) -> Self:
        """Return the rows with the data files that hold the episodes, as lerobot finds them; `moved` differ.

        An episode that is nowhere, or in a file that is not readable, keeps its place.
        """
        places = dict(zip(self.indices.tolist(), self.places(), strict=True))
        inside = dict[tuple[int, int], set[int]]()
        for path in find(root / "data", "*/*.parquet"):
            if match := _FILE.fullmatch(path.relative_to(root / "data").as_posix()):
                inside[int(match[1]), int(match[2])] = _episodes(path)
        held = ((e, place) for place, episodes in inside.items() for e in episodes & places.keys())
        moved = {e: place for e, place in held if e not in inside.get(places[e], ())}
        table = self._table
        for part, name in enumerate(("data/chunk_index", "data/file_index") if moved else ()):
            values = pa.array([place[part] for place in (places | moved).values()], pa.int64())
            table = table.set_column(table.schema.get_field_index(name), name, values)
        return type(self)(table, moved)

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, at: int) -> dict[str, Any]:
        return self._table.slice(range(len(self))[at], 1).to_pylist()[0]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._table.to_batches(max_chunksize=1000):
            yield from batch.to_pylist()

    def __contains__(self, episode: int) -> bool:
        at = int(np.searchsorted(self.indices, episode))
        return at < len(self) and self.indices[at] == episode

    def places(self) -> list[tuple[int, int]]:
        """`data/chunk_index` and `data/file_index` of each row."""
        return list(zip(self.column("data/chunk_index"), self.column("data/file_index"), strict=True))

    def of(self, episode: int) -> dict[str, Any]:
        """The row of an episode; raises KeyError where there is none."""
        if episode not in self:
            raise KeyError(episode)
        return self[int(np.searchsorted(self.indices, episode))]

    def column(self, name: str) -> list[Any]:
        """One value a row; None throughout where there is no such column."""
        return self._table[name].to_pylist() if name in self._table.column_names else [None] * len(self)


def _episodes(path: Path) -> set[int]:
    try:
        return {*to_numpy(read_table(path, ["episode_index"])["episode_index"]).tolist()}
    except (pa.ArrowException, OSError, TypeError):
        return set()


def _with_types(where: str, table: pa.Table) -> pa.Table:
    """Convert the places of episodes to whole numbers and seconds; refuse those that lerobot would refuse."""
    for at, field in enumerate(table.schema):
        if field.name == "tasks" and not are_texts(field.type):
            raise DatasetError(f"{where}: tasks is of type {field.type}: write lists of texts")
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
            raise DatasetError(f"{where}: {field.name} is of type {field.type}: write {needed}") from e
    return table
