"""Frames out of a video file by time: each wanted frame is decoded once, in file order, from its keyframe.

Timestamps follow lerobot v3.0: one file holds many episodes, and a frame is found by its presentation time.
"""

import bisect
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

import av
import numpy as np
from av.container import InputContainer
from av.error import FFmpegError
from numpy.typing import NDArray

from goalreel.errors import DatasetError


@dataclass(frozen=True)
class VideoIndex:
    """Which frames a file holds, from its packets alone (nothing is decoded)."""

    path: Path
    pts: tuple[int, ...]
    """Presentation times in units of `time_base`, ascending."""
    keyframes: tuple[int, ...]
    time_base: float
    """Seconds a unit."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read which frames the video file `path` holds.

        Raises:
            DatasetError: the file is missing, truncated or no video.
        """
        if not path.is_file():
            raise DatasetError(f"{path}: the video file is missing: copy the dataset again")
        try:
            packets, time_base = _packets(path)
        except (FFmpegError, IndexError, OSError) as e:
            raise DatasetError(f"{path}: not a readable video ({e}): truncated or corrupt?") from e
        if not packets or not time_base:
            raise DatasetError(f"{path}: the video holds no frames: truncated or corrupt?")
        keyframes = sorted(t for t, is_keyframe in packets if is_keyframe)
        return cls(path, tuple(sorted(t for t, _ in packets)), tuple(keyframes), time_base)

    def find(self, seconds: NDArray[np.float64], tolerance_s: float) -> list[int | None]:
        """The frame nearest to each time, as pts; None where none is within the tolerance (s)."""
        pts = np.asarray(self.pts, np.int64)
        times = pts * self.time_base
        right = np.clip(np.searchsorted(times, seconds), 1, max(len(times) - 1, 1))
        right = np.minimum(right, len(times) - 1)
        left = np.maximum(right - 1, 0)
        nearest = np.where(np.abs(times[left] - seconds) <= np.abs(times[right] - seconds), left, right)
        close = np.abs(times[nearest] - seconds) <= tolerance_s
        return [int(pts[n]) if ok else None for n, ok in zip(nearest, close, strict=True)]


def _packets(path: Path) -> tuple[list[tuple[int, bool]], float]:
    """Of every packet in file order its pts and whether it is a keyframe; and the seconds a unit of pts."""
    with closing(av.open(str(path))) as container:
        stream = container.streams.video[0]
        packets = [(p.pts, p.is_keyframe) for p in container.demux(stream) if p.pts is not None]
        return packets, float(stream.time_base or 0)


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


def decode(index: VideoIndex, pts: Sequence[int]) -> dict[int, NDArray[np.uint8]]:
    """Decode the frames shown at `pts`: pts -> (height, width, 3) RGB.

    Raises:
        DatasetError: a frame cannot be decoded.
    """
    wanted = sorted(set(pts))
    if not wanted:
        return {}
    try:
        frames = _frames(index, wanted)
    except (FFmpegError, OSError) as e:
        raise DatasetError(f"{index.path}: decoding failed ({e}): truncated or corrupt?") from e
    if lost := [p for p in wanted if p not in frames]:
        at = lost[0] * index.time_base
        raise DatasetError(f"{index.path}: {len(lost)} frame(s) from {at:.2f} s on cannot be decoded")
    return frames


def _frames(index: VideoIndex, wanted: list[int]) -> dict[int, NDArray[np.uint8]]:
    with closing(av.open(str(index.path))) as container:
        container.streams.video[0].thread_type = "AUTO"
        return dict(_walk(container, index, wanted))


def _walk(
    container: InputContainer, index: VideoIndex, wanted: list[int]
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Decode forward, jumping ahead whenever a keyframe lies between here and the next wanted frame."""
    stream = container.streams.video[0]
    position, upcoming = None, None
    for target in wanted:
        key = index.keyframes[max(bisect.bisect_right(index.keyframes, target) - 1, 0)]
        if position is None or key > position:
            container.seek(key, stream=stream, backward=True)
            upcoming = container.decode(stream)
        for frame in upcoming or ():
            position = frame.pts
            if position == target and frame.is_corrupt:
                return  # a decoder conceals damage by inventing pixels; a goal image must not be invented
            if position == target:
                yield target, np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)
                break
            if position is not None and position > target:
                return
