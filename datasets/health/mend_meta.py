"""Mend meta/ of a copy by what its rows and its videos say: episodes, tasks, features, totals."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from goalreel.datasets.arrow import array, read_table, to_numpy
from goalreel.datasets.episode_rows import EpisodeRows
from goalreel.datasets.health.frames import MISSING, FrameRows
from goalreel.datasets.health.issues import spell
from goalreel.datasets.health.mend_rows import are_together, set_column
from goalreel.datasets.health.tables import NUMERIC, count_values
from goalreel.datasets.info_file import read_info
from goalreel.datasets.labels import read_texts
from goalreel.datasets.records import FOLDER
from goalreel.datasets.row_groups import count_rows, parquet_schema
from goalreel.datasets.source import declares
from goalreel.datasets.stored_files import VIDEO_PATH, stored
from goalreel.datasets.video import VideoIndex
from goalreel.datasets.writing.copies import data_files, episode_files
from goalreel.datasets.writing.meta import write_json
from goalreel.datasets.writing.tasks import TASKS, tasks_file
from goalreel.errors import DatasetError
from goalreel.files import atomic, write_bytes

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
