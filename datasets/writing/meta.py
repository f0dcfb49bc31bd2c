"""meta/ of OUT: where the sub-goal camera lies, its statistics, and the features in info.json."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.datasets.arrow import array, list_items, read_table, to_numpy
from goalreel.datasets.episode import SUB_TASKS, VIDEO_PATH
from goalreel.datasets.source import Source
from goalreel.datasets.writing.copies import episode_files
from goalreel.datasets.writing.encoder import video_info
from goalreel.datasets.writing.layout import EpisodePlace
from goalreel.datasets.writing.plan import FORM, BuildPlan
from goalreel.datasets.writing.schema import LANGUAGE_FEATURE, language_types, put_column
from goalreel.datasets.writing.stats import Stats, aggregate
from goalreel.datasets.writing.tasks import listed
from goalreel.files import atomic, write_bytes

_CHANNELS = pa.list_(pa.list_(pa.list_(pa.float64())))


def write_episodes(
    original: Path,
    target: Path,
    placed: Mapping[int, EpisodePlace],
    stats: Mapping[int, Stats],
    job: BuildPlan,
) -> None:
    """Rewrite one file of meta/episodes with the sub-goal camera; episodes not `placed` keep their values.

    Where frames have their sub-tasks as their tasks, the instruction is the first that is listed, of episodes
    without goals too.

    Raises:
        DatasetError: the disk is full.
    """
    table = read_table(original)
    episodes = table["episode_index"].to_pylist()
    for name, kind in _columns(job.key, stats).items():
        old = table[name].to_pylist() if name in table.column_names else [None] * len(table)
        values = [
            _value(name, placed[e], stats[e]) if e in placed else old[i] for i, e in enumerate(episodes)
        ]
        table = put_column(table, pa.field(name, kind), pa.chunked_array([array(values, kind)], kind))
    if job.tasks and "tasks" in table.column_names:
        old = zip(table["tasks"].to_pylist(), episodes, strict=True)
        values = [
            listed(job.goals[e], job.tasks, tasks) if e in job.goals else _ordered(tasks, job.source, e)
            for tasks, e in old
        ]
        at = table.schema.get_field_index("tasks")
        table = table.set_column(at, table.schema.field(at), array(values, table.schema.field(at).type))
    with atomic(target) as tmp:
        pq.write_table(table, tmp, compression="snappy", use_dictionary=True)


def _ordered(tasks: list[str], source: Source, episode: int) -> list[str]:
    """The tasks of an episode without goals, its instruction first; most have only that one."""
    if len(tasks) < 2:
        return tasks
    instruction = source.episode(episode).instruction
    return sorted(tasks, key=lambda task: task.strip() != instruction)


def _columns(key: str, stats: Mapping[int, Stats]) -> dict[str, pa.DataType]:
    columns = {f"videos/{key}/{name}": pa.int64() for name in ("chunk_index", "file_index")}
    columns |= {f"videos/{key}/{name}": pa.float64() for name in ("from_timestamp", "to_timestamp")}
    for name in next(iter(stats.values()), {}):
        columns[f"stats/{key}/{name}"] = pa.list_(pa.int64()) if name == "count" else _CHANNELS
    return columns


def _value(column: str, place: EpisodePlace, stats: Stats) -> object:
    kind, _, name = column.rpartition("/")
    if kind.startswith("stats/"):
        return stats[name].tolist()
    return {
        "chunk_index": place.chunk,
        "file_index": place.file,
        "from_timestamp": place.from_timestamp,
        "to_timestamp": place.to_timestamp,
    }[name]


def write_stats(root: Path, out: Path, key: str) -> None:
    """stats.json of IN with the camera `key` aggregated over OUT's episodes.

    The mask gets no entry: it is nothing to normalise.
    """
    episodes: list[Stats] = []
    for path in episode_files(out):
        names = [n for n in pq.read_schema(path).names if n.startswith(f"stats/{key}/")]
        episodes.append(_arrays(read_table(path, names)))
    path = root / "meta" / "stats.json"
    stats = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    stats[key] = {name: values.tolist() for name, values in aggregate(episodes).items()}
    write_json(out / "meta" / "stats.json", stats)


def _arrays(table: pa.Table) -> dict[str, NDArray[np.generic]]:
    """The numbers of statistics columns by name, (rows, 3, 1, 1) or, of the count, (rows, 1).

    Episodes without any are left out. As Python lists the numbers would take 5 KB an episode.
    """
    arrays = {}
    for name in table.column_names:
        values, shape = table[name].combine_chunks(), (1,) if name.endswith("/count") else (3, 1, 1)
        for _ in shape:
            values = list_items(values)
        arrays[name.rpartition("/")[2]] = to_numpy(values).reshape(-1, *shape)
    return arrays


def write_info(job: BuildPlan, video: Path | None) -> None:
    """info.json of OUT: IN's, the camera as lerobot describes a video, the mask, and the language columns.

    `video` is a file of the camera to probe, None where IN describes it already.
    """
    info = json.loads(json.dumps(job.source.info))
    features = info["features"]
    if video is not None:
        features[job.key] = {
            "dtype": "video",
            "shape": [job.size[1], job.size[0], 3],
            "names": ["height", "width", "channels"],
            "info": video_info(video, job.encoder) | {FORM: job.form},
        }
    if job.text.task_per_frame:
        camera = features[job.key]
        camera["info"] = {**(camera.get("info") or {}), SUB_TASKS: True}
    features[job.pad_key] = {"dtype": "bool", "shape": [1], "names": None}
    for name in language_types():
        if job.text.language:
            features[name] = LANGUAGE_FEATURE
        else:
            features.pop(name, None)
    if job.tasks:
        info["total_tasks"] = len({*job.source.tasks, *job.tasks.values()})
    info["video_path"] = info.get("video_path") or VIDEO_PATH
    write_json(job.out / "meta" / "info.json", info)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON atomically, indented as lerobot does."""
    write_bytes(path, json.dumps(content, indent=4, ensure_ascii=False).encode())
