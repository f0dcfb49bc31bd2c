"""Repair what can be repaired of a dataset without a person, in a copy.

Nothing is guessed: `frame_index` counts, timestamps increase, lengths agree, and a number is repaired where
the others leave one value for it. The rest is left, and `inspect` tells of it. Statistics are for lerobot
(`lerobot-edit-dataset --operation.type recompute_stats`).
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow.types import is_floating, is_integer

from goalreel.datasets.episode import EpisodeRows
from goalreel.datasets.health.issues import spell
from goalreel.datasets.health.tables import NUMBERS, FrameRows
from goalreel.datasets.info_file import check_links, read_info, stored
from goalreel.datasets.parquet import array, read_metadata, read_schema, read_table
from goalreel.datasets.video import VideoIndex
from goalreel.datasets.writing import goals, language, meta
from goalreel.datasets.writing.files import check_apart, data_files, dataset_files, episode_files, pass_file
from goalreel.errors import DatasetError
from goalreel.files import atomic, atomic_folder
from goalreel.progress import OnProgress

_INFO = Path("meta") / "info.json"
_PLACE = re.compile(r"chunk-(\d+)/file-(\d+)\.parquet$")


def repair(
    dataset: Path, out: Path, *, progress: OnProgress = lambda stage, done, total: None
) -> tuple[str, ...]:
    """Write a repaired copy of `dataset` into the new folder `out`, and say what was repaired, a line each.

    Videos are linked, and all else is copied. `out` appears whole, or not at all.

    Raises:
        InputError: `out` is there already.
        DatasetError: meta/info.json or meta/episodes cannot be read, a link leads out of the dataset, `out`
            overlaps it, or the disk is full.
    """
    read_info(dataset)
    EpisodeRows.read(dataset)
    check_apart(dataset, out)
    check_links(dataset)
    files = list(dataset_files(dataset))
    with atomic_folder(out) as part:
        for done, path in enumerate(files, start=1):
            pass_file(path, part / path.relative_to(dataset), dataset)
            progress("copy", done, len(files))
        paths = data_files(part)
        readable = paths and all(map(_has_numbers, paths))
        steps = (_number_rows, _number_episodes, _find_starts, _count_totals) if readable else ()
        return tuple(line for step in steps for line in step(part))


def _has_numbers(path: Path) -> bool:
    """Tell if a data file can be read, and numbers its rows."""
    with suppress(pa.ArrowException, OSError, DatasetError):
        numbers = {f.name for f in read_schema(path) if is_integer(f.type) or is_floating(f.type)}
        return numbers >= set(NUMBERS) and len(FrameRows.read([path])) >= 0
    return False


def _number_rows(root: Path) -> Iterator[str]:
    """Number rows and frames again, and write `frame_index` / fps where times do not increase."""
    rows, fps = FrameRows.read(data_files(root)), float(read_info(root)["fps"])
    if rows.mixed:
        return
    if not np.array_equal(rows.index, np.arange(len(rows))):
        _set_column(rows, "index", np.arange(len(rows)))
        yield "index: rows numbered from 0 on"
    frame, time, renumbered, timed = rows.frame.copy(), rows.time.copy(), list[int](), list[int]()
    for episode, at in rows.of_episode.items():
        counts = np.array_equal(frame[at], np.arange(len(at)))
        increases = bool(np.isfinite(time[at]).all() and (np.diff(time[at]) > 0).all())
        if increases and not counts:
            frame[at] = np.arange(len(at))
            renumbered.append(episode)
        elif counts and not increases:
            time[at] = np.arange(len(at)) / fps
            timed.append(episode)
    if renumbered:
        _set_column(rows, "frame_index", frame)
        yield f"frame_index: {spell(renumbered)} numbered from 0 on, in the order of the timestamps"
    if timed:
        _set_column(rows, "timestamp", time)
        yield f"timestamp: frame_index / fps written in {spell(timed)}, where times did not increase"


def _number_episodes(root: Path) -> Iterator[str]:
    """Write length, span and data file of each episode as its rows say."""
    rows, template = FrameRows.read(data_files(root)), read_info(root)["data_path"]
    if rows.mixed:
        return
    facts = defaultdict[str, dict[int, int]](dict)
    for episode, at in rows.of_episode.items():
        if np.array_equal(rows.frame[at], np.arange(len(at))):
            facts["length"][episode] = len(at)
        facts["dataset_from_index"][episode], facts["dataset_to_index"][episode] = int(at[0]), int(at[-1]) + 1
        path = rows.paths[rows.file[at[0]]]
        if match := _PLACE.search(path.as_posix()):
            place = {"data/chunk_index": int(match[1]), "data/file_index": int(match[2])}
            for name in place if stored(root, template, place, "data") == path else ():
                facts[name][episode] = place[name]
    for name in _write_episodes(root, facts):
        yield f"meta/episodes: {name} written as the rows are"


def _find_starts(root: Path) -> Iterator[str]:
    """Write where episodes begin in videos that have just the frames of their episodes, in their order."""
    info, episodes = read_info(root), list(EpisodeRows.read(root))
    fps = float(info["fps"])
    lengths = {row["episode_index"]: row["length"] for row in episodes}
    for camera in [name for name, feature in info["features"].items() if feature["dtype"] == "video"]:
        prefix, of_file = f"videos/{camera}", defaultdict[Path, list[dict[str, Any]]](list)
        for row in episodes:
            with suppress(DatasetError, KeyError, TypeError):  # it has no place
                of_file[stored(root, info["video_path"], row, prefix, video_key=camera)].append(row)
        starts = dict[int, float]()
        try:
            for path, rows in of_file.items():
                starts |= _starts(VideoIndex.read(path), rows, f"{prefix}/from_timestamp", fps)
        except DatasetError:
            continue
        ends = {episode: start + lengths[episode] / fps for episode, start in starts.items()}
        if _write_episodes(root, {f"{prefix}/from_timestamp": starts, f"{prefix}/to_timestamp": ends}):
            yield f"meta/episodes: {camera} of {spell(starts)} begins where its video has the first frame"


def _starts(video: VideoIndex, rows: Sequence[Mapping[str, Any]], name: str, fps: float) -> dict[int, float]:
    """Find where the episodes of a video begin, in seconds; none where that is known, or nothing tells it."""
    lengths, stated = [row["length"] for row in rows], [row[name] for row in rows]
    if len(video.pts) != sum(lengths) or None in stated or stated != sorted(stated):
        return {}
    starts = video.times[np.cumsum([0, *lengths[:-1]])].tolist()
    is_off = any(abs(a - b) > 0.5 / fps for a, b in zip(stated, starts, strict=True))
    return {row["episode_index"]: at for row, at in zip(rows, starts, strict=True)} if is_off else {}


def _count_totals(root: Path) -> Iterator[str]:
    """Write how many episodes, frames and tasks there are."""
    info = read_info(root)
    frames = sum(read_metadata(path).num_rows for path in data_files(root))
    totals = {"total_episodes": len(EpisodeRows.read(root)), "total_frames": frames}
    if (root / goals.TASKS).is_file():
        totals["total_tasks"] = read_metadata(root / goals.TASKS).num_rows
    if changed := [name for name, value in totals.items() if info.get(name) != value]:
        if list(info.get("splits") or ()) == ["train"]:
            info["splits"] = {"train": f"0:{totals['total_episodes']}"}
        meta.write_json(root / _INFO, info | totals)
        yield f"{_INFO}: " + ", ".join(f"{name} {totals[name]}" for name in changed)


def _write_episodes(root: Path, values: Mapping[str, Mapping[int, float]]) -> list[str]:
    """Write columns of meta/episodes by episode; returns the names of those that were otherwise."""
    changed = dict[str, None]()
    for path in episode_files(root):
        table = original = read_table(path)
        episodes = table["episode_index"].to_pylist()
        for name in [name for name in values if name in table.column_names]:
            old = table[name].to_pylist()
            new = [values[name].get(episode, value) for episode, value in zip(episodes, old, strict=True)]
            if new != old:
                field = table.schema.field(name)
                table = language.put_column(table, field, pa.chunked_array([array(new, field.type)]))
                changed[name] = None
        if table is not original:
            _write(path, table)
    return list(changed)


def _set_column(rows: FrameRows, name: str, values: NDArray[np.generic]) -> None:
    """Write the values of a column of numbers, one a row of all files, where they differ from those there."""
    for number, path in enumerate(rows.paths):
        table, is_here = read_table(path), rows.file == number
        field = table.schema.field(name)
        column = pa.chunked_array([array(values[is_here], field.type)])
        if not column.equals(table[name]):
            _write(path, language.put_column(table, field, column), len(np.unique(rows.episode[is_here])))


def _write(path: Path, table: pa.Table, groups: int = 1) -> None:
    """Write a parquet file, with about so many row groups."""
    size = max(1, -(-len(table) // max(1, groups)))
    with atomic(path) as tmp:
        pq.write_table(table, tmp, row_group_size=size, compression="snappy", use_dictionary=True)
