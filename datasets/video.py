"""Frames out of a video file by time: each wanted frame is decoded once, in file order, from its keyframe.

Timestamps follow lerobot v3.0: one file holds many episodes, and a frame is found by its presentation time.
"""

import itertools
import os
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Self

import av
import numpy as np
from av.container import InputContainer
from av.error import FFmpegError
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from goalreel.errors import DatasetError

LARGE = 1 << 18
"""Frames of a file from which on it is open once at a time."""
_SKIPPING = ("h264", "hevc")
"""FFmpeg's decoders that can leave out single frames; libdav1d leaves out all of a kind or none."""


def ffmpeg_url(path: Path) -> str:
    """The absolute path of a file: FFmpeg takes what precedes a colon in a relative path for a protocol."""
    return str(path.absolute())


@dataclass(frozen=True, eq=False)
class VideoIndex:
    """Which frames a file holds, from its header or else its packets (nothing is decoded)."""

    path: Path
    pts: NDArray[np.int64]
    """Presentation times in units of `time_base`, ascending, (frames,)."""
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
                pts, keyframes = _ascending(table.pts), _ascending(table.pts[table.is_keyframe])
                return cls(path, pts, keyframes, 1 / table.timescale, table.size)
            packets, time_base = _packets(path)
        except (FFmpegError, IndexError, OSError) as e:
            raise DatasetError(f"{path}: not a readable video ({e}): truncated or corrupt?") from e
        if not len(packets) or not time_base:
            raise DatasetError(f"{path}: the video holds no frames: truncated or corrupt?")
        return cls(path, np.sort(packets["pts"]), np.sort(packets["pts"][packets["key"]]), time_base)

    @property
    def times(self) -> NDArray[np.float64]:
        """`pts` in seconds, made anew each time: a file may hold millions of frames."""
        return self.pts * np.float64(self.time_base)

    def rate(self) -> float | None:
        """Frames a second, by the median of their distances; None of a single frame."""
        return 1 / float(np.median(np.diff(self.times))) if len(self.times) > 1 else None

    def find(self, seconds: NDArray[np.float64], tolerance_s: float) -> list[int | None]:
        """The frame nearest to each time, as pts; None where none is within the tolerance (s)."""
        pts = self.pts[self.nearest(seconds)]
        close = np.abs(pts * np.float64(self.time_base) - seconds) <= tolerance_s
        return [at if ok else None for at, ok in zip(pts.tolist(), close, strict=True)]

    def nearest(self, seconds: NDArray[np.float64]) -> NDArray[np.int64]:
        """The number of the frame nearest to each time, of two the earlier one."""
        at = np.clip(np.nan_to_num(seconds / self.time_base), self.pts[0], self.pts[-1])
        # An integer is sought, or numpy would convert all of them.
        upper = np.searchsorted(self.pts, np.ceil(at).astype(np.int64))
        lower = np.maximum(upper - 1, 0)
        before, after = (np.abs(self.pts[i] * np.float64(self.time_base) - seconds) for i in (lower, upper))
        return np.where(before <= after, lower, upper)


def _ascending(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    return numbers if (numbers[1:] >= numbers[:-1]).all() else np.sort(numbers)


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


type _Stamp = tuple[Path, int, int]
"""A file as it is now: its path, the time of its last change, and its size."""


class _Containers:
    """The last few video files in use, kept open, since opening one reads the list of all its frames.

    A file of more than `LARGE` frames is open once, for its list takes 40 bytes a frame; threads wait.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.forget()

    def forget(self) -> None:
        """Close nothing and start empty, for a forked process shares its parent's position in each file."""
        self._changed = threading.Condition()
        self._idle: list[tuple[_Stamp, InputContainer]] = []
        self._reserved = set[_Stamp]()
        """Files that are being opened, and large ones in use."""

    @contextmanager
    def container(self, path: Path, *, is_new: bool = False) -> Iterator[InputContainer]:
        """Open a file for one user at a time, or anew."""
        status = path.stat()
        stamp = path, status.st_mtime_ns, status.st_size
        container, is_idle = self._take(stamp, is_new), False
        try:
            yield container
            is_idle = not is_new
        finally:
            self._give_back(stamp, container, is_idle)

    def _take(self, stamp: _Stamp, is_new: bool) -> InputContainer:
        with self._changed:
            self._changed.wait_for(lambda: stamp not in self._reserved)
            if is_new:
                self._close(i for i in range(len(self._idle)) if self._idle[i][0] == stamp)
            at = next((i for i, (of, _) in enumerate(self._idle) if of == stamp), None)
            idle = None if at is None else self._idle.pop(at)[1]
            self._reserved.add(stamp)
        is_large = False
        try:
            # Others may open other files meanwhile: it can take long.
            container = idle or _opened(stamp[0])
            is_large = _is_large(container)
            return container
        finally:
            if not is_large:
                self._release(stamp)

    def _release(self, stamp: _Stamp) -> None:
        with self._changed:
            self._reserved.discard(stamp)
            self._changed.notify_all()

    def _give_back(self, stamp: _Stamp, container: InputContainer, is_idle: bool) -> None:
        is_large = _is_large(container)
        with self._changed:
            if is_idle:
                self._idle.append((stamp, container))
                self._close(range(len(self._idle) - self._capacity))
            else:
                container.close()
        if is_large:
            self._release(stamp)

    def close_idle(self) -> None:
        """Close all that nobody uses."""
        with self._changed:
            self._close(range(len(self._idle)))

    def _close(self, numbers: Iterable[int]) -> None:
        """Close some of the idle containers."""
        for i in sorted(numbers, reverse=True):
            self._idle.pop(i)[1].close()


def _opened(path: Path) -> InputContainer:
    container = av.open(ffmpeg_url(path))
    # A decoder's threads do not pay for a few frames, and do not live on in a forked process.
    container.streams.video[0].codec_context.thread_count = 1
    return container


def _is_large(container: InputContainer) -> bool:
    return container.streams.video[0].frames > LARGE


_containers = _Containers(4)
os.register_at_fork(after_in_child=_containers.forget)


def close_idle_videos() -> None:
    """Close the video files that are kept open and not in use, whose lists of frames may be large."""
    _containers.close_idle()


def opened(path: Path, *, is_new: bool = False) -> AbstractContextManager[InputContainer]:
    """A video file, nobody else's meanwhile; at any place in it, or as it `is_new`.

    What FFmpeg finds in a file of many fragments depends on what it has read of it before.

    Raises:
        FFmpegError, OSError: it is missing or no video.
    """
    return _containers.container(path, is_new=is_new)


def decode(index: VideoIndex, pts: Sequence[int]) -> dict[int, NDArray[np.uint8]]:
    """Decode the frames shown at `pts`: pts -> (height, width, 3) RGB.

    Raises:
        DatasetError: a frame cannot be decoded.
    """
    targets = sorted(set(pts))
    if not targets:
        return {}
    try:
        with opened(index.path) as container:
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


type _Box = tuple[bytes, memoryview]
"""The type of a box, and what is in it: views, for the header of a long video has tens of megabytes."""


@dataclass(frozen=True, eq=False)
class FrameTable:
    """The frames of a file whose bytes are all there, in the order in which they are stored."""

    pts: NDArray[np.int64]
    """Presentation times in units of `1 / timescale` s, (frames,)."""
    is_keyframe: NDArray[np.bool_]
    timescale: int
    size: tuple[int, int]
    """(width, height)."""


def read_frame_table(path: Path) -> FrameTable | None:
    """Read the frames of an mp4 file; None of a file that only FFmpeg can tell about.

    Raises:
        OSError: the file cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        movie = _movie(file, size)
    try:
        return _frame_table(movie, size) if movie is not None else None
    except (struct.error, ValueError, IndexError, KeyError, ZeroDivisionError):
        return None


def _movie(file: BinaryIO, size: int) -> memoryview | None:
    """What is in the box `moov`; None without one, or of a file in fragments."""
    at, movie = 0, None
    while at + 8 <= size:
        file.seek(at)
        head = file.read(16)
        length, kind = struct.unpack(">I4s", head[:8])
        start = 16 if length == 1 else 8
        if length == 1 and len(head) == 16:
            length = struct.unpack(">Q", head[8:])[0]
        length = length or size - at
        if length < start or kind == b"moof":
            return None
        if kind == b"moov":
            file.seek(at + start)
            movie = file.read(length - start)
        at += length
    return None if movie is None else memoryview(movie)


def _boxes(data: memoryview) -> Iterator[_Box]:
    at = 0
    while at + 8 <= len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        if length < 8:
            raise ValueError("a box without a length")
        yield kind, data[at + 8 : at + length]
        at += length


def _frame_table(movie: memoryview, size: int) -> FrameTable | None:
    boxes = list(_boxes(movie))
    movie_scale = _scale(dict(boxes)[b"mvhd"])
    for kind, track in boxes:
        parts = dict(_boxes(track)) if kind == b"trak" else {}
        media = dict(_boxes(parts[b"mdia"])) if parts else {}
        if media and media[b"hdlr"][8:12] == b"vide":
            tables = dict(_boxes(dict(_boxes(media[b"minf"]))[b"stbl"]))
            pts = _shown(tables)
            timescale = _scale(media[b"mdhd"])
            span = float(np.ptp(pts)) * movie_scale / timescale if len(pts) else 0.0
            if not len(pts) or not _edited_plainly(parts, pts, b"ctts" in tables, span):
                return None
            is_keyframe = np.full(len(pts), b"stss" not in tables)
            if b"stss" in tables:
                is_keyframe[_numbers(tables[b"stss"], ">u4")[:, 0] - 1] = True
            whole = _whole(tables, len(pts), size)
            width, height = struct.unpack(">HH", tables[b"stsd"][40:44])
            return FrameTable(pts[whole], is_keyframe[whole], timescale, (width, height))
    return None


def _scale(header: memoryview) -> int:
    """Units a second, of `mvhd` or `mdhd`."""
    return struct.unpack(">I", header[20:24] if header[0] == 1 else header[12:16])[0]


def _numbers(box: memoryview, kind: str, columns: int = 1) -> NDArray[np.int64]:
    """The table of a box that begins with its number of rows, (rows, columns)."""
    count = struct.unpack(">I", box[4:8])[0]
    table = np.frombuffer(box, kind, count * columns, offset=8)
    return table.reshape(count, columns).astype(np.int64)


def _shown(tables: dict[bytes, memoryview]) -> NDArray[np.int64]:
    """When each frame is shown, before edits."""
    counts, steps = _numbers(tables[b"stts"], ">u4", 2).T
    step = np.repeat(steps, counts)
    pts = np.cumsum(step)
    pts -= step
    if b"ctts" in tables:
        counts, offsets = _numbers(tables[b"ctts"], ">i4", 2).T
        pts += np.repeat(offsets, counts)
    return pts


def _edited_plainly(
    track: dict[bytes, memoryview], pts: NDArray[np.int64], is_reordered: bool, span: float
) -> bool:
    """Whether the track is shown whole: no edit, or one from its first frame to its last.

    The times of `pts` then begin with 0. `span` is theirs, in units of the movie.
    """
    if b"edts" not in track:
        return not is_reordered
    edits = dict(_boxes(track[b"edts"]))[b"elst"]
    version, count = edits[0], struct.unpack(">I", edits[4:8])[0]
    duration, first = struct.unpack(">Qq" if version == 1 else ">Ii", edits[8 : 24 if version == 1 else 16])
    if count != 1 or first != pts.min() or duration < span:
        return False
    pts -= first
    return True


def _whole(tables: dict[bytes, memoryview], frames: int, size: int) -> NDArray[np.bool_] | slice:
    """Which frames have all their bytes in a file of `size` bytes; a slice where all have.

    The tables of a long video are large: what each frame needs is looked at only where the file is cut off.
    """
    same, count = struct.unpack(">II", tables[b"stsz"][4:12])
    sizes = np.full(count, same) if same else np.frombuffer(tables[b"stsz"], ">u4", count, offset=12)
    wide = b"co64" in tables
    places = tables[b"co64" if wide else b"stco"]
    starts = np.frombuffer(places, ">u8" if wide else ">u4", struct.unpack(">I", places[4:8])[0], offset=8)
    first, per_chunk, _ = _numbers(tables[b"stsc"], ">u4", 3).T
    chunk = np.repeat(per_chunk.astype(np.uint32), np.diff(first, append=len(starts) + 1))
    if not count == chunk.sum() == frames or (chunk == 0).any():
        raise ValueError("tables of different lengths")
    edges = np.cumsum(chunk, dtype=np.int64)
    edges -= chunk
    ends = np.add.reduceat(sizes, edges, dtype=np.int64)
    ends += starts.astype(np.int64)
    if ends.max() <= size:
        return slice(None)
    starts, sizes = starts.astype(np.int64), sizes.astype(np.int64)
    chunk_of = np.repeat(np.arange(len(chunk)), chunk)
    sample_starts = np.cumsum(sizes) - sizes
    return starts[chunk_of] + sample_starts - sample_starts[edges][chunk_of] + sizes <= size
