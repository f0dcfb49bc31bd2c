"""Mend what can be mended of a dataset without a person, in a copy.

What would be a guess is left as it is, and `inspect` tells of it: `frame_index` counts, timestamps increase,
lengths agree, and a number is mended where the others leave one value for it.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.datasets.episode_rows import EpisodeRows
from goalreel.datasets.health.frames import MISSING, FrameRows, in_threads, unreadable
from goalreel.datasets.health.issues import spell
from goalreel.datasets.health.numbers import read_numbers, stats_issues
from goalreel.datasets.health.tables import NUMERIC, count_values
from goalreel.datasets.info_file import read_info
from goalreel.datasets.labels import read_texts
from goalreel.datasets.parquet import (
    array,
    count_rows,
    parquet_parts,
    parquet_schema,
    read_row_groups,
    read_table,
    row_groups,
    to_numpy,
)
from goalreel.datasets.records import FOLDER
from goalreel.datasets.source import Source, declares
from goalreel.datasets.stored_files import VIDEO_PATH, check_links, stored
from goalreel.datasets.video import VideoIndex
from goalreel.datasets.writing.files import check_apart, data_files, dataset_files, episode_files, pass_file
from goalreel.datasets.writing.frame_columns import TASKS, tasks_file
from goalreel.datasets.writing.language import put_column, put_field
from goalreel.datasets.writing.meta import (
    QUANTILES,
    PictureLevels,
    Stats,
    aggregate,
    episode_stats,
    write_json,
)
from goalreel.datasets.writing.shards import GROUPS
from goalreel.errors import DatasetError
from goalreel.files import atomic, atomic_folder, write_bytes
from goalreel.progress import OnProgress


def write_in_order(path: Path, order: NDArray[np.int64]) -> None:
    """Write the rows of a data file in another order, with as many row groups as before, GROUPS at most.

    One of them is in memory at a time, beside one as it was.

    Raises:
        DatasetError: the disk is full.
    """
    edges = np.cumsum([0, *(group.num_rows for group in row_groups(path))])
    schema = parquet_schema(path).with_metadata(read_table(path, ["episode_index"]).schema.metadata)
    with (
        atomic(path) as tmp,
        pq.ParquetWriter(tmp, schema, compression="snappy", use_dictionary=True) as writer,
    ):
        for rows in np.array_split(order, min(max(len(edges) - 1, 1), GROUPS)):
            # In the order of the file first, in which the row groups are read.
            there = np.sort(rows)
            groups = np.searchsorted(edges, there, side="right") - 1
            numbers = np.unique(groups).tolist()
            tables = [
                table.take(array(there[groups == number] - edges[number], pa.int64()))
                for number, table in zip(numbers, read_row_groups(path, numbers), strict=True)
            ]
            table = pa.concat_tables(tables).take(array(np.argsort(np.argsort(rows)), pa.int64()))
            writer.write_table(table, row_group_size=len(table))


def set_column(rows: FrameRows, name: str, values: NDArray[np.generic]) -> None:
    """Write the values of a column of numbers, one a row of all files, where they differ from those there.

    One row group is in memory at a time, or several where there are more than GROUPS.

    Raises:
        DatasetError: the disk is full.
    """
    for number, path in enumerate(rows.paths):
        old = read_table(path, [name])
        field = old.schema.field(name)
        column = pa.chunked_array([array(values[rows.file == number], field.type)])
        if not column.equals(old[name]):
            schema = put_field(parquet_schema(path).with_metadata(old.schema.metadata), field)
            _write_column(path, schema, field, column)


def _write_column(path: Path, schema: pa.Schema, field: pa.Field, column: pa.ChunkedArray) -> None:
    groups = (part.read_row_group(i) for part in parquet_parts(path) for i in range(part.num_row_groups))
    together = -(-sum(1 for _ in row_groups(path)) // GROUPS)
    at = 0
    with (
        atomic(path) as tmp,
        pq.ParquetWriter(tmp, schema, compression="snappy", use_dictionary=True) as writer,
    ):
        for tables in itertools.batched(groups, together):
            table = pa.concat_tables(tables)
            table = put_column(table, field, column.slice(at, len(table)))
            writer.write_table(table, row_group_size=len(table))
            at += len(table)


def sort_files(root: Path) -> Iterator[str]:
    """Sort the rows of a file by episode and frame, where `frame_index` has each frame of an episode once."""
    rows, lengths = FrameRows.read(data_files(root)), _lengths(root)
    for number, path in enumerate(rows.paths):
        at = np.flatnonzero(rows.file == number)
        order = np.lexsort((rows.frame[at], rows.episode[at]))
        if np.array_equal(order, np.arange(len(at))):
            continue
        episodes = np.unique(rows.episode[at]).tolist()
        if all(_is_whole(rows, rows.of_episode[e], lengths.get(e)) for e in episodes):
            write_in_order(path, order)
            yield f"{path.relative_to(root)}: rows sorted by episode and frame"


def _is_whole(rows: FrameRows, at: NDArray[np.int64], length: int | None) -> bool:
    """Whether rows are in one file and have each frame of an episode of this length once."""
    one_file = len(np.unique(rows.file[at])) == 1
    return one_file and len(at) == length and np.array_equal(np.sort(rows.frame[at]), np.arange(len(at)))


def number_rows(root: Path) -> Iterator[str]:
    """Number rows and frames anew, and write `frame_index` / fps where times do not increase."""
    rows, fps = FrameRows.read(data_files(root)), float(read_info(root)["fps"])
    if not are_together(rows):
        return
    if not np.array_equal(rows.index, np.arange(len(rows))):
        set_column(rows, "index", np.arange(len(rows)))
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
        set_column(rows, "frame_index", frame)
        yield f"frame_index: {spell(renumbered)} numbered from 0 on, in the order of the timestamps"
    if timed:
        set_column(rows, "timestamp", time)
        yield f"timestamp: frame_index / fps written in {spell(timed)}, where times did not increase"


def are_together(rows: FrameRows) -> bool:
    """Whether the rows of each episode lie together."""
    return all(at[-1] - at[0] + 1 == len(at) for at in rows.of_episode.values())


def _lengths(root: Path) -> dict[int, int]:
    rows = EpisodeRows.read(root)
    return dict(zip(rows.indices.tolist(), rows.column("length"), strict=True))


_INFO = Path("meta") / "info.json"
_PLACE = re.compile(r"chunk-(\d+)/file-(\d+)\.parquet$")


def _set_numbers(table: pa.Table, name: str, values: Sequence[float | None]) -> pa.Table:
    at = table.schema.get_field_index(name)
    field = table.schema.field(at)
    return table.set_column(at, field, array(values, field.type))


def _write_episodes(path: Path, table: pa.Table) -> None:
    with atomic(path) as tmp:
        pq.write_table(table, tmp, compression="snappy", use_dictionary=True)


def order_episodes(root: Path) -> Iterator[str]:
    """Sort meta/episodes by episode; where numbers are left out, count from 0 on there and in the rows.

    Episodes with records of goalreel keep their numbers, by which the records name them.
    """
    files = episode_files(root)
    tables = [read_table(path) for path in files]
    whole = pa.concat_tables(tables, promote_options="permissive")
    old = to_numpy(whole["episode_index"])
    sorted_old, count = np.sort(old), len(old)
    if np.array_equal(old, np.arange(count)) or len(np.unique(old)) < count:
        return
    rows = FrameRows.read(data_files(root))
    has_gaps = not np.array_equal(sorted_old, np.arange(count))
    if has_gaps and ((root / FOLDER).is_dir() or not np.isin(rows.episode, old).all()):
        return
    whole = whole.take(array(np.argsort(old, kind="stable"), pa.int64()))
    if has_gaps:
        whole = _set_numbers(whole, "episode_index", list(range(count)))
        set_column(rows, "episode_index", np.searchsorted(sorted_old, rows.episode))
    for name in ("meta/episodes/chunk_index", "meta/episodes/file_index"):
        if name in whole.column_names:
            whole = _set_numbers(whole, name, [tables[0][name][0].as_py()] * count)
    _write_episodes(files[0], whole)
    for path in files[1:]:
        path.unlink()
    yield "meta/episodes: " + ("episodes numbered from 0 on" if has_gaps else "rows sorted by episode_index")


def number_episodes(root: Path) -> Iterator[str]:
    """Write length, span and data file of each episode as its rows say."""
    rows, template = FrameRows.read(data_files(root)), read_info(root)["data_path"]
    if not are_together(rows):
        return
    for path in episode_files(root):
        table = read_table(path)
        facts = [_row_facts(root, rows, episode, template) for episode in table["episode_index"].to_pylist()]
        for name in (
            "length",
            "dataset_from_index",
            "dataset_to_index",
            "data/chunk_index",
            "data/file_index",
        ):
            if name not in table.column_names:
                continue
            old = table[name].to_pylist()
            new = [fact.get(name, value) for fact, value in zip(facts, old, strict=True)]
            if new != old:
                table = _set_numbers(table, name, new)
                _write_episodes(path, table)
                yield f"{path.relative_to(root)}: {name} written as the rows are"


def _row_facts(root: Path, rows: FrameRows, episode: int, template: str) -> dict[str, int]:
    """What the rows say of an episode; of its length only where its frames count from 0 on."""
    at = rows.of_episode.get(episode)
    if at is None:
        return {}
    facts = {"dataset_from_index": int(at[0]), "dataset_to_index": int(at[-1]) + 1}
    if np.array_equal(rows.frame[at], np.arange(len(at))):
        facts["length"] = len(at)
    path = rows.paths[rows.file[at[0]]]
    if match := _PLACE.search(path.as_posix()):
        place = {"data/chunk_index": int(match[1]), "data/file_index": int(match[2])}
        if stored(root, template, place, "data") == path:
            facts |= place
    return facts


def index_tasks(root: Path) -> Iterator[str]:
    """Make meta/tasks.parquet from meta/episodes where it is lost, and sort it where it is out of order."""
    path, rows = root / TASKS, FrameRows.read(data_files(root))
    try:
        texts = read_texts(path, "task")
    except DatasetError:
        if (tasks := _tasks_of_episodes(root, rows)) is not None:
            write_bytes(path, tasks_file(tasks, {}))
            yield f"{TASKS}: made from the tasks in meta/episodes"
        return
    indices = list(texts)
    if indices == list(range(len(indices))) or len(indices) < count_rows(path):
        return
    task_indices = np.sort(np.array(indices, np.int64))
    if not np.array_equal(task_indices, np.arange(len(task_indices))):
        if not np.isin(rows.task, task_indices).all():
            return
        set_column(rows, "task_index", np.searchsorted(task_indices, rows.task))
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


def name_features(root: Path) -> Iterator[str]:
    """Let features of meta/info.json be the columns that all data files have, in the size that they have."""
    info = read_info(root)
    features, paths = info["features"], data_files(root)
    schemas = [parquet_schema(path) for path in paths]
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
    if added or missing or resized:
        write_json(root / _INFO, info)
    for names, what in ((added, "added"), (missing, "dropped"), (resized, "given the size of the column")):
        if names:
            yield f"{_INFO}: features {what}: {', '.join(sorted(names))}"


def _feature(kind: pa.DataType) -> dict[str, Any] | None:
    """What info.json says of a column of numbers or texts, one a frame; None for another column."""
    if pa.types.is_string(kind):
        return {"dtype": "string", "shape": [1], "names": None}
    dtype = "bool" if pa.types.is_boolean(kind) else str(kind).replace("double", "float64")
    dtype = "float32" if dtype == "float" else dtype
    return {"dtype": dtype, "shape": [1], "names": None} if dtype in NUMERIC else None


def _size(paths: list[Path], name: str, feature: dict[str, Any]) -> int | None:
    """How many numbers each row of a vector holds, where it is not what its feature says."""
    if feature["dtype"] not in NUMERIC or len(feature["shape"]) != 1 or feature["shape"][0] < 2:
        return None
    files = [(count_rows(path), *count_values(path).get(name, (0, 0))) for path in paths]
    fits = all(rows and values % rows == 0 and not nulls for rows, values, nulls in files)
    size, *others = {values // rows for rows, values, _ in files} if fits else {0}
    return None if others or size < 2 or size == feature["shape"][0] else size


def measure_cameras(root: Path) -> Iterator[str]:
    """Write the path of the videos, and the size of a camera's pictures as its videos have it."""
    info, episodes = read_info(root), EpisodeRows.read(root)
    text_before = json.dumps(info)
    cameras = [name for name, feature in info["features"].items() if feature["dtype"] == "video"]
    if cameras and not info.get("video_path") and _are_there(root, episodes, cameras):
        info["video_path"] = VIDEO_PATH
        yield f"{_INFO}: video_path written"
    for camera in cameras if info.get("video_path") else ():
        paths = {_video(root, info["video_path"], row, camera) for row in episodes} - {None}
        try:
            sizes = {VideoIndex.read(path).size for path in paths if path is not None}
        except DatasetError:
            continue
        feature = info["features"][camera]
        if len(sizes) == 1 and (size := sizes.pop()) and not declares(feature, size):
            channels = 1 if 1 in (feature.get("shape") or ()) else 3
            feature |= {"shape": [size[1], size[0], channels], "names": ["height", "width", "channels"]}
            yield f"{_INFO}: {camera} given the size of its videos, {size[0]}x{size[1]}"
    if json.dumps(info) != text_before:
        write_json(root / _INFO, info)


type _Place = tuple[int, int, float | None]
"""Of an episode in a video: index, frames, and where it is said to begin, in seconds."""


def place_videos(root: Path) -> Iterator[str]:
    """Write where episodes begin in a video that has just their frames, in the order of the episodes."""
    info, episodes = read_info(root), EpisodeRows.read(root)
    fps, template = float(info["fps"]), info.get("video_path") or VIDEO_PATH
    for camera in [n for n, f in info["features"].items() if f["dtype"] == "video"]:
        name, starts = f"videos/{camera}/from_timestamp", dict[int, float]()
        of_file: dict[Path, list[_Place]] = {}
        for row in episodes:
            if (path := _video(root, template, row, camera)) is not None:
                of_file.setdefault(path, []).append((row["episode_index"], row["length"], row[name]))
        for path, places in of_file.items():
            starts |= _starts(path, places, fps)
        if starts:
            _write_starts(root, camera, starts, fps)
            yield f"meta/episodes: {camera} of {spell(starts)} begins where its video has the first frame"


def _starts(path: Path, places: Sequence[_Place], fps: float) -> dict[int, float]:
    """Where the episodes of a video begin, in seconds; none where that is known, or nothing tells it."""
    episodes, lengths, stated_starts = zip(*places, strict=True)
    try:
        times = VideoIndex.read(path).times
    except DatasetError:
        return {}
    if len(times) != sum(lengths) or None in stated_starts or list(stated_starts) != sorted(stated_starts):
        return {}
    starts = times[np.cumsum([0, *lengths[:-1]])].tolist()
    is_off = any(abs(a - b) > 0.5 / fps for a, b in zip(stated_starts, starts, strict=True))
    return dict(zip(episodes, starts, strict=True)) if is_off else {}


def _write_starts(root: Path, camera: str, starts: Mapping[int, float], fps: float) -> None:
    for path in episode_files(root):
        table = read_table(path)
        lengths = table["length"].to_pylist()
        for name, share in (("from_timestamp", 0.0), ("to_timestamp", 1 / fps)):
            column = f"videos/{camera}/{name}"
            rows = zip(table["episode_index"].to_pylist(), lengths, table[column].to_pylist(), strict=True)
            values = [starts[e] + share * length if e in starts else old for e, length, old in rows]
            table = _set_numbers(table, column, values)
        _write_episodes(path, table)


def _are_there(root: Path, episodes: EpisodeRows, cameras: list[str]) -> bool:
    paths = [_video(root, VIDEO_PATH, row, camera) for row in episodes for camera in cameras]
    return all(path is not None and path.is_file() for path in paths)


def _video(root: Path, template: str, row: dict[str, Any], camera: str) -> Path | None:
    prefix = f"videos/{camera}"
    if row.get(f"{prefix}/chunk_index") is None or row.get(f"{prefix}/file_index") is None:
        return None
    return stored(root, template, row, prefix, video_key=camera)


def count_totals(root: Path) -> Iterator[str]:
    """Write how many episodes, frames and tasks there are."""
    info = read_info(root)
    text_before = json.dumps(info)
    totals = {"total_episodes": len(EpisodeRows.read(root)), "total_frames": 0}
    totals["total_frames"] = sum(count_rows(path) for path in data_files(root))
    if (root / TASKS).is_file():
        totals["total_tasks"] = count_rows(root / TASKS)
    changed = [name for name, value in totals.items() if info.get(name) != value]
    info |= totals
    if list(info.get("splits") or ()) == ["train"]:
        info["splits"] = {"train": f"0:{totals['total_episodes']}"}
    if json.dumps(info) != text_before:
        write_json(root / _INFO, info)
    if changed:
        yield f"{_INFO}: " + ", ".join(f"{name} {totals[name]}" for name in changed)


_EPISODES, _FRAMES = 20, 5
"""Of a camera without statistics in meta/episodes, so many episodes and frames of each are looked at."""


def compute_stats(root: Path) -> Iterator[str]:
    """Write the statistics where `inspect` complains of them."""
    source, path = Source.open(root), root / "meta" / "stats.json"
    if not any(stats_issues(source)):
        return
    names = [name for name, f in source.features.items() if f["dtype"] in NUMERIC]
    stats = {
        name: statistics for name in names if (statistics := _of_numbers(root, name, source.features[name]))
    }
    stats |= {camera: statistics for camera in source.cameras if (statistics := _of_camera(source, camera))}
    write_json(path, {name: {key: v.tolist() for key, v in of.items()} for name, of in stats.items()})
    yield "meta/stats.json: computed anew"


def _of_numbers(root: Path, name: str, feature: dict[str, Any]) -> Stats | None:
    """Statistics of a feature over all rows in which it is finite; None where there is no such row."""
    parts = [part for part in in_threads(partial(read_numbers, name), data_files(root)) if len(part)]
    size = int(np.prod(feature["shape"]))
    finite = [np.isfinite(part).all(axis=1) for part in parts]
    if not any(map(np.any, finite)) or {part.shape[1] for part in parts} != {size}:
        return None
    # One dimension at a time: of millions of frames all would take gigabytes.
    dimensions = [
        _of_dimension(
            np.concatenate([part[ok, i] for part, ok in zip(parts, finite, strict=True)], dtype=np.float64)
        )
        for i in range(size)
    ]
    stats = {key: np.array([of[key] for of in dimensions]) for key in dimensions[0]}
    shaped = {key: value.reshape(feature["shape"]) for key, value in stats.items()}
    return {**shaped, "count": np.array([sum(map(np.count_nonzero, finite))])}


def _of_dimension(values: NDArray[np.float64]) -> dict[str, float]:
    quantiles = zip(QUANTILES, np.quantile(values, QUANTILES), strict=True)
    return {
        "min": values.min(),
        "max": values.max(),
        "mean": values.mean(),
        "std": values.std(),
        **{f"q{int(q * 100):02d}": value for q, value in quantiles},
    }


def _of_camera(source: Source, camera: str) -> Stats | None:
    """Statistics of a camera: those of its episodes together, or else of some of its pictures."""
    groups = [group for group in episode_stats(source.root, camera, (3, 1, 1)) if len(group.get("count", ()))]
    if groups and sum(len(group["count"]) for group in groups) == len(source.rows):
        return aggregate(groups)
    levels, looked_at, indices = PictureLevels(), 0, source.indices
    for index in indices[:: max(1, len(indices) // _EPISODES)]:
        try:
            episode = source.episode(index)
            images = episode.frames(camera, range(0, len(episode), max(1, len(episode) // _FRAMES)))
        except DatasetError:
            continue
        for image in images:
            levels.add(1, image.pixels)
            looked_at += 1
    return levels.stats() if looked_at else None


_STEPS: tuple[Callable[[Path], Iterator[str]], ...] = (
    name_features,
    order_episodes,
    sort_files,
    number_rows,
    number_episodes,
    index_tasks,
    measure_cameras,
    place_videos,
    count_totals,
)


def mend(
    dataset: Path, out: Path, *, progress: OnProgress = lambda stage, done, total: None
) -> tuple[str, ...]:
    """Write a mended copy of `dataset` into the new folder `out`, and say what was mended, a line each.

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
        return tuple(_mend(part))


def _mend(root: Path) -> Iterator[str]:
    yield from _drop_strays(root)
    paths = data_files(root)
    if not paths or any(map(unreadable, paths)):
        return
    for step in _STEPS:
        yield from step(root)
    if (root / "meta" / "tasks.parquet").is_file():
        yield from compute_stats(root)


def _drop_strays(root: Path) -> Iterator[str]:
    """Leave out files below data/ that cannot be read, and in which no episode lies."""
    rows, template = EpisodeRows.read(root), read_info(root)["data_path"]
    needed = {stored(root, template, row, "data") for row in rows}
    for path in data_files(root):
        if path not in needed and unreadable(path):
            path.unlink()
            yield f"{path.relative_to(root)}: left out, since it cannot be read and no episode lies in it"
