"""meta/ of OUT: where the sub-goal camera lies, its statistics, and the features in info.json."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.datasets import info_file, labels
from goalreel.datasets.parquet import array, episode_tables, list_items, read_schema, read_table, to_numpy
from goalreel.datasets.source import Source
from goalreel.datasets.writing import files, layout
from goalreel.datasets.writing.goals import listed
from goalreel.datasets.writing.language import LANGUAGE_FEATURE, language_types, put_column
from goalreel.datasets.writing.plan import FORM, BuildPlan
from goalreel.datasets.writing.video import video_info
from goalreel.files import atomic, read_json, write_bytes

type Stats = dict[str, NDArray[Any]]
QUANTILES = (0.01, 0.10, 0.50, 0.90, 0.99)
"""lerobot's `DEFAULT_QUANTILES`."""

_CHANNELS = pa.list_(pa.list_(pa.list_(pa.float64())))


class PictureLevels:
    """Counts of each level in the pictures of an episode, as they pass."""

    def __init__(self) -> None:
        self._frames = 0
        self._histogram = np.zeros((3, 256), np.int64)

    def add(self, frames: int, picture: NDArray[np.uint8]) -> None:
        """Count a (height, width, 3) picture for so many frames."""
        self._frames += frames
        for channel in range(3):
            counts = np.bincount(picture[:, :, channel].ravel(), minlength=256)
            self._histogram[channel] += frames * counts

    def stats(self) -> Stats:
        """Statistics as lerobot stores them, of one picture or more.

        `min`, `max`, `mean`, `std` and `q01`-like quantiles are (3, 1, 1) in [0, 1]; `count` is (1,) frames.
        """
        levels, histogram = np.arange(256) / 255.0, self._histogram
        pixels, present = histogram.sum(axis=1), histogram > 0
        mean = histogram @ levels / pixels
        variance = histogram @ levels**2 / pixels - mean**2
        values_by_name = {
            "min": levels[present.argmax(axis=1)],
            "max": levels[255 - present[:, ::-1].argmax(axis=1)],
            "mean": mean,
            "std": np.sqrt(np.maximum(variance, 0.0)),
        }
        reached = histogram.cumsum(axis=1)
        for q in QUANTILES:
            values_by_name[f"q{int(q * 100):02d}"] = levels[(reached >= q * pixels[:, None]).argmax(axis=1)]
        stats: Stats = {name: value.reshape(3, 1, 1) for name, value in values_by_name.items()}
        return {**stats, "count": np.array([self._frames])}


def aggregate(groups: Sequence[Stats]) -> Stats:
    """Statistics of a whole dataset from those of its episodes, as lerobot's `aggregate_feature_stats`.

    Each group holds the statistics of some episodes, (episodes, 3, 1, 1) for pictures and (episodes, 1) for
    numbers, and their `count`, (episodes, 1), which may be 0. A quantile of the whole is the mean of the
    episodes' quantiles, weighted by their frames.
    """
    parts = {name: [group[name] for group in groups] for name in groups[0]}
    stats = {name: part[0] if len(part) == 1 else np.concatenate(part) for name, part in parts.items()}
    count = stats.pop("count")
    total, weight = count.sum(axis=0), count.reshape(-1, *(1,) * (stats["mean"].ndim - 1))
    frames = np.maximum(total, 1)
    mean = (stats["mean"] * weight).sum(axis=0) / frames
    variance = ((stats["std"] ** 2 + (stats["mean"] - mean) ** 2) * weight).sum(axis=0) / frames
    quantiles = {name: values for name, values in stats.items() if name.startswith("q")}
    return {
        "min": stats["min"].min(axis=0),
        "max": stats["max"].max(axis=0),
        "mean": mean,
        "std": np.sqrt(variance),
        "count": total,
        **{name: (values * weight).sum(axis=0) / frames for name, values in quantiles.items()},
    }


def write_episodes(
    original: Path,
    target: Path,
    placed: Mapping[int, layout.EpisodePlace],
    stats: Mapping[int, Stats],
    job: BuildPlan,
) -> None:
    """Rewrite one file of meta/episodes with the sub-goal camera; episodes not `placed` keep their values.

    `stats` are those of the episodes `placed`. Where frames have their sub-tasks as their tasks, the
    instruction is the first that is listed, of episodes without goals too.
    """
    table = read_table(original).combine_chunks()
    episodes = table["episode_index"].to_pylist()

    def put(column: str, kind: pa.DataType, new: Mapping[int, Any]) -> None:
        nonlocal table
        old = table[column].to_pylist() if column in table.column_names else [None] * len(table)
        values = [new.get(episode, value) for episode, value in zip(episodes, old, strict=True)]
        table = put_column(table, pa.field(column, kind), pa.chunked_array([array(values, kind)], kind))

    for name in ("chunk_index", "file_index", "from_timestamp", "to_timestamp"):
        kind = pa.int64() if name.endswith("index") else pa.float64()
        put(f"videos/{job.key}/{name}", kind, {e: getattr(place, name) for e, place in placed.items()})
    for name in next(iter(stats.values()), {}):
        kind = pa.list_(pa.int64()) if name == "count" else _CHANNELS
        put(f"stats/{job.key}/{name}", kind, {e: stats[e][name].tolist() for e in placed})
    if job.tasks and "tasks" in table.column_names:
        old = zip(episodes, table["tasks"].to_pylist(), strict=True)
        texts = {
            e: listed(job.goals[e], job.tasks, tasks) if e in job.goals else _ordered(tasks, job.source, e)
            for e, tasks in old
        }
        put("tasks", table.schema.field("tasks").type, texts)
        new = _task_stats(episodes, job)
        for field in table.schema:
            name = field.name.removeprefix("stats/task_index/")
            if name != field.name:
                put(field.name, field.type, {e: s[name].tolist() for e, s in new.items() if name in s})
    with atomic(target) as tmp:
        pq.write_table(table, tmp, row_group_size=1024, compression="snappy", use_dictionary=True)


def _task_stats(episodes: Sequence[int], job: BuildPlan) -> dict[int, Stats]:
    """The statistics of `task_index` as it is in OUT, of those `episodes` that have goals."""
    stats = dict[int, Stats]()
    for shard in {job.clock[e].shard for e in episodes if e in job.goals}:
        path = job.out / shard.relative_to(job.source.root)
        parts = episode_tables(path, ["episode_index", "task_index"])
        stats |= {e: number_stats(to_numpy(part["task_index"])) for e, part in parts if e in job.goals}
    return stats


def _ordered(tasks: list[str], source: Source, episode: int) -> list[str]:
    """The tasks of an episode without goals, its instruction first; most have only that one."""
    instruction = source.episode(episode).instruction if len(tasks) > 1 else ""
    return sorted(tasks, key=lambda task: task.strip() != instruction)


def write_stats(root: Path, out: Path, key: str, numbers: Sequence[str] = ()) -> None:
    """stats.json of IN with the camera `key`, and features of one number, aggregated over OUT's episodes.

    The mask gets no entry: it is nothing to normalise.
    """
    path = root / "meta" / "stats.json"
    stats = read_json(path) if path.is_file() else {}
    for feature, shape in [(key, (3, 1, 1)), *((name, (1,)) for name in numbers)]:
        if any(groups := episode_stats(out, feature, shape)):
            stats[feature] = {name: values.tolist() for name, values in aggregate(groups).items()}
    write_json(out / "meta" / "stats.json", stats)


def episode_stats(root: Path, feature: str, shape: tuple[int, ...]) -> list[Stats]:
    """The statistics of a feature in each file of meta/episodes, of the form that `aggregate` takes.

    Episodes without any are left out. As Python lists the numbers would take 5 KB an episode.
    """
    groups, prefix = list[Stats](), f"stats/{feature}/"
    for file in files.episode_files(root):
        stats: Stats = {}
        columns = [name for name in read_schema(file).names if name.startswith(prefix)]
        table = read_table(file, columns).combine_chunks()
        for column in columns:
            name, values = column.removeprefix(prefix), table[column].combine_chunks()
            item_shape = (1,) if name == "count" else shape
            for _ in item_shape:
                values = list_items(values)
            stats[name] = to_numpy(values).reshape(-1, *item_shape)
        groups.append(stats)
    return groups


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
            "info": video_info(video, job.encoder) | {"video.fps": int(job.source.fps), FORM: job.form},
        }
    if job.task_per_frame:
        camera = features[job.key]
        camera["info"] = {**(camera.get("info") or {}), labels.SUB_TASKS: True}
    features[job.pad_key] = {"dtype": "bool", "shape": [1], "names": None}
    for name in language_types():
        if job.text.language:
            features[name] = LANGUAGE_FEATURE
        else:
            features.pop(name, None)
    if job.tasks:
        info["total_tasks"] = len({*job.source.tasks, *job.tasks.values()})
    info["video_path"] = info.get("video_path") or info_file.VIDEO_PATH
    write_json(job.out / "meta" / "info.json", info)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON atomically, indented as lerobot does."""
    write_bytes(path, json.dumps(content, indent=4, ensure_ascii=False).encode())


def number_stats(values: NDArray[np.number]) -> Stats:
    """Statistics as lerobot stores them, (1,) each; zeros with the count 0 where there is no number."""
    numbers = values[np.isfinite(values)].astype(np.float64)
    count, numbers = len(numbers), numbers if len(numbers) else np.zeros(1)
    stats = {name: np.array([getattr(numbers, name)()]) for name in ("min", "max", "mean", "std")}
    stats |= {f"q{int(q * 100):02d}": np.array([np.quantile(numbers, q)]) for q in QUANTILES}
    return {**stats, "count": np.array([count])}
