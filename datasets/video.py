"""Frames out of a video file by time: each wanted frame is decoded once, in file order, from its keyframe.

Timestamps follow lerobot v3.0: one file holds many episodes, and a frame is found by its presentation time.
"""

import itertools
import os
from collections.abc import Iterator, Sequence, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

import av
import numpy as np
from av.container import InputContainer
from av.error import FFmpegError
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from goalreel.errors import DatasetError, first_line
from goalreel.files import check_file


def ffmpeg_url(path: Path) -> str:
    """Absolute path of a file: FFmpeg takes what precedes a colon in a relative one for a protocol."""
    return str(path.absolute())


@dataclass(frozen=True, eq=False)
class VideoIndex:
    """The frames that a file holds; nothing is decoded."""

    path: Path
    pts: NDArray[np.int64]
    """Presentation times in units of `time_base`, ascending, (frames,)."""
    keyframes: NDArray[np.int64]
    """Those of the keyframes."""
    time_base: float
    """Seconds a unit."""
    size: tuple[int, int]
    """(width, height)."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read which frames a video file holds; raises DatasetError where it is missing, damaged or none."""
        if not path.is_file():
            raise DatasetError(f"{path}: the video file is missing: copy the dataset again")
        try:
            with closing(av.open(ffmpeg_url(path), metadata_errors="replace")) as container:
                stream = container.streams.video[0]
                if stream.codec_context is None:
                    raise OSError("of no known codec")
                whole = (p for p in container.demux(stream) if p.pts is not None and not p.is_corrupt)
                packets = ((p.pts, p.is_keyframe) for p in whole)
                rows = np.fromiter(packets, np.dtype([("pts", np.int64), ("key", np.bool_)]))
                time_base, size = float(stream.time_base or 0), (stream.width, stream.height)
        except (FFmpegError, IndexError, OSError) as e:
            raise DatasetError(
                f"{path}: not a readable video ({first_line(e)}): truncated or corrupt?"
            ) from e
        if not rows["key"].any() or not time_base:
            raise DatasetError(f"{path}: the video holds no frame that can be decoded: truncated or corrupt?")
        return cls(path, np.sort(rows["pts"]), np.sort(rows["pts"][rows["key"]]), time_base, size)

    @property
    def times(self) -> NDArray[np.float64]:
        """`pts` in seconds."""
        return self.pts * np.float64(self.time_base)

    def rate(self) -> float | None:
        """Frames a second, by the median of their distances; None of a single frame."""
        return 1 / float(np.median(np.diff(self.times))) if len(self.times) > 1 else None

    def find(self, seconds: NDArray[np.float64], tolerance_s: float) -> list[int | None]:
        """Find the frame nearest to each time, as pts; None where none is within the tolerance (s)."""
        pts = self.pts[self.nearest(seconds)]
        close = np.abs(pts * np.float64(self.time_base) - seconds) <= tolerance_s
        return [at if ok else None for at, ok in zip(pts.tolist(), close, strict=True)]

    def nearest(self, seconds: NDArray[np.float64]) -> NDArray[np.int64]:
        """Number of the frame nearest to each time, of two the earlier one."""
        at = np.clip(np.nan_to_num(seconds / self.time_base), self.pts[0], self.pts[-1])
        # An integer is sought, or numpy would convert all of them.
        upper = np.searchsorted(self.pts, np.ceil(at).astype(np.int64))
        lower = np.maximum(upper - 1, 0)
        before, after = (np.abs(self.pts[i] * np.float64(self.time_base) - seconds) for i in (lower, upper))
        return np.where(before <= after, lower, upper)


def video_index(path: Path) -> VideoIndex:
    """`VideoIndex.read`, remembered for the few files in use as long as they do not change."""
    try:
        key = _version(path)
    except OSError:
        return VideoIndex.read(path)
    return _index(*key)


@lru_cache(maxsize=8)
def _index(path: Path, *version: int) -> VideoIndex:
    return VideoIndex.read(path)


def _version(path: Path) -> tuple[Path, int, int, int]:
    """Make a key that is another one once the file is replaced or written."""
    status = path.stat()
    return path, status.st_ino, status.st_mtime_ns, status.st_size


IDLE = 6
"""Files that stay open for the next frames: opening one takes as long as decoding a few."""
_idle: dict[tuple[object, int], InputContainer] = {}
"""Those that nobody reads, by version and id, the last one used last. Threads take them out by `pop` alone,
which gives each to one; a lock could be held by another thread at a fork."""
os.register_at_fork(after_in_child=_idle.clear)  # both processes would read at one position


@contextmanager
def open_video(path: Path) -> Iterator[InputContainer]:
    """Lend an open video file, anywhere in it; raises FFmpegError or OSError where it is missing or no video.

    One that changed since is opened anew. Up to IDLE files stay open, and on the disk where they are deleted.
    """
    version = _version(check_file(path))
    kept = (_idle.pop(name, None) for name in list(_idle) if name[0] == version)
    container = next(filter(None, kept), None)
    if container is None:
        container = av.open(ffmpeg_url(path), metadata_errors="replace")
        # A decoder's threads do not pay for a few frames, and do not live on in a forked process.
        container.streams.video[0].codec_context.thread_count = 1
    try:
        yield container
    except BaseException:
        container.close()
        raise
    _idle[version, id(container)] = container
    for name in list(_idle)[:-IDLE]:
        if surplus := _idle.pop(name, None):
            surplus.close()


def decode(index: VideoIndex, pts: Sequence[int]) -> dict[int, NDArray[np.uint8]]:
    """Decode the frames at `pts`: pts -> (height, width, 3) RGB; raises DatasetError where one is damaged."""
    targets = sorted(set(pts))
    if not targets:
        return {}
    try:
        with open_video(index.path) as container:
            frames = dict(_walk(container, index, targets))
            if undecoded := [p for p in targets if p not in frames]:
                count, at = len(undecoded), undecoded[0] * index.time_base
                raise DatasetError(f"{index.path}: {count} frame(s) from {at:.2f} s on cannot be decoded")
    except (FFmpegError, OSError) as e:
        raise DatasetError(f"{index.path}: decoding failed ({e}): truncated or corrupt?") from e
    return frames


def _walk(
    container: InputContainer, index: VideoIndex, targets: list[int]
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Decode each target from its keyframe on, those with one keyframe together."""
    reformatter = VideoReformatter()  # a frame's own would set up the conversion anew for each
    key_indices = np.maximum(np.searchsorted(index.keyframes, targets, side="right") - 1, 0)
    keys = dict(zip(targets, index.keyframes[key_indices].tolist(), strict=True))
    for key, group in itertools.groupby(targets, keys.__getitem__):
        container.seek(key, stream=container.streams.video[0], backward=True)
        wanted = set(group)
        for frame in _decoded(container, frozenset(wanted)):
            if frame.pts not in wanted:
                continue
            if frame.is_corrupt:
                return  # a decoder conceals damage by inventing pixels; a goal image must not be invented
            yield frame.pts, np.asarray(reformatter.reformat(frame, format="rgb24").to_ndarray(), np.uint8)
            wanted.remove(frame.pts)
        if wanted:
            return


def _decoded(container: InputContainer, wanted: Set[int]) -> Iterator[VideoFrame]:
    """Decode from here to the last `wanted` frame. Frames that it does not need may be left out."""
    stream = container.streams.video[0]
    decoder, unread = stream.codec_context, set(wanted)
    try:
        for packet in container.demux(stream):
            if decoder.name in ("h264", "hevc"):  # libdav1d leaves out all frames of a kind or none
                decoder.skip_frame = "DEFAULT" if packet.pts in wanted else "NONREF"
            unread.discard(packet.pts)
            yield from stream.decode(packet)
            if not unread:
                yield from stream.decode()  # the frames that it holds back for their order
                break
    finally:
        decoder.skip_frame = "DEFAULT"
