"""Frames out of a video file by time: each wanted frame is decoded once, in file order, from its keyframe.

Timestamps follow lerobot v3.0: one file holds many episodes, and a frame is found by its presentation time.
The times stand in the header of an mp4 (ISO/IEC 14496-12, 8.6). FFmpeg lists them too, but reads the whole
file for it, which takes hours for a dataset of a terabyte. So it is asked about other files alone.
"""

import itertools
import os
import struct
import threading
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

_SKIPPING = ("h264", "hevc")
"""FFmpeg's decoders that can leave out single frames; libdav1d leaves out all of a kind or none."""
_OPEN = 4
"""Files that are kept open, since opening one reads the list of all its frames."""

type _Frames = tuple[NDArray[np.int64], NDArray[np.bool_], float, tuple[int, int]]
"""Presentation times, which of them are keyframes, the seconds a unit, and (width, height)."""
type _Stamp = tuple[Path, int, int]
"""A file as it is now: its path, the time of its last change, and its size."""


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
    size: tuple[int, int] | None = None
    """(width, height)."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read which frames the video file `path` holds.

        Raises:
            DatasetError: the file is missing, truncated or no video.
        """
        if not path.is_file():
            raise DatasetError(f"{path}: the video file is missing: copy the dataset again")
        try:
            pts, is_keyframe, time_base, size = _mp4_frames(path) or _packets(path)
        except (FFmpegError, IndexError, OSError) as e:
            raise DatasetError(
                f"{path}: not a readable video ({first_line(e)}): truncated or corrupt?"
            ) from e
        if not len(pts) or not time_base:
            raise DatasetError(f"{path}: the video holds no frames: truncated or corrupt?")
        return cls(path, np.sort(pts), np.sort(pts[is_keyframe]), time_base, size)

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


def _packets(path: Path) -> _Frames:
    """Read the frames of any file packet by packet."""
    with closing(av.open(ffmpeg_url(path))) as container:
        stream = container.streams.video[0]
        whole = (p for p in container.demux(stream) if p.pts is not None and not p.is_corrupt)
        packets = ((p.pts, p.is_keyframe) for p in whole)
        rows = np.fromiter(packets, np.dtype([("pts", np.int64), ("key", np.bool_)]))
        return rows["pts"], rows["key"], float(stream.time_base or 0), (stream.width, stream.height)


def _mp4_frames(path: Path) -> _Frames | None:
    """Read the frames of an mp4 from its header; None where it is cut off, in fragments or unusual."""
    try:
        movie = _movie(path)
        for track in (_boxes(body) for kind, body in _box_list(movie) if kind == b"trak"):
            media = _boxes(track[b"mdia"])
            if media[b"hdlr"][8:12] == b"vide":
                return _track_frames(track, media, _scale(_boxes(movie)[b"mvhd"]))
    except (struct.error, ValueError, IndexError, KeyError, ZeroDivisionError):
        pass
    return None


def _movie(path: Path) -> memoryview:
    """Read the box `moov` of a file that is whole.

    Raises:
        ValueError: it is not, or it is in fragments.
    """
    size, at, movie = path.stat().st_size, 0, memoryview(b"")
    with path.open("rb") as file:
        while at < size:
            file.seek(at)
            head = file.read(16)
            length, kind = struct.unpack(">I4s", head[:8])
            start = 16 if length == 1 else 8
            length = struct.unpack(">Q", head[8:])[0] if length == 1 else length or size - at
            if length < start or at + length > size or kind == b"moof":
                raise ValueError("cut off, or in fragments")
            if kind == b"moov":
                file.seek(at + start)
                movie = memoryview(file.read(length - start))
            at += length
    return movie


def _box_list(data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    at = 0
    while at + 8 <= len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        if length < 8:
            raise ValueError("a box without a length")
        yield kind, data[at + 8 : at + length]
        at += length


def _boxes(data: memoryview) -> dict[bytes, memoryview]:
    return dict(_box_list(data))


def _track_frames(
    track: dict[bytes, memoryview], media: dict[bytes, memoryview], movie_scale: int
) -> _Frames | None:
    tables = _boxes(_boxes(media[b"minf"])[b"stbl"])
    timescale = _scale(media[b"mdhd"])
    counts, steps = _table(tables[b"stts"], ">u4", 2).T
    step = np.repeat(steps, counts)
    pts = np.cumsum(step) - step
    if b"ctts" in tables:
        counts, offsets = _table(tables[b"ctts"], ">i4", 2).T
        pts = pts + np.repeat(offsets, counts)
    if b"edts" in track:  # shown from its first frame to its last, else FFmpeg knows better
        edits = _boxes(track[b"edts"])[b"elst"]
        version, count = edits[0], struct.unpack(">I", edits[4:8])[0]
        duration, first = struct.unpack(">Qq" if version == 1 else ">Ii", edits[8 : 24 if version else 16])
        if count != 1 or first != pts.min() or duration < np.ptp(pts) * movie_scale / timescale:
            return None
        pts = pts - first
    elif b"ctts" in tables:
        return None
    is_keyframe = np.full(len(pts), b"stss" not in tables)
    if b"stss" in tables:
        is_keyframe[_table(tables[b"stss"], ">u4", 1)[:, 0] - 1] = True
    return pts, is_keyframe, 1 / timescale, struct.unpack(">HH", tables[b"stsd"][40:44])


def _scale(header: memoryview) -> int:
    """Units a second, of `mvhd` or `mdhd`."""
    return struct.unpack(">I", header[20:24] if header[0] == 1 else header[12:16])[0]


def _table(box: memoryview, kind: str, columns: int) -> NDArray[np.int64]:
    """Table of a box that begins with its number of rows, (rows, columns)."""
    count = struct.unpack(">I", box[4:8])[0]
    return np.frombuffer(box, kind, count * columns, offset=8).reshape(count, columns).astype(np.int64)


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


class _Containers:
    """The last few video files in use, kept open; each container has one user at a time."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Close nothing and start empty, for a forked process shares its parent's position in each file."""
        self._lock = threading.Lock()
        self._idle: list[tuple[_Stamp, InputContainer]] = []

    @contextmanager
    def container(self, path: Path) -> Iterator[InputContainer]:
        status = path.stat()
        stamp = path, status.st_mtime_ns, status.st_size
        with self._lock:
            at = next((i for i, (of, _) in enumerate(self._idle) if of == stamp), None)
            container = None if at is None else self._idle.pop(at)[1]
        container = container or open_video(path)
        try:
            yield container
        except BaseException:
            container.close()
            raise
        with self._lock:
            self._idle.append((stamp, container))
            while len(self._idle) > _OPEN:
                self._idle.pop(0)[1].close()


_containers = _Containers()
os.register_at_fork(after_in_child=_containers.forget)


def open_video(path: Path) -> InputContainer:
    """Open a video file.

    Raises:
        FFmpegError, OSError: it is missing or no video.
    """
    container = av.open(ffmpeg_url(path))
    # A decoder's threads do not pay for a few frames, and do not live on in a forked process.
    container.streams.video[0].codec_context.thread_count = 1
    return container


def decode(index: VideoIndex, pts: Sequence[int]) -> dict[int, NDArray[np.uint8]]:
    """Decode the frames shown at `pts`: pts -> (height, width, 3) RGB.

    Raises:
        DatasetError: a frame cannot be decoded.
    """
    targets = sorted(set(pts))
    if not targets:
        return {}
    try:
        with _containers.container(index.path) as container:
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
    """Decode each target from its keyframe on, those with one keyframe together."""
    reformatter = VideoReformatter()  # a frame's own would set up the conversion anew for each
    key_indices = np.maximum(np.searchsorted(index.keyframes, targets, side="right") - 1, 0)
    keys = dict(zip(targets, index.keyframes[key_indices].tolist(), strict=True))
    for key, group in itertools.groupby(targets, keys.__getitem__):
        container.seek(key, stream=container.streams.video[0], backward=True)
        wanted = set(group)
        undecoded = len(wanted)
        for frame in _decoded(container, wanted):
            if frame.pts not in wanted:
                continue
            if frame.is_corrupt:
                return  # a decoder conceals damage by inventing pixels; a goal image must not be invented
            yield frame.pts, np.asarray(reformatter.reformat(frame, format="rgb24").to_ndarray(), np.uint8)
            undecoded -= 1
        if undecoded:
            return


def _decoded(container: InputContainer, wanted: Set[int]) -> Iterator[VideoFrame]:
    """Decode from here to the last `wanted` frame. Frames that it does not need may be left out."""
    stream = container.streams.video[0]
    decoder, unread = stream.codec_context, set(wanted)
    try:
        for packet in container.demux(stream):
            if decoder.name in _SKIPPING:
                decoder.skip_frame = "DEFAULT" if packet.pts in wanted else "NONREF"
            unread.discard(packet.pts)
            yield from stream.decode(packet)
            if not unread:
                yield from stream.decode()  # the frames that it holds back for their order
                break
    finally:
        decoder.skip_frame = "DEFAULT"
