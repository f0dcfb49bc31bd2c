"""Names of recordings, by which an episode keeps its annotation for as long as its recording stays the same.

A recording is its frames and rows. Where an episode lies does not count, nor its number: one keeps its
fingerprint in a dataset that grew or was merged, in other files of which all else may differ. Its words count
apart. A recording is called `FRAMES-WORDS`, two digests in hex: FRAMES is of its numbers and keyframes and
says which recording it is, WORDS of its tasks and sub-task labels, on which a plan depends.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
import pyarrow as pa
from av.container import InputContainer
from av.error import FFmpegError

from goalreel.datasets.episode import EpisodeRows
from goalreel.datasets.info_file import stored
from goalreel.datasets.labels import SUBTASKS, annotated_subtasks, has_sub_tasks, read_texts
from goalreel.datasets.parquet import LISTS, episode_tables, list_items, read_schema, to_numpy
from goalreel.datasets.video import open_video
from goalreel.errors import DatasetError
from goalreel.files import digest

type Info = dict[str, Any]
type Row = dict[str, Any]
"""A row of meta/episodes."""

_WORDS = ("task_index", "subtask_index", "language_persistent", "language_events")
"""Columns of words, or that number them."""


def same_frames(first: str | None, other: str | None) -> bool:
    """Tell if both name the same recording, whatever its words are now."""
    return (first or "").partition("-")[0] == (other or "").partition("-")[0]


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
        """Name the recording of the episode with this id (`Episode.id`), on which answers depend."""
        return self.episodes[int(id.removeprefix("episode_"))]


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
        digests = dict.fromkeys(episodes, ("", ""))
        try:
            columns = [name for name in read_schema(path).names if name != "index"]  # counts all frames
            for episode, table in episode_tables(path, columns):
                digests[episode] = _digests(table, self._tasks)
        except FileNotFoundError as e:
            raise DatasetError(f"{path} is missing: copy the dataset again") from e
        except (pa.ArrowException, OSError) as e:
            raise DatasetError(f"{path}: not readable as data parquet ({e}): copy the dataset again") from e
        for episode, row in rows.items():
            numbers, words = digests[episode]
            frames = digest(numbers, *(camera.get(episode, b"") for camera in cameras))
            words = digest(words, self._sub_tasks, self._labels(row))
            self._ids[episode] = f"{frames[:32]}-{words[:32]}"  # 128 bits each are enough

    @cached_property
    def _sub_tasks(self) -> str:
        """The texts to which `subtask_index` points; what is wrong with them shows when they are read."""
        with suppress(DatasetError):
            return str(sorted(read_texts(self._root / SUBTASKS, "subtask").items()))
        return ""

    def _labels(self, row: Row) -> str:
        """Words of an episode outside of its rows (`goalreel.datasets.labels`), as JSON."""
        per_frame, annotations = has_sub_tasks(self._info["features"]), None
        instruction = list(row.get("tasks") or ())[:1] if per_frame else []
        with suppress(DatasetError):
            annotations = annotated_subtasks(self._root).get(row["episode_index"])
        return json.dumps([{}, instruction, annotations], default=str)

    def _keyframes(self, episodes: Mapping[int, Row], camera: str) -> dict[int, bytes]:
        """Digests of the first and the last keyframe in each episode's part of a video, as stored.

        That tells a video from another of the same length; reading terabytes is not worth more.
        """
        prefix, margin = f"videos/{camera}", 0.5 / float(self._info["fps"])
        template, digests = self._info["video_path"], dict[int, bytes]()
        has_end = {
            e: r for e, r in episodes.items() if np.isfinite(r.get(f"{prefix}/to_timestamp") or np.nan)
        }
        paths = {e: stored(self._root, template, r, prefix, video_key=camera) for e, r in has_end.items()}
        for path, of_file in itertools.groupby(paths, paths.__getitem__):
            left = list(of_file)
            try:
                with open_video(path) as container:
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


def _digests(table: pa.Table, tasks: Mapping[int, str]) -> tuple[str, str]:
    """Digests of an episode's numbers, and of its words; tasks count by their texts, not their numbers."""

    def columns(names: Iterable[str]) -> Iterator[bytes]:
        for name in sorted(names):
            yield name.encode()
            yield _content(table[name].combine_chunks())

    names = set(table.column_names)
    indices = table["task_index"].to_pylist() if "task_index" in names else []
    texts = ((tasks.get(index) or "").strip() for index in indices)
    runs = [[text, len(list(frames))] for text, frames in itertools.groupby(texts)]
    labels = names & {"subtask_index", "language_persistent"}
    numbers = names - {*_WORDS, "index", "episode_index"}
    return digest(*columns(numbers)), digest(*columns(labels), json.dumps(runs))


def _content(column: pa.Array) -> bytes:
    """The numbers of a column as they are, whatever lists hold them; anything else as JSON."""
    items = column
    while isinstance(items.type, LISTS) and not items.null_count:
        items = list_items(items)
    if pa.types.is_primitive(items.type) and not items.null_count:
        return to_numpy(items).tobytes()
    return json.dumps(
        column.to_pylist(), default=lambda value: digest(value) if isinstance(value, bytes) else str(value)
    ).encode()


def _keyframe(container: InputContainer, seconds: float) -> bytes:
    """Packet of the last keyframe before a time."""
    stream = container.streams.video[0]
    container.seek(int(seconds / float(stream.time_base or 1)), stream=stream, backward=True)
    return bytes(next(container.demux(stream)))
