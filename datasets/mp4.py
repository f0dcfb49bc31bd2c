"""The frames of an mp4 file, from its header alone: when each is shown, and whether its bytes are there.

To list a file's packets FFmpeg reads the whole file. The header tells the same in its sample tables
(ISO/IEC 14496-12, 8.6 and 8.7), which are all that a file of lerobot or FFmpeg needs.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

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
