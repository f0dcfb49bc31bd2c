"""Names of recordings, by which an episode keeps its annotation for as long as its recording stays the same.

A recording is its frames and rows. Where an episode lies does not count, nor its number: one keeps its
fingerprint in a dataset that grew or was merged, in other files of which all else may differ. Its words count
apart. A recording is called `FRAMES-WORDS-ROWS`, three digests in hex: FRAMES is of its numbers and keyframes
and says which recording it is, WORDS of its tasks and sub-task labels, on which a plan depends, ROWS of all
that its rows hold.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
import pyarrow as pa
from av.container import InputContainer
from av.error import FFmpegError
from numpy.typing import NDArray

from goalreel.datasets.episode_rows import EpisodeRows
from goalreel.datasets.info_file import stored
from goalreel.datasets.labels import SUBTASKS, annotated_subtasks, has_sub_tasks, read_texts
from goalreel.datasets.parquet import episode_tables, list_items, read_schema, to_numpy
from goalreel.datasets.video import open_video
from goalreel.errors import DatasetError
from goalreel.files import digest

type Info = dict[str, Any]
type Row = dict[str, Any]
"""A row of meta/episodes."""

_BATCH_ROWS = 512
"""Rows of an episode that are hashed together, counted from its start: a null changes its batch."""
_PLACE = ("index", "episode_index")
_WORDS = ("task_index", "subtask_index", "language_persistent", "language_events")
"""Columns of words, or that number them."""


def make_id(frames: str, text: str, rows: str) -> str:
    """Join the three digests; 128 bits of the first two are enough."""
    return f"{frames[:32]}-{text[:32]}-{rows}"


def same_frames(first: str | None, other: str | None) -> bool:
    """Tell if both name the same recording, whatever its words are now."""
    return _parts(first)[:1] == _parts(other)[:1]


def same_words(first: str | None, other: str | None) -> bool:
    """Tell if both name the same recording with the same words."""
    return _parts(first)[:2] == _parts(other)[:2]


def _parts(id: str | None) -> Sequence[str | None]:
    return [None] if id is None else id.split("-")


@dataclass(frozen=True)
class Fingerprint:
    """The part of a dataset that its annotation depends on."""

    shared: str
    """Digest of what its episodes have in common: the rate, and the names and kinds of features but words."""
    episodes: Mapping[int, str]
    """Episode -> the name of its recording."""

    @classmethod
    def of(cls, root: Path, info: Info, rows: EpisodeRows, tasks: Mapping[int, str]) -> Self:
        """Make the fingerprint of a `Source`; a data file is read when one of its episodes is asked for."""
        kinds = {k: f["dtype"] for k, f in info["features"].items() if k not in _WORDS}
        shared = digest(json.dumps([float(info["fps"]), kinds], sort_keys=True))
        return cls(shared, _Episodes(root, info, rows, tasks))

    def recording(self, id: str) -> str:
        """Frames and words of the recording with this id (`Episode.id`), on which answers depend."""
        return self.episodes[int(id.removeprefix("episode_"))].rsplit("-", 1)[0]


class _Episodes(Mapping[int, str]):
    """The names of recordings; all episodes of a data file are read at once."""

    def __init__(self, root: Path, info: Info, rows: EpisodeRows, tasks: Mapping[int, str]) -> None:
        self._root, self._info, self._rows, self._tasks = root, info, rows, tasks
        self._files: dict[object, list[int]] = {}
        """Data file -> its episodes."""
        self._file_of: dict[int, object] = dict(zip(rows.indices.tolist(), rows.places(), strict=True))
        for episode, file in self._file_of.items():
            self._files.setdefault(file, []).append(episode)
        self._ids: dict[int, str] = {}
        self._reading = Lock()

    def __getitem__(self, episode: int) -> str:
        with self._reading:
            if episode not in self._ids:
                self._read(self._files[self._file_of[episode]])
        return self._ids[episode]

    def __iter__(self) -> Iterator[int]:
        return iter(self._file_of)

    def __len__(self) -> int:
        return len(self._file_of)

    def _read(self, episodes: list[int]) -> None:
        """Name the episodes of one data file."""
        rows = {episode: self._rows.of(episode) for episode in episodes}
        path = stored(self._root, self._info["data_path"], rows[episodes[0]], "data")
        videos = sorted(k for k, f in self._info["features"].items() if f["dtype"] == "video")
        cameras = [self._keyframes(rows, camera) for camera in videos]
        digests = dict.fromkeys(episodes, _digests([], self._tasks))
        try:
            columns = [name for name in read_schema(path).names if name != "index"]  # counts all frames
            for episode, table in episode_tables(path, columns):
                parts = (table.slice(at, _BATCH_ROWS) for at in range(0, len(table), _BATCH_ROWS))
                digests[episode] = _digests([part.to_batches()[0] for part in parts], self._tasks)
        except FileNotFoundError as e:
            raise DatasetError(f"{path} is missing: copy the dataset again") from e
        except (pa.ArrowException, OSError) as e:
            raise DatasetError(f"{path}: not readable as data parquet ({e}): copy the dataset again") from e
        for episode, row in rows.items():
            numbers, words, whole = digests[episode]
            frames = [camera.get(episode, b"") for camera in cameras]
            words = digest(words, self._sub_tasks, self._labels(row))
            self._ids[episode] = make_id(digest(numbers, *frames), words, digest(whole, *frames))

    @cached_property
    def _sub_tasks(self) -> str:
        """The texts to which `subtask_index` points; what is wrong with them shows when they are read."""
        try:
            return str(sorted(read_texts(self._root / SUBTASKS, "subtask").items()))
        except DatasetError:
            return ""

    def _labels(self, row: Row) -> str:
        """Words of an episode outside of its rows (`goalreel.datasets.labels`), as JSON."""
        stages = {name: row[name] for name in sorted(row) if "subtask_" in name}
        per_frame = has_sub_tasks(self._info["features"])
        instruction = list(row.get("tasks") or ())[:1] if per_frame else []
        try:
            annotations = annotated_subtasks(self._root).get(row["episode_index"])
        except DatasetError:
            annotations = None
        return json.dumps([stages, instruction, annotations], default=str)

    def _keyframes(self, episodes: Mapping[int, Row], camera: str) -> dict[int, bytes]:
        """Digests of the first and the last keyframe in each episode's part of a video, as stored.

        That tells a video from another of the same length; reading terabytes is not worth more.
        """
        prefix, margin = f"videos/{camera}", 0.5 / float(self._info["fps"])
        has_end = {
            e: r for e, r in episodes.items() if np.isfinite(r.get(f"{prefix}/to_timestamp") or np.nan)
        }
        digests: dict[int, bytes] = {}

        def path_of(episode: int) -> Path:
            return stored(self._root, self._info["video_path"], episodes[episode], prefix, video_key=camera)

        for path, of_file in itertools.groupby(has_end, path_of):
            left = list(of_file)
            try:
                with closing(open_video(path)) as container:
                    while left:
                        row = episodes[left[0]]
                        start, end = (row[f"{prefix}/{name}_timestamp"] for name in ("from", "to"))
                        packets = (_keyframe(container, s) for s in (start + margin, end - margin))
                        digests[left[0]] = digest(*packets).encode()
                        left.pop(0)
            except (FFmpegError, OSError, IndexError) as e:
                # The damage shows when the frames are decoded; a video that is mended is another one.
                digests |= dict.fromkeys(left, type(e).__name__.encode())
        return digests


def _digests(batches: Sequence[pa.RecordBatch], tasks: Mapping[int, str]) -> tuple[str, str, str]:
    """Digests of an episode's rows: of its numbers, of its words, and of all of it.

    Tasks count by their texts, whatever their numbers, but for the last.
    """
    columns: dict[tuple[str, str], Any] = {}
    task_indices: list[int] = []
    for rows in batches:
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            for leaf, data in _leaves(name, column):
                columns.setdefault((name, leaf), hashlib.sha256()).update(data)
        if "task_index" in rows.schema.names:
            task_indices += rows.column("task_index").to_pylist()
    texts = {index: tasks.get(index) for index in set(task_indices)}
    frame_texts = ((texts[index] or "").strip() for index in task_indices)
    task_runs = [[text, len(list(frames))] for text, frames in itertools.groupby(frame_texts)]
    named_tasks = [f"{index} {texts[index]}" for index in sorted(texts)]

    def chosen(takes: Callable[[str], bool], *parts: str) -> str:
        leaves = sorted((leaf, sha) for (name, leaf), sha in columns.items() if takes(name))
        return digest(*(f"{leaf} {sha.hexdigest()}" for leaf, sha in leaves), *parts)

    labels = chosen(lambda name: name in ("subtask_index", "language_persistent"))
    return (
        chosen(lambda name: name not in (*_WORDS, *_PLACE)),
        digest(labels, json.dumps(task_runs)),
        chosen(lambda name: True, *named_tasks),
    )


def _leaves(name: str, column: pa.Array) -> Iterator[tuple[str, bytes]]:
    """The bytes of a column's values, those of nested types apart."""
    kind = column.type
    if pa.types.is_struct(kind):
        for field, values in zip(kind, column.flatten(), strict=True):
            yield from _leaves(f"{name}.{field.name}", values)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield f"{name}#", _list_lengths(column).tobytes()
        yield from _leaves(f"{name}[]", list_items(column))
    elif pa.types.is_primitive(kind) and not column.null_count:
        yield name, to_numpy(column).tobytes()
    else:
        for value in column.to_pylist():
            data = value if isinstance(value, bytes) else str(value).encode()
            yield name, len(data).to_bytes(8, "big") + data


def _list_lengths(column: pa.Array) -> NDArray[Any]:
    """The length of each list as an integer; as a float, NaN for null, where there are nulls."""
    if not column.null_count and isinstance(column, (pa.ListArray, pa.LargeListArray)):
        return np.diff(to_numpy(column.offsets))
    if not column.null_count:
        return np.full(len(column), column.type.list_size, np.int32)
    import pyarrow.compute as pc

    return pc.call_function("list_value_length", [column]).to_numpy(zero_copy_only=False)


def _keyframe(container: InputContainer, seconds: float) -> bytes:
    """Packet of the last keyframe before a time."""
    stream = container.streams.video[0]
    container.seek(int(seconds / float(stream.time_base or 1)), stream=stream, backward=True)
    return bytes(next(container.demux(stream)))
