"""What tells a recording from another: an episode keeps its annotation for as long as this stays the same.

A recording is its frames and rows. Where an episode lies does not count, nor its number: one keeps its
fingerprint in a dataset that grew or was merged, in other files of which all else may differ. Its words count
apart (`goalreel.datasets.fingerprint`).
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
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

from goalreel.datasets.episode_rows import EpisodeRows, EpisodeTable
from goalreel.datasets.labels import SUBTASKS, annotated_subtasks, has_sub_tasks, read_texts
from goalreel.datasets.parquet import list_items, parquet_parts, to_numpy
from goalreel.datasets.stored_files import stored
from goalreel.datasets.video import opened
from goalreel.errors import DatasetError
from goalreel.files import digest

_FRAME_PARTS, _WORD_PARTS = 1, 2


def make_id(frames: str, text: str, former: str) -> str:
    """Join the three digests; 128 bits of the first two are enough."""
    return f"{frames[:32]}-{text[:32]}-{former}"


def pack_id(id: str) -> bytes:
    """The 64 bytes of the three digests."""
    return bytes.fromhex(id.replace("-", ""))


def unpack_id(data: bytes) -> str:
    """What `pack_id` packed."""
    text = data.hex()
    return f"{text[:32]}-{text[32:64]}-{text[64:]}"


def same_frames(first: str | None, other: str | None) -> bool:
    """Tell whether both name the same recording, whatever its words are now."""
    return _same(first, other, _FRAME_PARTS)


def same_words(first: str | None, other: str | None) -> bool:
    """Tell whether both name the same recording with the same words."""
    return _same(first, other, _WORD_PARTS)


def _same(first: str | None, other: str | None, parts: int) -> bool:
    if first is None or other is None:
        return first == other
    a, b = first.split("-"), other.split("-")
    return a[:parts] == b[:parts] if len(a) == len(b) else a[-1] == b[-1]


type Info = dict[str, Any]
type Row = dict[str, Any]
"""Of meta/episodes."""

_BATCH_ROWS = 512
"""Read at once: stored images are large."""
_PLACE = ("index", "episode_index")
_WORDS = ("task_index", "subtask_index", "language_persistent", "language_events")
"""Columns of words, or that number them."""


@dataclass(frozen=True)
class Fingerprint:
    """What a dataset's annotation depends on."""

    shared: str
    """Digest of what its episodes have in common: the rate, and the names and kinds of features but words."""
    episodes: Mapping[int, str]
    """Episode -> what names its recording (`recording_id`): rows, first and last keyframes, and words."""

    @classmethod
    def of(cls, root: Path, info: Info, rows: EpisodeRows, tasks: Mapping[int, str]) -> Self:
        """The fingerprint of a `Source`; a data file is read when one of its episodes is asked for."""
        features: dict[str, Info] = info["features"]
        kinds = {k: f["dtype"] for k, f in features.items() if k not in _WORDS}
        shared = digest(json.dumps([float(info["fps"]), kinds], sort_keys=True))
        return cls(shared, _Episodes(root, info, rows, tasks))

    def recording(self, id: str) -> str:
        """What answers on the recording with this id (`Episode.id`) depend on: its frames, rows and words."""
        return self.episodes[int(id.removeprefix("episode_"))].rsplit("-", 1)[0]


class _Episodes(Mapping[int, str]):
    """What names each recording, as bytes: as texts in a dict they would take 400 bytes an episode."""

    def __init__(self, root: Path, info: Info, rows: EpisodeRows, tasks: Mapping[int, str]) -> None:
        self._root, self._info, self._rows, self._tasks = root, info, rows, tasks
        chunks, files = (np.array(rows.column(f"data/{name}")) for name in ("chunk_index", "file_index"))
        self._chunks, self._files = chunks, files
        ids = np.zeros((len(rows), 64), np.uint8)
        self._ids = EpisodeTable(rows.indices, ids, lambda row: unpack_id(row.tobytes()))
        self._known = np.zeros(len(rows), np.bool_)
        self._reading = Lock()

    def __getitem__(self, episode: int) -> str:
        at = self._ids.at(episode)
        with self._reading:
            if not self._known[at]:
                together = (self._chunks == self._chunks[at]) & (self._files == self._files[at])
                self._read(np.flatnonzero(together))
                self._known[together] = True
        return self._ids[episode]

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def _read(self, inside: NDArray[np.int64]) -> None:
        """Read all episodes of one data file, so that none is read once an episode; `inside` are their rows.

        Raises:
            DatasetError: the data file cannot be read.
        """
        path = stored(self._root, self._info["data_path"], self._rows[inside[0]], "data")
        videos = sorted(k for k, f in self._info["features"].items() if f["dtype"] == "video")
        cameras = [self._keyframes(inside, camera) for camera in videos]
        episodes = EpisodeTable(self._ids.episodes[inside], inside, int)
        has_rows = np.zeros(len(inside), np.bool_)
        try:
            for episode, digests in _runs(path, self._tasks):
                if episode in episodes:
                    at = episodes.at(episode)
                    has_rows[at] = True
                    self._put(inside[at], digests, [camera[at] for camera in cameras])
        except FileNotFoundError as e:
            raise DatasetError(f"{path} is missing: copy the dataset again") from e
        except (pa.ArrowException, OSError) as e:
            raise DatasetError(f"{path}: not readable as data parquet ({e}): copy the dataset again") from e
        for at in np.flatnonzero(~has_rows):
            self._put(inside[at], _Run(self._tasks).digests(), [camera[at] for camera in cameras])

    def _put(self, at: int, digests: tuple[str, str, str], frames: Sequence[bytes]) -> None:
        """Note the episode of a row, by the digests of its rows and of its keyframes."""
        numbers, text_digest, whole = digests
        text_digest = digest(text_digest, self._sub_tasks, self._labels(self._rows[at]))
        id = make_id(digest(numbers, *frames), text_digest, digest(whole, *frames))
        self._ids.rows[at] = np.frombuffer(pack_id(id), np.uint8)

    @cached_property
    def _sub_tasks(self) -> str:
        """The texts to which `subtask_index` points; what is wrong with them shows when they are read."""
        try:
            return str(sorted(read_texts(self._root / SUBTASKS, "subtask").items()))
        except DatasetError:
            return ""

    def _labels(self, row: Row) -> str:
        """What tells of an episode's words outside of its rows (`goalreel.datasets.labels`)."""
        stages = {name: row[name] for name in sorted(row) if "subtask_" in name}
        per_frame = has_sub_tasks(self._info["features"])
        instruction = list(row.get("tasks") or ())[:1] if per_frame else []
        try:
            annotations = annotated_subtasks(self._root).get(row["episode_index"])
        except DatasetError:
            annotations = None
        return json.dumps([stages, instruction, annotations], default=str)

    def _keyframes(self, inside: NDArray[np.int64], camera: str) -> NDArray[np.bytes_]:
        """Digests of the first and the last keyframe in each episode's part of a video, as stored.

        That tells a video from another of the same length; reading terabytes is not worth more. One row of
        meta/episodes is in memory at a time: a file may hold 100,000 episodes.
        """
        prefix = f"videos/{camera}"
        all_rows = enumerate(map(self._rows.__getitem__, inside.tolist()))
        rows = (pair for pair in all_rows if np.isfinite(pair[1].get(f"{prefix}/to_timestamp") or np.nan))
        margin, digests = 0.5 / float(self._info["fps"]), np.zeros(len(inside), "S64")

        def path_of(pair: tuple[int, Row]) -> Path:
            return stored(self._root, self._info["video_path"], pair[1], prefix, video_key=camera)

        for path, of_file in itertools.groupby(rows, path_of):
            pair = first = next(of_file)
            try:
                with opened(path, is_new=True) as container:
                    for pair in itertools.chain([first], of_file):
                        start, end = (pair[1][f"{prefix}/{name}_timestamp"] for name in ("from", "to"))
                        packets = (_keyframe(container, s) for s in (start + margin, end - margin))
                        digests[pair[0]] = digest(*packets)
            except (FFmpegError, OSError, IndexError) as e:
                # The damage shows when the frames are decoded; a video that is mended is another one.
                for position, _ in itertools.chain([pair], of_file):
                    digests[position] = type(e).__name__
        return digests


def _runs(path: Path, tasks: Mapping[int, str]) -> Iterator[tuple[int, tuple[str, str, str]]]:
    """The digests of each run of rows of one episode, however the file is cut into batches."""
    at, run = None, _Run(tasks)
    for batch in _batches(path):
        episodes = to_numpy(batch.column("episode_index"))
        cuts = [0, *(np.flatnonzero(np.diff(episodes)) + 1), len(episodes)]
        for start, end in itertools.pairwise(cuts):
            if start == end:
                continue
            if at is not None and episodes[start] != at:
                yield at, run.digests()
                run = _Run(tasks)
            at = int(episodes[start])
            run.add(batch.slice(start, end - start))
    if at is not None:
        yield at, run.digests()


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    for part in parquet_parts(path):
        columns = [name for name in part.schema_arrow.names if name != "index"]  # counted through the dataset
        yield from part.iter_batches(_BATCH_ROWS, columns=columns)


class _Run:
    """The rows of one episode, hashed column by column as they come."""

    def __init__(self, tasks: Mapping[int, str]) -> None:
        self._tasks = tasks
        self._columns: dict[tuple[str, str], Any] = {}
        """By column and leaf."""
        self._task_runs: list[tuple[str, int]] = []
        """Text of the task, and for how many frames."""
        self._task_indices: set[int] = set()
        self._waiting: list[pa.RecordBatch] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows; they are hashed in batches counted from the episode's start, for nulls change a batch."""
        self._waiting.append(rows)
        while sum(map(len, self._waiting)) >= _BATCH_ROWS:
            table = pa.Table.from_batches(self._waiting).combine_chunks()
            self._waiting = table.slice(_BATCH_ROWS).to_batches()
            self._add(table.slice(0, _BATCH_ROWS).to_batches()[0])

    def digests(self) -> tuple[str, str, str]:
        """Those of the numbers, the words and all of it, once all rows are there."""
        if self._waiting:
            self._add(pa.Table.from_batches(self._waiting).combine_chunks().to_batches()[0])
            self._waiting = []
        return self.numbers(), self.words(), self.all_rows()

    def _add(self, rows: pa.RecordBatch) -> None:
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            for leaf, data in _leaves(name, column):
                self._columns.setdefault((name, leaf), hashlib.sha256()).update(data)
        if "task_index" in rows.schema.names:
            indices = rows.column("task_index").to_pylist()
            self._task_indices |= set(indices)
            for index, frames in itertools.groupby(indices):
                self._add_task((self._tasks.get(index) or "").strip(), len(list(frames)))

    def _add_task(self, text: str, count: int) -> None:
        if self._task_runs and self._task_runs[-1][0] == text:
            count += self._task_runs.pop()[1]
        self._task_runs.append((text, count))

    def numbers(self) -> str:
        """Digest of the rows without words and place."""
        return self._digest(lambda name: name not in (*_WORDS, *_PLACE))

    def words(self) -> str:
        """Digest of the tasks by their texts, whatever their numbers, and of the sub-task labels."""
        labels = self._digest(lambda name: name in ("subtask_index", "language_persistent"))
        return digest(labels, json.dumps(self._task_runs))

    def all_rows(self) -> str:
        """Digest of all of it, as records from before have it."""
        tasks = [f"{task} {self._tasks.get(task)}" for task in sorted(self._task_indices)]
        return self._digest(lambda name: True, *tasks)

    def _digest(self, takes: Callable[[str], bool], *parts: str) -> str:
        leaves = sorted((leaf, sha) for (name, leaf), sha in self._columns.items() if takes(name))
        return digest(*(f"{leaf} {sha.hexdigest()}" for leaf, sha in leaves), *parts)


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
    """The packet of the last keyframe before a time."""
    stream = container.streams.video[0]
    container.seek(int(seconds / float(stream.time_base or 1)), stream=stream, backward=True)
    return bytes(next(container.demux(stream)))
