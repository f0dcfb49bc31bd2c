"""Frames out of a video file by time: each wanted frame is decoded once, in file order, from its keyframe.

Timestamps follow lerobot v3.0: one file holds many episodes, and a frame is found by its presentation time.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

import av
import numpy as np
from av.container import InputContainer
from av.error import FFmpegError
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from goalreel.datasets.mp4 import read_frame_table
from goalreel.errors import DatasetError


def ffmpeg_url(path: Path) -> str:
    """The absolute path of a file: FFmpeg takes what precedes a colon in a relative path for a protocol."""
    return str(path.absolute())


@dataclass(frozen=True, eq=False)
class VideoIndex:
    """Which frames a file holds, from its header or else its packets (nothing is decoded)."""

    path: Path
    pts: NDArray[np.int64]
    """Presentation times in units of `time_base`, ascending, (frames,)."""
    times: NDArray[np.float64]
    """The same in seconds."""
    keyframes: NDArray[np.int64]
    """Those of the keyframes."""
    time_base: float
    """Seconds a unit."""
    size: tuple[int, int] | None = None
    """(width, height) where the header tells it."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read which frames the video file `path` holds.

        Raises:
            DatasetError: the file is missing, truncated or no video.
        """
        if not path.is_file():
            raise DatasetError(f"{path}: the video file is missing: copy the dataset again")
        try:
            if (table := read_frame_table(path)) is not None and len(table.pts):
                pts, unit = np.sort(table.pts), 1 / table.timescale
                times = pts * np.float64(unit)
                return cls(path, pts, times, np.sort(table.pts[table.is_keyframe]), unit, table.size)
            packets, time_base = _packets(path)
        except (FFmpegError, IndexError, OSError) as e:
            raise DatasetError(f"{path}: not a readable video ({e}): truncated or corrupt?") from e
        if not len(packets) or not time_base:
            raise DatasetError(f"{path}: the video holds no frames: truncated or corrupt?")
        pts = np.sort(packets["pts"])
        return cls(path, pts, pts * time_base, np.sort(packets["pts"][packets["key"]]), time_base)

    def rate(self) -> float | None:
        """Frames a second, by the median of their distances; None of a single frame."""
        return 1 / float(np.median(np.diff(self.times))) if len(self.times) > 1 else None

    def find(self, seconds: NDArray[np.float64], tolerance_s: float) -> list[int | None]:
        """The frame nearest to each time, as pts; None where none is within the tolerance (s)."""
        times = self.times
        upper = np.clip(np.searchsorted(times, seconds), 1, max(len(times) - 1, 1))
        upper = np.minimum(upper, len(times) - 1)
        lower = np.maximum(upper - 1, 0)
        nearest = np.where(np.abs(times[lower] - seconds) <= np.abs(times[upper] - seconds), lower, upper)
        close = np.abs(times[nearest] - seconds) <= tolerance_s
        return [int(self.pts[n]) if ok else None for n, ok in zip(nearest, close, strict=True)]


def _packets(path: Path) -> tuple[NDArray[np.void], float]:
    """Read `pts` and `key` (a keyframe?) of every packet, in file order, and the seconds per unit."""
    with closing(av.open(ffmpeg_url(path))) as container:
        stream = container.streams.video[0]
        packets = ((p.pts, p.is_keyframe) for p in container.demux(stream) if p.pts is not None)
        packets_array = np.fromiter(packets, np.dtype([("pts", np.int64), ("key", np.bool_)]))
        return packets_array, float(stream.time_base or 0)


@lru_cache(maxsize=8)
def _index(path: Path, mtime_ns: int, size: int) -> VideoIndex:
    return VideoIndex.read(path)


def video_index(path: Path) -> VideoIndex:
    """`VideoIndex.read`, remembered for the few files in use as long as they do not change."""
    try:
        status = path.stat()
    except OSError:
        return VideoIndex.read(path)
    return _index(path, status.st_mtime_ns, status.st_size)


class _Idle:
    """The last few video files in use, kept open, since opening one reads the list of all its frames."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.forget()

    def forget(self) -> None:
        """Close nothing and start empty, for a forked process shares its parent's position in each file."""
        self._lock = threading.Lock()
        self._open: list[tuple[VideoIndex, InputContainer]] = []

    @contextmanager
    def container(self, index: VideoIndex) -> Iterator[InputContainer]:
        """Open the file of `index` for one user at a time."""
        with self._lock:
            at = next((i for i, (of, _) in enumerate(self._open) if of is index), None)
            container = None if at is None else self._open.pop(at)[1]
        container = container or _opened(index.path)
        try:
            yield container
        except BaseException:
            container.close()
            raise
        with self._lock:
            self._open.append((index, container))
            old, self._open = self._open[: -self._capacity], self._open[-self._capacity :]
        for _, container in old:
            container.close()


def _opened(path: Path) -> InputContainer:
    container = av.open(ffmpeg_url(path))
    # A decoder's threads do not pay for a few frames, and do not live on in a forked process.
    container.streams.video[0].codec_context.thread_count = 1
    return container


_idle = _Idle(4)
os.register_at_fork(after_in_child=_idle.forget)


def opened(index: VideoIndex) -> AbstractContextManager[InputContainer]:
    """The file of `index`, nobody else's meanwhile."""
    return _idle.container(index)


def decode(index: VideoIndex, pts: Sequence[int]) -> dict[int, NDArray[np.uint8]]:
    """Decode the frames shown at `pts`: pts -> (height, width, 3) RGB.

    Raises:
        DatasetError: a frame cannot be decoded.
    """
    targets = sorted(set(pts))
    if not targets:
        return {}
    try:
        with _idle.container(index) as container:
            frames = dict(_walk(container, index, targets))
    except (FFmpegError, OSError) as e:
        raise DatasetError(f"{index.path}: decoding failed ({e}): truncated or corrupt?") from e
    if undecoded := [p for p in targets if p not in frames]:
        at = undecoded[0] * index.time_base
        raise DatasetError(f"{index.path}: {len(undecoded)} frame(s) from {at:.2f} s on cannot be decoded")
    return frames


def _walk(
    container: InputContainer, index: VideoIndex, targets: list[int]
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Decode forward, jumping ahead whenever a keyframe lies between here and the next wanted frame."""
    stream = container.streams.video[0]
    position, upcoming = None, None
    reformatter = VideoReformatter()  # a frame's own would set up the conversion anew for each
    key_indices = np.maximum(np.searchsorted(index.keyframes, targets, side="right") - 1, 0)
    for target, key in zip(targets, index.keyframes[key_indices].tolist(), strict=True):
        if position is None or key > position:
            container.seek(key, stream=stream, backward=True)
            upcoming = container.decode(stream)
        for frame in upcoming or ():
            position = frame.pts
            if position == target and frame.is_corrupt:
                return  # a decoder conceals damage by inventing pixels; a goal image must not be invented
            if position == target:
                yield target, np.asarray(reformatter.reformat(frame, format="rgb24").to_ndarray(), np.uint8)
                break
            if position is not None and position > target:
                return
