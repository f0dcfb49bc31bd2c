"""Which data file holds each episode, as lerobot finds it: by the column episode_index."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa

from goalreel.datasets.arrow import to_numpy
from goalreel.datasets.episode_rows import EpisodeRows, Place
from goalreel.datasets.row_groups import parquet_parts, value_spans

_FILE = re.compile(r"chunk-(\d+)/file-(\d+)\.parquet")


def locate(root: Path, rows: EpisodeRows) -> EpisodeRows:
    """The rows of meta/episodes with the places of the files that hold the episodes.

    An episode that is nowhere, or in a file that is not readable, keeps its place. A single file is not read,
    and of several only the headers, unless one of them holds other episodes than it should.
    """
    by_place: dict[Place, list[int]] = {}
    for episode, place in zip(rows.indices.tolist(), rows.places(), strict=True):
        by_place.setdefault(place, []).append(episode)
    paths: dict[Place, Path] = {}
    for path in sorted((root / "data").glob("*/*.parquet")):
        if match := _FILE.fullmatch(path.relative_to(root / "data").as_posix()):
            paths[int(match[1]), int(match[2])] = path
    if (len(paths) < 2 and by_place.keys() == paths.keys()) or all(
        _span(path) == (min(by_place.get(place, [-1])), max(by_place.get(place, [-1])))
        for place, path in paths.items()
    ):
        return rows
    inside = {place: _episodes(path) for place, path in paths.items()}
    moved = {episode: place for place, episodes in inside.items() for episode in episodes}
    for place, episodes in by_place.items():
        for episode in inside.get(place, set()).intersection(episodes):
            del moved[episode]
    return rows.move({e: place for e, place in moved.items() if e in rows}) if moved else rows


def _span(path: Path) -> tuple[int, int] | None:
    """The first and the last episode of a data file by its header; None where that does not tell."""
    try:
        spans = value_spans(path, "episode_index")
    except (pa.ArrowException, OSError):
        return None
    ranges = [span for span in spans if span is not None]
    whole = ranges and len(ranges) == len(spans)
    return (min(a for a, _ in ranges), max(b for _, b in ranges)) if whole else None


def _episodes(path: Path) -> set[int]:
    try:
        batches = (b for part in parquet_parts(path) for b in part.iter_batches(columns=["episode_index"]))
        return {e for b in batches for e in np.unique(to_numpy(b["episode_index"])).tolist()}
    except (pa.ArrowException, OSError, KeyError):
        return set()
