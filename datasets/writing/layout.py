"""The place of each episode in the files of the sub-goal camera."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from goalreel.datasets.arrow import read_table, to_numpy
from goalreel.datasets.episode_rows import EpisodeRows
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError

TOLERANCE_S = 1e-4
"""lerobot's loader wants a frame this close to its timestamp."""
MAX_SECONDS = 512
"""A file's length at most (s): what a killed run has to redo. So far float32 seconds are exact to 3e-5."""


@dataclass(frozen=True, slots=True)
class EpisodeClock:
    """Number and timestamps of an episode's frames, from the data files."""

    frames: int
    first: float
    """Timestamp of its first frame, s."""
    jitter_s: float
    """How far a timestamp is from the constant rate at most."""
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


@dataclass(frozen=True, slots=True)
class EpisodePlace:
    """An episode's place in the camera: what meta/episodes says about it."""

    chunk: int
    file: int
    from_timestamp: float
    to_timestamp: float


def clocks(shards: list[Path], fps: float) -> dict[int, EpisodeClock]:
    """Episode -> its frames' clock, in the order of the data files.

    Raises:
        DatasetError: a data file is not readable, or an episode's rows in it are not together.
    """
    episode_clocks = {}
    for path in shards:
        try:
            table = read_table(path, ["episode_index", "timestamp"])
        except (pa.ArrowException, OSError) as e:
            raise DatasetError(f"{path}: not readable as data parquet ({e}): copy the dataset again") from e
        episode, time = to_numpy(table["episode_index"]), to_numpy(table["timestamp"])
        if np.count_nonzero(np.diff(episode)) >= len(np.unique(episode)) > 0:
            raise DatasetError(f"{path}: its episodes are mixed up: sort its rows by index")
        order = np.lexsort((time, episode))
        episode, time = episode[order], time[order].astype(np.float64)
        starts = np.flatnonzero(np.diff(episode, prepend=episode[:1] - 1))
        for start, stop in zip(starts, [*starts[1:], len(episode)], strict=True):
            times = time[start:stop]
            jitter = np.abs(times - times[0] - np.arange(len(times)) / fps).max()
            episode_clocks[int(episode[start])] = EpisodeClock(
                len(times), float(times[0]), float(jitter), path
            )
    return episode_clocks


def arrange(
    source: Source, clock: Mapping[int, EpisodeClock], episodes: Collection[int], key: str
) -> list[VideoFile]:
    """Lay out `episodes` in new files, a new one for each data file and after MAX_SECONDS.

    Numbering continues after the files that the camera `key` has already.
    """
    files: list[VideoFile] = []
    at = _last(source.rows, key)
    limit = MAX_SECONDS * source.fps
    for index, has in clock.items():
        if index not in episodes:
            continue
        if not files or files[-1].shard != has.shard or files[-1].frames + has.frames > limit:
            at = _next(at, int(source.info.get("chunks_size", 1000)))
            files.append(VideoFile(*at, has.shard))
        files[-1].episodes.append(index)
        files[-1].frames += has.frames
    return files


def places(files: list[VideoFile], clock: Mapping[int, EpisodeClock], fps: float) -> dict[int, EpisodePlace]:
    """Where lerobot's loader finds each episode: a frame at `from_timestamp` plus its own timestamp."""
    place_by_episode = {}
    for file in files:
        at = 0
        for index in file.episodes:
            has = clock[index]
            start, end = at / fps - has.first, (at + has.frames) / fps - has.first
            place_by_episode[index] = EpisodePlace(file.chunk, file.file, start, end)
            at += has.frames
    return place_by_episode


def _last(rows: EpisodeRows, key: str) -> tuple[int, int] | None:
    """The highest (chunk, file) in use by a camera."""
    chunks, files = (rows.column(f"videos/{key}/{name}") for name in ("chunk_index", "file_index"))
    return max((p for p in zip(chunks, files, strict=True) if None not in p), default=None)


def _next(at: tuple[int, int] | None, chunks_size: int) -> tuple[int, int]:
    if at is None:
        return (0, 0)
    chunk, file = at
    return (chunk, file + 1) if file < chunks_size - 1 else (chunk + 1, 0)
