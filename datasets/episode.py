"""The episodes of a LeRobot dataset: their rows in meta, and one recording, its frames when asked for."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets import parquet
from goalreel.datasets.info_file import NumberFeatures, dimension_names, stored
from goalreel.datasets.labels import (
    LABEL_FORMS,
    Label,
    frame_labels,
    has_sub_tasks,
    joined_tasks,
    read_labels,
)
from goalreel.datasets.parquet import are_texts, array, read_schema, read_table, sort_rows, to_numpy
from goalreel.datasets.video import VideoIndex, decode, video_index
from goalreel.errors import DatasetError, InputError, first_line
from goalreel.files import find
from goalreel.image import Image, check_picture_size
from goalreel.terms import LabelForm

_NEEDED = ("episode_index", "length", "data/chunk_index", "data/file_index")
_WHOLE = (*_NEEDED[:2], "dataset_from_index", "dataset_to_index")
_FILE = re.compile(r"chunk-(\d+)/file-(\d+)\.parquet")


class EpisodeRows:
    """`meta/episodes`: a row an episode, without its statistics, in order; each is made when it is asked for.

    They are kept as columns: as Python objects 100,000 rows would take 250 MB.
    """

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
                raise DatasetError(
                    f"{path}: not readable as parquet ({first_line(e)}), where lerobot fails: "
                    "remove a stray file, or copy the dataset again"
                ) from e
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


@dataclass(frozen=True, eq=False)
class Episode:
    """Implements `goalreel.types.Recording`. Frames are counted from 0 within the episode."""

    root: Path
    index: int
    instruction: str
    fps: float
    timestamps: NDArray[np.float32]
    """Seconds, (n,), as recorded."""
    state: NDArray[np.float32]
    """`observation.state`, or what stands for it (`find_numbers`), (n, dims); (n, 0) without one."""
    action: NDArray[np.float32]
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    data_path: Path
    row: dict[str, Any]
    info: dict[str, Any]
    tasks: tuple[tuple[int, str], ...] = ()
    """(first frame, text) of each run of frames with one task; a text may be empty."""
    subtask_index: NDArray[np.int64] | None = None
    """Sub-tasks as lerobot 0.4 and 0.5 had them, (n,), -1 for none; None without the feature."""

    @classmethod
    def read(
        cls,
        root: Path,
        info: dict[str, Any],
        row: dict[str, Any],
        tasks: dict[int, str],
        numbers: NumberFeatures,
    ) -> Self:
        """Read and check the rows of an episode.

        Raises:
            DatasetError: rows missing, frames out of order, NaN in state or action, no instruction.
        """
        index, where = row["episode_index"], f"{root}: episode {row['episode_index']}"
        path = stored(root, info["data_path"], row, "data")
        dtypes = tuple((name, feature["dtype"]) for name, feature in info["features"].items())
        with _one_line(path, where):
            status = path.stat()
            names = (*numbers.state, *numbers.action)
            table, episodes = _numbers(path, names, dtypes, status.st_mtime_ns, status.st_size)
        start, stop = np.searchsorted(episodes, [index, index + 1]).tolist()
        table = sort_rows(table.slice(start, stop - start), "frame_index")
        if len(table) != row["length"] or not len(table):
            raise DatasetError(
                f"{where}: {path.name} holds {len(table)} frames but meta/episodes says {row['length']}"
            )
        features, timestamps = info["features"], _columns(table, ["timestamp"], where)[:, 0]
        if np.isnan(timestamps).any() or (np.diff(timestamps) <= 0).any():
            raise DatasetError(f"{where}: timestamps in {path.name} do not increase")
        state, action = (_columns(table, names, where) for names in (numbers.state, numbers.action))
        for names, values in ((numbers.state, state), (numbers.action, action)):
            size = sum(prod(features[name]["shape"]) for name in names if name in table.column_names)
            if values.shape[1] != size:
                raise DatasetError(
                    f"{where}: {', '.join(names)}: {values.shape[1]} numbers a frame, and {size} in "
                    "meta/info.json: correct its shape there"
                )
        task_runs = frame_labels(_indices(table, "task_index"), tasks)
        instruction = joined_tasks(task_runs)
        if has_sub_tasks(features) and len(listed := row.get("tasks") or ()) > 1:
            instruction = str(listed[0]).strip()  # the frames have their sub-tasks, and lerobot any order
        if not instruction:
            raise DatasetError(f"{where}: empty instruction: name its task in meta/tasks.parquet")
        return cls(
            root=root,
            index=index,
            instruction=instruction,
            fps=float(info["fps"]),
            timestamps=timestamps,
            state=state,
            action=action,
            state_names=dimension_names(features, numbers.state),
            action_names=dimension_names(features, numbers.action),
            data_path=path,
            row=row,
            info=info,
            tasks=tuple(task_runs),
            subtask_index=_indices(table, "subtask_index") if "subtask_index" in features else None,
        )

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def id(self) -> str:
        return episode_id(self.index)

    @property
    def _where(self) -> str:
        return f"{self.root}: episode {self.index}"

    def check(self, camera: str) -> None:
        """Find every frame of a camera without decoding any; raises DatasetError where some are missing."""
        if self.is_video(camera):
            self.locate(camera, range(len(self)))

    def frames(self, camera: str, indices: Sequence[int]) -> list[Image]:
        """Decode frames of one camera, each once; `Image.frame` is `CAMERA#INDEX`.

        Raises:
            DatasetError: no such camera, or a frame that cannot be decoded or is too large or too thin.
            IndexError: an index outside the episode.
        """
        if any(not 0 <= i < len(self) for i in indices):
            raise IndexError(f"episode {self.index} has {len(self)} frames, asked for {list(indices)}")
        if self.is_video(camera):
            video, pts = self.locate(camera, indices)
            try:
                decoded = decode(video, pts)
                for height, width, _ in {picture.shape for picture in decoded.values()}:
                    check_picture_size(width, height)
            except (DatasetError, InputError) as e:
                raise DatasetError(f"{self._where}: {camera}: {e}") from e
            pictures = [decoded[p] for p in pts]
        else:
            pictures = self._stored_images(camera, indices)
        return [Image(p, frame=f"{camera}#{i}") for p, i in zip(pictures, indices, strict=True)]

    def subtasks(self, form: LabelForm | None = None) -> tuple[Label, ...]:
        """The sub-task labels that it has in a form, in order of time; empty without any.

        None takes the first of `LABEL_FORMS` in which it has some. A label holds until the next one.
        """
        forms = LABEL_FORMS if form is None else (form,)
        episode: Any = self  # the type checker takes it for another class than labels.py's, by a link
        return next((labels for name in forms if (labels := read_labels(episode, name))), ())

    def is_video(self, camera: str) -> bool:
        """Tell if a camera is stored as video, not as a picture a row; raises DatasetError for no camera."""
        feature = self.info["features"].get(camera)
        if feature is None or feature["dtype"] not in ("image", "video"):
            raise DatasetError(f"{self._where}: no camera {camera!r}")
        return feature["dtype"] == "video"

    def locate(self, camera: str, indices: Sequence[int]) -> tuple[VideoIndex, list[int]]:
        """The file of a camera's video, and the presentation time of each frame in it, in the file's units.

        Raises DatasetError where the file or some of the frames are missing.
        """
        prefix = f"videos/{camera}"
        try:
            start = float(self.row[f"{prefix}/from_timestamp"])
            path = stored(self.root, self.info["video_path"], self.row, prefix, video_key=camera)
            video = video_index(path)
        except (KeyError, TypeError) as e:
            raise DatasetError(f"{self._where}: meta/episodes does not say where {camera} is stored") from e
        except DatasetError as e:
            raise DatasetError(f"{self._where}: {e}") from e
        times, tolerance = self.timestamps.astype(np.float64), 0.5 / self.fps
        pts = video.find(start + times[list(indices)], tolerance)
        found = [p for p in pts if p is not None]
        if (count := len(set(found))) == (wanted := len(set(indices))):
            return video, found
        raise DatasetError(
            f"{path}: {count} of the {wanted} frames of episode {self.index} are in the video at their "
            f"timestamps: goalreel check {self.root} says why"
        )

    def _stored_images(self, camera: str, indices: Sequence[int]) -> list[NDArray[np.uint8]]:
        """Decode stored pictures; row groups without any of the episode are not read."""
        with _one_line(self.data_path, self._where):
            with parquet.open_parquet(self.data_path) as file:
                spans = parquet.value_spans(file.metadata, "episode_index")
                groups = [
                    i for i, span in enumerate(spans) if span is None or span[0] <= self.index <= span[1]
                ]
                table = file.read_row_groups(groups, ["episode_index", "frame_index", camera])
            rows = np.flatnonzero(to_numpy(table["episode_index"]) == self.index)
            cells = sort_rows(table.take(array(rows, pa.int64())), "frame_index")[camera]
        pictures = []
        for index in indices:
            cell = cells[index].as_py() or {}
            try:
                pictures.append(Image.decode(cell.get("bytes") or b"").pixels)
            except ValueError as e:
                raise DatasetError(f"{self._where}: {camera} frame {index}: {e}") from e
        return pictures


def episode_id(index: int) -> str:
    """Name of an episode as a task."""
    return f"episode_{index:06d}"


def _indices(table: pa.Table, name: str) -> NDArray[np.int64]:
    """A column of indices, (n,); -1 where there is none."""
    if name not in table.column_names:
        return np.full(len(table), -1)
    values = table[name].to_pylist()
    return np.array([-1 if v is None or v != v else int(v) for v in values], np.int64)


def _columns(table: pa.Table, names: Sequence[str], where: str) -> NDArray[np.float32]:
    """Numeric columns side by side, (n, dims) float32; (n, 0) without any, and for one that is not there."""
    parts = [np.zeros((len(table), 0), np.float32)]
    for name in (name for name in names if name in table.column_names):
        try:
            parts.append(np.array(table[name].to_pylist(), np.float32).reshape(len(table), -1))
        except (ValueError, TypeError) as e:
            raise DatasetError(f"{where}: {name} has empty cells, or cells of different sizes") from e
        if name != "timestamp" and not (finite := np.isfinite(parts[-1])).all():
            raise DatasetError(f"{where}: {name} is NaN or infinite at frame {np.argwhere(~finite)[0, 0]}")
    joined = np.concatenate(parts, axis=1)
    joined.flags.writeable = False
    return joined


@contextmanager
def _one_line(path: Path, where: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as e:
        raise DatasetError(f"{where}: {path} is missing: copy the dataset again") from e
    except (pa.ArrowException, OSError, KeyError) as e:
        raise DatasetError(f"{where}: {path} is not readable ({first_line(e)})") from e


@lru_cache(maxsize=2)
def _numbers(
    path: Path, numbers: tuple[str, ...], dtypes: tuple[tuple[str, str], ...], mtime_ns: int, size: int
) -> tuple[pa.Table, NDArray[np.int64]]:
    """Read the numbers of a data file sorted by episode, and each row's episode; two files are remembered."""
    columns, schema = (*parquet.COUNTS, *numbers), parquet.read_schema(path)
    if fault := next(parquet.column_faults(schema, dict(dtypes)), None):
        raise pa.ArrowInvalid(fault)
    table = parquet.read_table(path, [name for name in schema.names if name in columns]).combine_chunks()
    table = sort_rows(table, "episode_index")
    return table, to_numpy(table["episode_index"])
