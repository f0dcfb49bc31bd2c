"""Repair what can be repaired of a dataset without a person, in a copy.

Nothing is guessed: `frame_index` counts, timestamps increase, lengths agree, and a number is repaired where
the others leave one value for it. The rest is left, and `inspect` tells of it. Statistics are for lerobot
(`lerobot-edit-dataset --operation.type recompute_stats`).
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow.types import is_floating, is_integer

from goalreel.datasets.episode_rows import EpisodeRows
from goalreel.datasets.health.issues import spell
from goalreel.datasets.health.tables import MISSING, NUMBERS, NUMERIC, FrameRows, count_values, unreadable
from goalreel.datasets.info_file import VIDEO_PATH, check_links, read_info, stored
from goalreel.datasets.labels import read_texts
from goalreel.datasets.parquet import array, is_ragged, read_metadata, read_schema, read_table, to_numpy
from goalreel.datasets.records import FOLDER
from goalreel.datasets.source import declares
from goalreel.datasets.video import VideoIndex
from goalreel.datasets.writing.files import check_apart, data_files, dataset_files, episode_files, pass_file
from goalreel.datasets.writing.frame_columns import TASKS, tasks_file
from goalreel.datasets.writing.language import put_column
from goalreel.datasets.writing.meta import write_json
from goalreel.errors import DatasetError
from goalreel.files import atomic, atomic_folder, write_bytes
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
        return tuple(_repair(part))


def _repair(root: Path) -> Iterator[str]:
    yield from _drop_strays(root)
    paths = data_files(root)
    if paths and all(map(_has_numbers, paths)):
        for step in _STEPS:
            yield from step(root)


def _has_numbers(path: Path) -> bool:
    """Tell if a data file can be read, and numbers its rows."""
    kinds = {} if unreadable(path) else {field.name: field.type for field in read_schema(path)}
    return all(name in kinds and (is_integer(kinds[name]) or is_floating(kinds[name])) for name in NUMBERS)


def _drop_strays(root: Path) -> Iterator[str]:
    """Leave out files below data/ that cannot be read, and in which no episode lies."""
    rows, template = EpisodeRows.read(root), read_info(root)["data_path"]
    needed = {stored(root, template, row, "data") for row in rows}
    for path in data_files(root):
        if path not in needed and unreadable(path):
            path.unlink()
            yield f"{path.relative_to(root)}: left out, since it cannot be read and no episode lies in it"


def _name_features(root: Path) -> Iterator[str]:
    """Let features of meta/info.json be the columns that all data files have, in the size that they have."""
    info = read_info(root)
    features, paths = info["features"], data_files(root)
    schemas = [read_schema(path) for path in paths]
    columns = [set(schema.names) for schema in schemas]
    everywhere, somewhere = set.intersection(*columns), set.union(*columns)
    added = {n: f for n in sorted(everywhere - features.keys()) if (f := _feature(schemas[0].field(n).type))}
    missing = [n for n, f in features.items() if f["dtype"] != "video" and n not in somewhere]
    resized = {n: size for n in everywhere & features.keys() if (size := _size(paths, n, features[n]))}
    features |= added
    for name in missing:
        del features[name]
    for name, size in resized.items():
        features[name] |= {"shape": [size], "names": None}
    for names, what in ((added, "added"), (missing, "dropped"), (resized, "given the size of the column")):
        if names:
            write_json(root / _INFO, info)
            yield f"{_INFO}: features {what}: {', '.join(sorted(names))}"


def _feature(kind: pa.DataType) -> dict[str, Any] | None:
    """Describe a column of numbers or texts, one a frame, as info.json does; None for another column."""
    if pa.types.is_string(kind):
        return {"dtype": "string", "shape": [1], "names": None}
    dtype = {"bool": "bool", "double": "float64", "float": "float32"}.get(str(kind), str(kind))
    return {"dtype": dtype, "shape": [1], "names": None} if dtype in NUMERIC else None


def _size(paths: list[Path], name: str, feature: dict[str, Any]) -> int | None:
    """Count the numbers of each row of a vector, where that is not what its feature says."""
    if feature["dtype"] not in NUMERIC or len(feature["shape"]) != 1 or feature["shape"][0] < 2:
        return None
    files = [(read_metadata(path).num_rows, *count_values(path).get(name, (0, 0))) for path in paths]
    fits = all(rows and values % rows == 0 and not nulls for rows, values, nulls in files)
    size, *others = {values // rows for rows, values, _ in files} if fits else {0}
    if others or size < 2 or size == feature["shape"][0]:
        return None
    return None if any(is_ragged(read_table(path, [name])[name]) for path in paths) else size


def _order_episodes(root: Path) -> Iterator[str]:
    """Sort meta/episodes by episode; where numbers are left out, count from 0 on there and in the rows.

    Episodes with records of goalreel keep their numbers, by which the records name them.
    """
    files = episode_files(root)
    tables = [read_table(path) for path in files]
    whole = pa.concat_tables(tables, promote_options="permissive")
    old = to_numpy(whole["episode_index"])
    numbers, in_order = np.arange(len(old)), np.unique(old)
    if np.array_equal(old, numbers) or len(in_order) < len(old):
        return
    rows, has_gaps = FrameRows.read(data_files(root)), not np.array_equal(in_order, numbers)
    if has_gaps and ((root / FOLDER).is_dir() or not np.isin(rows.episode, old).all()):
        return
    whole = whole.take(array(np.argsort(old, kind="stable"), pa.int64()))
    if has_gaps:
        whole = _with_numbers(whole, "episode_index", numbers.tolist())
        _set_column(rows, "episode_index", np.searchsorted(in_order, rows.episode))
    for name in ("meta/episodes/chunk_index", "meta/episodes/file_index"):
        if name in whole.column_names:
            whole = _with_numbers(whole, name, [tables[0][name][0].as_py()] * len(old))
    _write(files[0], whole)
    for path in files[1:]:
        path.unlink()
    yield "meta/episodes: " + ("episodes numbered from 0 on" if has_gaps else "rows sorted by episode_index")


def _sort_files(root: Path) -> Iterator[str]:
    """Sort the rows of a file by episode and frame, where `frame_index` has each frame of an episode once."""
    rows, episodes = FrameRows.read(data_files(root)), EpisodeRows.read(root)
    lengths = dict(zip(episodes.indices.tolist(), episodes.column("length"), strict=True))

    def is_whole(episode: int) -> bool:
        at = rows.of_episode[episode]
        one_file, frames = len(np.unique(rows.file[at])) == 1, np.sort(rows.frame[at])
        return one_file and len(at) == lengths.get(episode) and np.array_equal(frames, np.arange(len(at)))

    for number, path in enumerate(rows.paths):
        at = np.flatnonzero(rows.file == number)
        order = np.lexsort((rows.frame[at], rows.episode[at]))
        inside = np.unique(rows.episode[at]).tolist()
        if not np.array_equal(order, np.arange(len(at))) and all(map(is_whole, inside)):
            _write(path, read_table(path).take(array(order, pa.int64())), len(inside))
            yield f"{path.relative_to(root)}: rows sorted by episode and frame"


def _number_rows(root: Path) -> Iterator[str]:
    """Number rows and frames again, and write `frame_index` / fps where times do not increase."""
    rows, fps = FrameRows.read(data_files(root)), float(read_info(root)["fps"])
    if not _are_together(rows):
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


def _are_together(rows: FrameRows) -> bool:
    """Tell if the rows of each episode lie together."""
    return all(at[-1] - at[0] + 1 == len(at) for at in rows.of_episode.values())


def _number_episodes(root: Path) -> Iterator[str]:
    """Write length, span and data file of each episode as its rows say."""
    rows, template = FrameRows.read(data_files(root)), read_info(root)["data_path"]
    if not _are_together(rows):
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


def _index_tasks(root: Path) -> Iterator[str]:
    """Make meta/tasks.parquet from meta/episodes where it is lost, and sort it where it is out of order."""
    path, rows = root / TASKS, FrameRows.read(data_files(root))
    try:
        texts = read_texts(path, "task")
    except DatasetError:
        if (tasks := _tasks_of_episodes(root, rows)) is not None:
            write_bytes(path, tasks_file(tasks, {}))
            yield f"{TASKS}: made from the tasks in meta/episodes"
        return
    indices, in_order = list(texts), np.array(sorted(texts), np.int64)
    if indices == list(range(len(indices))) or len(indices) < read_metadata(path).num_rows:
        return
    if not np.isin(rows.task, in_order).all():
        return
    _set_column(rows, "task_index", np.searchsorted(in_order, rows.task))
    write_bytes(path, tasks_file(dict(enumerate(texts[index] for index in sorted(indices))), {}))
    yield f"{TASKS}: row k is task k"


def _tasks_of_episodes(root: Path, rows: FrameRows) -> dict[int, str] | None:
    """Task index -> text, by episodes with one task; None where they do not tell all of them, and agree."""
    episodes, tasks = EpisodeRows.read(root), dict[int, str]()
    for episode, texts in zip(episodes.indices.tolist(), episodes.column("tasks"), strict=True):
        used = np.unique(rows.task[rows.of_episode.get(episode, [])]).tolist()
        if texts and len(texts) == len(used) == 1 and tasks.setdefault(used[0], texts[0]) != texts[0]:
            return None
    used = set(np.unique(rows.task).tolist())
    return tasks if MISSING not in used and used == tasks.keys() == set(range(len(tasks))) else None


def _name_videos(root: Path) -> Iterator[str]:
    """Write lerobot's path of the videos where none is written, and all of them lie there."""
    info, rows = read_info(root), EpisodeRows.read(root)
    cameras = [name for name, feature in info["features"].items() if feature["dtype"] == "video"]
    with suppress(KeyError, TypeError):  # one has no place
        paths = [stored(root, VIDEO_PATH, row, f"videos/{c}", video_key=c) for row in rows for c in cameras]
        if paths and info["video_path"] is None and all(path.is_file() for path in paths):
            write_json(root / _INFO, info | {"video_path": VIDEO_PATH})
            yield f"{_INFO}: video_path written"


def _measure_cameras(root: Path) -> Iterator[str]:
    """Write the size of a camera's pictures as its videos have it, and where episodes begin in them.

    A video tells that if it has just the frames of its episodes, in their order.
    """
    info = read_info(root)
    fps = float(info["fps"])
    for camera in [name for name, feature in info["features"].items() if feature["dtype"] == "video"]:
        prefix, of_file = f"videos/{camera}", defaultdict[Path, list[dict[str, Any]]](list)
        for row in EpisodeRows.read(root):
            with suppress(DatasetError, KeyError, TypeError):  # it has no place
                of_file[stored(root, info["video_path"], row, prefix, video_key=camera)].append(row)
        try:
            videos = {path: VideoIndex.read(path) for path in of_file}
        except DatasetError:
            continue
        sizes, feature = {video.size for video in videos.values()}, info["features"][camera]
        if len(sizes) == 1 and (size := sizes.pop()) and not declares(feature, size):
            channels = 1 if 1 in (feature.get("shape") or ()) else 3
            feature |= {"shape": [size[1], size[0], channels], "names": ["height", "width", "channels"]}
            write_json(root / _INFO, info)
            yield f"{_INFO}: {camera} given the size of its videos, {size[0]}x{size[1]}"
        starts, ends = dict[int, float](), dict[int, float]()
        for path, rows in of_file.items():
            starts |= _starts(videos[path], rows, f"{prefix}/from_timestamp", fps)
            inside = {row["episode_index"]: row["length"] for row in rows}
            ends |= {e: starts[e] + length / fps for e, length in inside.items() if e in starts}
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
    if (root / TASKS).is_file():
        totals["total_tasks"] = read_metadata(root / TASKS).num_rows
    if changed := [name for name, value in totals.items() if info.get(name) != value]:
        if list(info.get("splits") or ()) == ["train"]:
            info["splits"] = {"train": f"0:{totals['total_episodes']}"}
        write_json(root / _INFO, info | totals)
        yield f"{_INFO}: " + ", ".join(f"{name} {totals[name]}" for name in changed)


_STEPS: tuple[Callable[[Path], Iterator[str]], ...] = (
    _name_features,
    _order_episodes,
    _sort_files,
    _number_rows,
    _number_episodes,
    _index_tasks,
    _name_videos,
    _measure_cameras,
    _count_totals,
)


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
                table, changed[name] = _with_numbers(table, name, new), None
        if table is not original:
            _write(path, table)
    return list(changed)


def _with_numbers(table: pa.Table, name: str, values: Sequence[float | None]) -> pa.Table:
    at = table.schema.get_field_index(name)
    field = table.schema.field(at)
    return table.set_column(at, field, array(values, field.type))


def _set_column(rows: FrameRows, name: str, values: NDArray[np.generic]) -> None:
    """Write the values of a column of numbers, one a row of all files, where they differ from those there."""
    for number, path in enumerate(rows.paths):
        table, is_here = read_table(path), rows.file == number
        field = table.schema.field(name)
        column = pa.chunked_array([array(values[is_here], field.type)])
        if not column.equals(table[name]):
            _write(path, put_column(table, field, column), len(np.unique(rows.episode[is_here])))


def _write(path: Path, table: pa.Table, groups: int = 1) -> None:
    """Write a parquet file, with about so many row groups."""
    size = max(1, -(-len(table) // max(1, groups)))
    with atomic(path) as tmp:
        pq.write_table(table, tmp, row_group_size=size, compression="snappy", use_dictionary=True)
