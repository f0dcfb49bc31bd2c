"""The place of each episode in the files of the sub-goal camera."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets.parquet import episode_tables, to_numpy
from goalreel.datasets.source import Source
from goalreel.datasets.writing.video import LEAD_S, TICKS, TOLERANCE_S
from goalreel.errors import DatasetError
from goalreel.files import digest

MAX_SPAN_S = 6 * 3600
"""Seconds from first to last row of an episode without a constant rate: no gap of an mp4 may be longer."""
_STEP = 1024
"""Episodes begin at such fractions of a second, so that float32 rounds no timestamp that it holds."""
MAX_SECONDS = 512
"""A file's length at most (s): what a killed run has to redo. So far float32 seconds are exact to 3e-5."""


@dataclass(frozen=True, slots=True)
class EpisodeClock:
    """Number and timestamps of an episode's frames, from the data files."""

    frames: int
    first: float
    """Timestamp of its first frame, s."""
    seconds: float
    """From its first frame to the end of its last."""
    is_steady: bool
    """True where frame i is i / fps after the first, near enough for lerobot."""
    shard: Path
    """The data file it is in."""


@dataclass
class VideoFile:
    """One mp4 and the episodes in it, in order."""

    chunk: int
    file: int
    shard: Path
    episodes: list[int] = field(default_factory=list)
    frames: int = 0
    """Their number, or what it would be at a constant rate."""
    is_steady: bool = True
    """True where its frames are at a constant rate; else each is shown at the time of its row."""


@dataclass(frozen=True, slots=True)
class EpisodePlace:
    """An episode's place in the camera: what meta/episodes says about it."""

    chunk_index: int
    file_index: int
    from_timestamp: float
    to_timestamp: float


def clocks(shards: list[Path], fps: float) -> dict[int, EpisodeClock]:
    """Read the clock of each episode's frames, in the order of the data files and of the episodes in them.

    Raises DatasetError as `row_times`, and where timestamps jump by hours.
    """
    found: dict[int, EpisodeClock] = {}
    for path in shards:
        for episode, times in sorted(row_times(path), key=lambda pair: pair[0]):
            jitter = np.abs(times - times[0] - np.arange(len(times)) / fps).max()
            is_steady = not jitter > max(TOLERANCE_S / 2, np.spacing(np.float32(abs(times).max())))
            span = float(times[-1] - times[0])
            if not is_steady and not span < MAX_SPAN_S:
                raise DatasetError(
                    f"{path}: the timestamps of episode {episode} span {span:g} s: "
                    "write frame_index / fps into timestamp"
                )
            seconds = len(times) / fps if is_steady else span + 1 / fps
            found[episode] = EpisodeClock(len(times), float(times[0]), seconds, is_steady, path)
    return found


def row_times(path: Path) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield each episode, and the times of its rows in order: seconds as lerobot reads them, in float32.

    Raises DatasetError where the data file is not readable, or an episode's rows in it are not together.
    """
    done = set[int]()
    try:
        for episode, table in episode_tables(path, ["episode_index", "timestamp"]):
            if episode in done:
                raise DatasetError(f"{path}: its episodes are mixed up: sort its rows by index")
            done.add(episode)
            yield episode, np.sort(to_numpy(table["timestamp"])).astype(np.float32).astype(np.float64)
    except (pa.ArrowException, OSError) as e:
        raise DatasetError(f"{path}: not readable as data parquet ({e}): copy the dataset again") from e


def arrange(
    source: Source, clock: Mapping[int, EpisodeClock], episodes: Collection[int], key: str
) -> list[VideoFile]:
    """Lay out `episodes` in new files of the camera `key`, one a data file and MAX_SECONDS at most."""
    columns = (source.rows.column(f"videos/{key}/{name}") for name in ("chunk_index", "file_index"))
    taken = (place for place in zip(*columns, strict=True) if None not in place)
    chunk, file = max(taken, default=(0, -1))
    files, limit = list[VideoFile](), MAX_SECONDS * source.fps
    for index, has in ((index, has) for index, has in clock.items() if index in episodes):
        frames = has.frames if has.is_steady else math.ceil(has.seconds * source.fps)
        if not files or files[-1].shard != has.shard or files[-1].frames + frames > limit:
            is_full = file >= int(source.info.get("chunks_size", 1000)) - 1
            chunk, file = (chunk + 1, 0) if is_full else (chunk, file + 1)
            files.append(VideoFile(chunk, file, has.shard))
        files[-1].episodes.append(index)
        files[-1].frames += frames
        files[-1].is_steady &= has.is_steady
    return files


def places(files: list[VideoFile], clock: Mapping[int, EpisodeClock], fps: float) -> dict[int, EpisodePlace]:
    """Place episodes, in order, where lerobot looks for a frame: `from_timestamp` plus its own timestamp."""
    placed: dict[int, EpisodePlace] = {}
    for file in files:
        at, seconds = 0, LEAD_S
        for index in file.episodes:
            has = clock[index]
            start, end = at / fps - has.first, (at + has.frames) / fps - has.first
            at += has.frames
            if not file.is_steady:
                start = math.ceil((seconds - has.first) * _STEP) / _STEP
                end = start + has.seconds
                seconds = end + has.first
            placed[index] = EpisodePlace(file.chunk, file.file, start, end)
    return placed


def places_digest(placed: Mapping[int, EpisodePlace]) -> str:
    """Digest of where all episodes are."""
    kind = np.dtype("i8, i8, i8, f8, f8")
    return digest(np.array([(e, *astuple(place)) for e, place in placed.items()], kind).tobytes())


def ticks(video: VideoFile, clock: Mapping[int, EpisodeClock], fps: float) -> NDArray[np.int64] | None:
    """Times at which the frames of a file are shown, in units of `1 / TICKS` s; None at a constant rate."""
    if video.is_steady:
        return None
    placed, inside = places([video], clock, fps), set(video.episodes)
    times = {episode: t for episode, t in row_times(video.shard) if episode in inside}
    parts = [np.rint((placed[e].from_timestamp + times[e]) * TICKS) for e in video.episodes]
    return np.concatenate(parts).astype(np.int64)
