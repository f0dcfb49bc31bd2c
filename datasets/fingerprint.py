"""What tells a recording from another: an episode keeps its annotation for as long as this stays the same.

Where an episode lies does not count, so one keeps its fingerprint in a dataset that grew or was merged, in
other files of which all else may differ.
"""

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Self

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from av.container import InputContainer
from av.error import FFmpegError
from numpy.typing import NDArray

from goalreel.datasets.arrow import list_items, to_numpy
from goalreel.datasets.episode import stored
from goalreel.datasets.episode_rows import EpisodeRows
from goalreel.datasets.video import ffmpeg_url
from goalreel.errors import DatasetError
from goalreel.files import digest

type Info = dict[str, Any]
type Row = dict[str, Any]
"""Of meta/episodes."""

_BATCH_ROWS = 512
"""Read at once: stored images are large."""


@dataclass(frozen=True)
class Fingerprint:
    """What a dataset's annotation depends on."""

    shared: str
    """Digest of what its episodes have in common: the rate, and the features' types, shapes and names."""
    episodes: Mapping[int, str]
    """Episode -> digest of its rows, its instruction, and its first and last keyframe in each video."""

    @classmethod
    def of(cls, root: Path, info: Info, rows: EpisodeRows, tasks: Mapping[int, str]) -> Self:
        """The fingerprint of a `Source`; a data file is read when one of its episodes is asked for."""
        features = {k: [f["dtype"], f.get("shape"), f.get("names")] for k, f in info["features"].items()}
        shared = json.dumps([float(info["fps"]), features], sort_keys=True)
        return cls(digest(shared), _Episodes(root, info, rows, tasks))

    def recording(self, id: str) -> str:
        """The fingerprint of the recording with this id (`Episode.id`)."""
        return self.episodes[int(id.removeprefix("episode_"))]


class _Episodes(Mapping[int, str]):
    def __init__(self, root: Path, info: Info, rows: EpisodeRows, tasks: Mapping[int, str]) -> None:
        self._root, self._info, self._rows, self._tasks = root, info, rows, tasks
        chunks, files = (rows.column(f"data/{name}") for name in ("chunk_index", "file_index"))
        places = list(zip(chunks, files, strict=True))
        self._places = dict(zip(rows.indices.tolist(), places, strict=True))
        self._inside: dict[tuple[int, int], list[int]] = {}
        for at, place in enumerate(places):
            self._inside.setdefault(place, []).append(at)
        self._digests: dict[int, str] = {}
        self._reading = Lock()

    def __getitem__(self, episode: int) -> str:
        with self._reading:
            if episode not in self._digests:
                inside = self._inside[self._places[episode]]
                self._digests |= self._read([self._rows[at] for at in inside])
            return self._digests[episode]

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _read(self, rows: Sequence[Row]) -> dict[int, str]:
        """All episodes of one data file, so that no file is read once an episode.

        Raises:
            DatasetError: the data file cannot be read.
        """
        path = stored(self._root, self._info["data_path"], rows[0], "data")
        try:
            numbers = dict(_row_digests(path, self._tasks))
        except (pa.ArrowException, OSError) as e:
            raise DatasetError(f"{path}: not readable as data parquet ({e}): copy the dataset again") from e
        videos = sorted(k for k, f in self._info["features"].items() if f["dtype"] == "video")
        cameras = [self._keyframes(rows, camera) for camera in videos]
        indices = [row["episode_index"] for row in rows]
        return {i: digest(numbers.get(i, ""), *(camera.get(i, "") for camera in cameras)) for i in indices}

    def _keyframes(self, rows: Sequence[Row], camera: str) -> dict[int, str]:
        """Episode -> digest of the first and the last keyframe in its part of a video, as stored.

        That tells a video from another of the same length; reading terabytes is not worth more.
        """
        prefix = f"videos/{camera}"
        files: dict[Path, list[Row]] = {}
        for row in rows:
            if row.get(f"{prefix}/to_timestamp") is not None:
                path = stored(self._root, self._info["video_path"], row, prefix, video_key=camera)
                files.setdefault(path, []).append(row)
        margin, digests = 0.5 / float(self._info["fps"]), {}
        for path, inside in files.items():
            try:
                with closing(av.open(ffmpeg_url(path))) as container:
                    for row in inside:
                        first, end = row[f"{prefix}/from_timestamp"], row[f"{prefix}/to_timestamp"]
                        packets = (_keyframe(container, s) for s in (first + margin, end - margin))
                        digests[row["episode_index"]] = digest(*packets)
            except (FFmpegError, OSError, IndexError) as e:
                # The damage shows when the frames are decoded; a video that is mended is another one.
                digests = {row["episode_index"]: type(e).__name__ for row in inside} | digests
        return digests


def _row_digests(path: Path, tasks: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """The digest of each run of rows of one episode, however the file is cut into batches."""
    file = pq.ParquetFile(path)
    columns = [name for name in file.schema_arrow.names if name != "index"]  # counted through the dataset
    at, run = None, _Run(tasks)
    for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
        episodes = to_numpy(batch.column("episode_index"))
        cuts = [0, *(np.flatnonzero(np.diff(episodes)) + 1), len(episodes)]
        for start, end in itertools.pairwise(cuts):
            if start == end:
                continue
            if at is not None and episodes[start] != at:
                yield at, run.digest()
                run = _Run(tasks)
            at = int(episodes[start])
            run.add(batch.slice(start, end - start))
    if at is not None:
        yield at, run.digest()


class _Run:
    """The rows of one episode, hashed column by column as they come."""

    def __init__(self, tasks: Mapping[int, str]) -> None:
        self._tasks = tasks
        self._columns: dict[str, Any] = {}
        self._task_indices: set[int] = set()

    def add(self, rows: pa.RecordBatch) -> None:
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            for leaf, data in _leaves(name, column):
                self._columns.setdefault(leaf, hashlib.sha256()).update(data)
        if "task_index" in rows.schema.names:
            self._task_indices |= set(rows.column("task_index").to_pylist())

    def digest(self) -> str:
        tasks = [f"{task} {self._tasks.get(task)}" for task in sorted(self._task_indices)]
        return digest(*(f"{name} {sha.hexdigest()}" for name, sha in sorted(self._columns.items())), *tasks)


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
