"""An annotated dataset in the flavour of LeRobot v2.1 that NVIDIA Isaac GR00T is fine-tuned on.

As Isaac-GR00T's getting_started/data_preparation.md publishes it, and its loaders of N1.5 and N1.6 read it: a
parquet and, of each camera, an mp4 an episode; meta/modality.json, which names the parts of state and action,
the cameras and the annotations; annotations are columns that index meta/tasks.jsonl.
"""

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.annotator.exports.annotated import Annotated, Exported
from goalreel.datasets.episode import Episode
from goalreel.datasets.labels import frame_labels, has_sub_tasks, joined_tasks
from goalreel.datasets.parquet import episode_tables, read_batches, read_schema, to_numpy
from goalreel.datasets.source import Source
from goalreel.datasets.writing.card import CARD, before_goalreel, claim_lines
from goalreel.datasets.writing.files import data_files, dataset_files, episode_files
from goalreel.datasets.writing.frame_columns import PROGRESS, sub_task_indices, task_indices
from goalreel.datasets.writing.goals import Goals
from goalreel.datasets.writing.language import drop_fields, put_column
from goalreel.datasets.writing.plan import FORM
from goalreel.datasets.writing.video import cut_video, video_info
from goalreel.errors import DatasetError
from goalreel.files import atomic, copy, write_bytes
from goalreel.progress import OnProgress

log = logging.getLogger(__name__)

TASK = "annotation.human.action.task_description"
"""The instruction: the column that GR00T's own datasets have."""
SUB_TASK = "annotation.goalreel.action.sub_task"
"""Each frame's sub-task; the instruction where none may be said."""
DATA = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
VIDEO = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
_CAMERA = "observation.images."
_OTHER = ("image", "video", "language")
"""Types that a data file does not hold, or not as GR00T reads them."""
_OF_V3 = ("data_files_size_in_mb", "video_files_size_in_mb")

WHOLE = "all"
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PARTS = {
    "gripper": {"gripper", "grip", "claw", "jaw"},
    "hand": {"hand", "finger", "thumb", "index", "middle", "ring", "pinky", "little", "palm"},
    "leg": {"leg", "hip", "knee", "ankle", "foot"},
    "arm": {"arm", "shoulder", "elbow", "forearm", "wrist"},
    "neck": {"neck", "head"},
    "waist": {"waist", "torso"},
}
_UNSIDED = {"neck", "waist"}
"""With a side, these names mean a joint of an arm, as ALOHA's `left_waist`."""


def export_groot(
    dataset: Path,
    out: Path,
    *,
    task_per_frame: bool = False,
    progress: OnProgress = lambda stage, done, total: None,
) -> Exported:
    """Write the annotated `dataset` into the new folder `out` for GR00T.

    Videos are copied without encoding them anew where that can be (`cut_video`), and stored pictures become
    videos. Episodes of which a file is missing, or whose numbers cannot be read, are left out; so are depth
    maps, matrices, language columns and records. The numbers of all frames are held in memory, for exact
    quantiles.

    `task_index` is each frame's task as its owner has it; with `task_per_frame` its sub-task, for readers of
    no other words.

    Raises:
        InputError: `out` is there already.
        DatasetError: the dataset was not annotated by goalreel, is not written yet, is damaged, or has no
            vector that is known to be the state or the action; the disk is full.
    """
    annotated = Annotated.open(dataset)
    source = annotated.source
    columns = set(read_schema(data_files(source.root)[0]).names)
    for role, names in (("state", source.numbers.state), ("action", source.numbers.action)):
        if not names:
            how = f"annotate it with --layout {role}=NAME"
            raise DatasetError(f"{dataset}: no feature is known to be the {role}, and GR00T wants one: {how}")
        for name in names:
            if len(source.features[name]["shape"]) != 1 or name not in columns:
                raise DatasetError(f"{dataset}: {name}, the {role}, is no vector in its data files")
    total, done = len(source.rows) - len(annotated.missing), 0
    with annotated.folder(out) as part:
        export = _GrootExport(annotated, part, columns, task_per_frame)
        for done, _ in enumerate(export.write_episodes(), start=1):
            progress("export", done, total)
        if not done:
            raise DatasetError(f"{dataset}: no episode can be read: goalreel check {dataset} says why")
        export.write_meta()
    return replace(annotated.exported, episodes=done)


class _GrootExport:
    """Writes the episodes, and collects the content of meta/."""

    def __init__(self, annotated: Annotated, root: Path, columns: set[str], task_per_frame: bool) -> None:
        source = annotated.source
        self._source, self._goals, self._missing = source, annotated.goals, annotated.missing
        self._root, self._task_per_frame = root, task_per_frame
        self._indices = task_indices(source.tasks, annotated.goals.values())
        """Text that a frame may have -> task index."""
        for episode in sorted(annotated.goals) if has_sub_tasks(source.features) else ():
            following = max(*self._indices.values(), *source.tasks) + 1
            self._indices.setdefault(annotated.goals[episode].instruction, following)
        self._texts = dict(source.tasks) | {index: text for text, index in self._indices.items()}
        numbers = {n: f for n, f in source.features.items() if f["dtype"] not in _OTHER}
        # The statistics that its loader of N1.6 makes fail on them.
        matrices = {name for name, feature in numbers.items() if len(feature["shape"]) != 1}
        if matrices:
            names = ", ".join(sorted(matrices))
            log.warning("%s: left out, for GR00T reads vectors alone: %s", source.root, names)
        self._dropped = set(source.features) - (set(numbers) & columns - matrices)
        self._features = self._described()
        # The progress is NaN on some frames, and nothing to normalise.
        kinds = ("float", "int", "uint", "bool")
        self._numbers: dict[str, list[NDArray[np.float32]]] = {
            name: []
            for name, feature in self._features.items()
            if feature["dtype"].startswith(kinds) and len(feature["shape"]) == 1 and name != PROGRESS
        }
        self._camera_stats = _camera_stats(source)
        self._claims: list[str] = []
        self._episodes: dict[int, dict[str, Any]] = {}
        self._stats: dict[int, dict[str, Any]] = {}
        self._chunk = int(source.info.get("chunks_size", 1000))

    def _described(self) -> dict[str, dict[str, Any]]:
        """Describe the features as v2.1 does; GR00T's loader of N1.5 wants `channels` beside `info`."""
        features: dict[str, dict[str, Any]] = {}
        for name, feature in self._source.features.items():
            if name in self._source.cameras:
                width, height = self._source.picture_size(name)
                names = ["height", "width", "channels"]
                features[name] = {"dtype": "video", "shape": [height, width, 3], "names": names}
            elif name not in self._dropped:
                features[name] = {key: value for key, value in feature.items() if key != "fps"}
        return features | {n: {"dtype": "int64", "shape": [1], "names": None} for n in (TASK, SUB_TASK)}

    def _path(self, template: str, episode: int, camera: str = "") -> Path:
        """Name the file of an episode."""
        where = {"episode_chunk": episode // self._chunk, "episode_index": episode, "video_key": camera}
        return self._root / template.format(**where)

    def write_episodes(self) -> Iterator[int]:
        """Write the episodes in the order of the data files, and yield the index of each."""
        for path in data_files(self._source.root):
            columns = [name for name in read_schema(path).names if name not in self._dropped]
            for episode, table in episode_tables(path, columns):
                if episode in self._missing:
                    continue
                try:
                    recorded = self._source.episode(episode)
                except DatasetError as e:
                    log.warning("%s: not exported", e)
                    continue
                self._write(recorded, table.sort_by("frame_index"))
                yield episode

    def _write(self, recorded: Episode, table: pa.Table) -> None:
        episode = recorded.index
        goals = self._goals.get(episode)
        task = self._tasks(table["task_index"].to_numpy().astype(np.int64), goals)
        sub_task = task if goals is None else sub_task_indices(goals, self._indices, task)
        index = sub_task if self._task_per_frame else task
        for name, values in (("task_index", index), (TASK, task), (SUB_TASK, sub_task)):
            table = put_column(table, pa.field(name, pa.int64()), pa.chunked_array([values]))
        table = table.replace_schema_metadata(drop_fields(table.schema, self._dropped).metadata)
        with atomic(self._path(DATA, episode)) as tmp:
            pq.write_table(table, tmp, compression="snappy")
        for camera in self._source.cameras:
            cut_video(recorded, camera, self._path(VIDEO, episode, camera))
        spans = () if goals is None else goals.spans
        self._episodes[episode] = {
            "episode_index": episode,
            "tasks": [self._texts[at] for at in dict.fromkeys(index.tolist())],
            "length": len(table),
            # Read by N1.6's loader as the language "sub_task".
            "sub_tasks": [{"start": s.start, "end": s.end, "text": s.name} for s in spans if s.name],
        }
        self._claims += () if goals is None else goals.claims
        stats = self._camera_stats.get(episode, {}) | self._add_numbers(table)
        self._stats[episode] = {"episode_index": episode, "stats": stats}

    def _tasks(self, stored: NDArray[np.int64], goals: Goals | None) -> NDArray[np.int64]:
        """Give each frame its owner's task, where `stored` may be sub-tasks that `--task-per-frame` wrote."""
        if goals is None or not has_sub_tasks(self._source.features):
            return stored
        runs = frame_labels(stored, self._source.tasks)
        if joined_tasks(runs) == goals.instruction:
            return stored
        empty = [index for index in np.unique(stored).tolist() if not self._source.tasks[index].strip()]
        return np.where(np.isin(stored, empty), stored, self._indices[goals.instruction])

    def _add_numbers(self, table: pa.Table) -> dict[str, dict[str, Any]]:
        """Collect the numbers of an episode, and return their min, max, mean, std and count."""
        stats: dict[str, dict[str, Any]] = {}
        for name, collected in self._numbers.items():
            column = table[name].combine_chunks()
            items = column.flatten() if pa.types.is_nested(column.type) else column
            values = np.asarray(to_numpy(items), np.float64).reshape(len(table), -1)
            collected.append(values.astype(np.float32))
            kinds = ("min", "max", "mean", "std")
            stats[name] = {kind: getattr(values, kind)(axis=0).tolist() for kind in kinds}
            stats[name]["count"] = [len(values)]
        return stats

    def _total_stats(self) -> dict[str, dict[str, Any]]:
        """Compute statistics of all frames; without a count, for GR00T's loader indexes by dimension."""
        stats: dict[str, dict[str, Any]] = {}
        for name, collected in self._numbers.items():
            values = np.concatenate(collected)
            low, high = np.quantile(values, (0.01, 0.99), axis=0)
            stats[name] = {
                "mean": values.mean(axis=0, dtype=np.float64).tolist(),
                "std": values.std(axis=0, dtype=np.float64).tolist(),
                "min": values.min(axis=0).tolist(),
                "max": values.max(axis=0).tolist(),
                "q01": low.tolist(),
                "q99": high.tolist(),
            }
        return stats

    def write_meta(self) -> None:
        """Write the files of meta/, and the card, where the videos exist already."""
        meta, root = self._root / "meta", self._source.root
        tasks = [{"task_index": index, "task": text} for index, text in sorted(self._texts.items())]
        _write_lines(meta / "tasks.jsonl", tasks)
        _write_lines(meta / "episodes.jsonl", (self._episodes[e] for e in sorted(self._episodes)))
        _write_lines(meta / "episodes_stats.jsonl", (self._stats[e] for e in sorted(self._stats)))
        files = (("stats", self._total_stats()), ("modality", self._modality()), ("info", self._info()))
        for name, content in files:  # plain ASCII: GR00T reads them in the encoding of its machine
            write_bytes(meta / f"{name}.json", json.dumps(content, indent=4).encode())
        for path in dataset_files(root):
            if path.parent == root and path.name != CARD.name:
                copy(path, self._root / path.name)
        card = root / CARD
        text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
        texts = (before_goalreel(text).strip(), "## Sub-tasks", "\n".join(claim_lines(self._claims)))
        write_bytes(self._root / CARD, "\n\n".join(filter(None, texts)).encode() + b"\n")

    def _modality(self) -> dict[str, Any]:
        annotations = [name for name in self._features if name.startswith("annotation.")]
        return {
            "state": self._parts(self._source.numbers.state, "observation.state"),
            "action": self._parts(self._source.numbers.action, "action"),
            "video": {c.removeprefix(_CAMERA): {"original_key": c} for c in self._source.cameras},
            "annotation": {name.removeprefix("annotation."): {} for name in annotations},
        }

    def _parts(self, names: Sequence[str], usual: str) -> dict[str, dict[str, int | str]]:
        """Name the parts of some features; GR00T looks for them in `usual` where there is no original_key."""
        entries: dict[str, dict[str, int | str]] = {}
        for name in names:
            feature = self._features[name]
            groups = parts(feature.get("names"), feature["shape"][0])
            short_name = name.rpartition(".")[2]
            for part, (start, end) in groups.items():
                key = part if len(names) == 1 else short_name if len(groups) == 1 else f"{short_name}_{part}"
                elsewhere = {} if name == usual else {"original_key": name}
                entries[name if key in entries else key] = {"start": start, "end": end, **elsewhere}
        return entries

    def _info(self) -> dict[str, Any]:
        info = {key: value for key, value in self._source.info.items() if key not in _OF_V3}
        episodes = list(self._episodes)
        for camera in self._source.cameras:
            probed = video_info(self._path(VIDEO, min(episodes), camera))
            camera_info = self._source.features[camera].get("info") or {}
            form = {FORM: camera_info[FORM]} if FORM in camera_info else {}
            self._features[camera]["info"] = probed | {"video.fps": info["fps"]} | form
        return info | {
            "codebase_version": "v2.1",
            "total_episodes": len(episodes),
            "total_frames": sum(line["length"] for line in self._episodes.values()),
            "total_tasks": len(self._texts),
            "total_videos": len(episodes) * len(self._source.cameras),
            "total_chunks": len({episode // self._chunk for episode in episodes}),
            "chunks_size": self._chunk,
            "data_path": DATA,
            "video_path": VIDEO,
            "features": self._features,
        }


def _camera_stats(source: Source) -> dict[int, dict[str, dict[str, Any]]]:
    """Map each episode to the statistics of its cameras in meta/episodes."""
    stats: dict[int, dict[str, dict[str, Any]]] = {}
    kinds = ("min", "max", "mean", "std", "count")
    names = {f"stats/{camera}/{name}": (camera, name) for camera in source.cameras for name in kinds}
    for path in episode_files(source.root):
        columns = [name for name in names if name in read_schema(path).names]
        for batch in read_batches(path, ["episode_index", *columns], 256):
            for row in batch.to_pylist():
                of_episode = stats[row.pop("episode_index")] = {}
                for column, values in row.items():
                    camera, name = names[column]
                    of_episode.setdefault(camera, {})[name] = values
    return stats


def _write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    write_bytes(path, "".join(f"{json.dumps(line)}\n" for line in lines).encode())


def parts(names: Any, dims: int) -> dict[str, tuple[int, int]]:
    """Map each part to its dimensions, from and to (exclusive), of a vector whose feature has these `names`.

    A dictionary of several lists names the parts. Else each name does, by what is known of joints and sides.
    A name that is not known is the arm where others are, as `x` beside `gripper`. Where nothing is known, or
    a part lies in two places, all is one part.

    >>> parts(["x", "y", "z", "gripper"], 4)
    {'arm': (0, 3), 'gripper': (3, 4)}
    """
    groups = _groups(names)
    if sum(len(group) for _, group in groups) != dims:
        return {WHOLE: (0, dims)}
    if len(groups) == 1:
        groups = [(part, list(group)) for part, group in groupby(groups[0][1], _part)]
        if all(part is None for part, _ in groups):
            return {WHOLE: (0, dims)}
        named_parts = [(part or "arm", name) for part, group in groups for name in group]
        groups = [(part, list(group)) for part, group in groupby(named_parts, lambda pair: pair[0])]
    ranges: dict[str, tuple[int, int]] = {}
    at = 0
    for part, group in groups:
        if part in ranges:
            return {WHOLE: (0, dims)}
        ranges[part] = (at, at + len(group))
        at += len(group)
    return ranges


def _groups(names: Any) -> list[tuple[str, list[str]]]:
    """Group names as lerobot's datasets hold them: a list, a list in a list, or a dictionary of lists."""
    if isinstance(names, dict):
        return [
            (str(key), list(group) if isinstance(group, list) else [str(group)])
            for key, group in names.items()
        ]
    flat = [name for group in names or () for name in (group if isinstance(group, list) else [group])]
    return [("", [str(name) for name in flat])]


def _part(name: str) -> str | None:
    tokens = {word.lower() for word in _WORD.findall(name)}
    side = next((side for side in ("left", "right") if side in tokens), None)
    part = next((part for part, part_tokens in _PARTS.items() if tokens & part_tokens), None)
    if side is None:
        return part
    return f"{side}_{'arm' if part is None or part in _UNSIDED else part}"
