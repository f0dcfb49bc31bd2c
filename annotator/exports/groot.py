"""An annotated dataset in the flavour of LeRobot v2.1 that NVIDIA Isaac GR00T is fine-tuned on.

As Isaac-GR00T's getting_started/data_preparation.md publishes it, and its loaders of N1.5 and N1.6 read it: a
parquet and, of each camera, an mp4 an episode; meta/modality.json, which names the parts of state and action,
the cameras and the annotations; annotations are columns that index meta/tasks.jsonl.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.annotator.exports.annotated import Annotated, Exported
from goalreel.annotator.exports.groot_meta import DATA, VIDEO, GrootMeta
from goalreel.datasets.episode import Episode
from goalreel.datasets.labels import frame_labels, has_sub_tasks, joined_tasks
from goalreel.datasets.row_groups import parquet_schema
from goalreel.datasets.source import Source
from goalreel.datasets.writing.copies import data_files
from goalreel.datasets.writing.cut import cut_video
from goalreel.datasets.writing.goals import Goals
from goalreel.datasets.writing.schema import drop_fields, put_column
from goalreel.datasets.writing.shards import episode_tables
from goalreel.datasets.writing.tasks import sub_task_indices, task_indices
from goalreel.errors import DatasetError
from goalreel.files import atomic
from goalreel.progress import OnProgress

log = logging.getLogger(__name__)

TASK = "annotation.human.action.task_description"
"""The instruction: the column that GR00T's own datasets have."""
SUB_TASK = "annotation.goalreel.action.sub_task"
"""Each frame's sub-task; the instruction where none may be said."""
_OTHER = ("image", "video", "language")
"""What a column of a data file does not hold, or not as GR00T reads it."""


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
    columns = set(parquet_schema(data_files(source.root)[0]).names)
    for role, names in (("state", source.numbers.state), ("action", source.numbers.action)):
        if not names:
            how = f"annotate it with --layout {role}=NAME"
            raise DatasetError(f"{dataset}: no feature is known to be the {role}, and GR00T wants one: {how}")
        for name in names:
            if len(source.features[name]["shape"]) != 1:
                raise DatasetError(f"{dataset}: {name} is no vector, and GR00T wants one")
            if name not in columns:
                raise DatasetError(f"{dataset}: its data files have no column {name}, the {role}")
    total, done = len(source.rows) - len(annotated.missing), 0
    with annotated.folder(out) as part:
        export = _Export(annotated, _texts(source, annotated.goals), part, task_per_frame)
        for done, _ in enumerate(export.episodes(), start=1):
            progress("export", done, total)
        if not done:
            raise DatasetError(f"{dataset}: no episode can be read: goalreel check {dataset} says why")
        export.meta.write(part)
    return replace(annotated.exported, episodes=done)


def _texts(source: Source, goals: Mapping[int, Goals]) -> dict[str, int]:
    """Give each text that a frame may have its task index."""
    indices = task_indices(source.tasks, goals.values())
    written = has_sub_tasks(source.features)
    for text in (goals[episode].instruction for episode in sorted(goals) if written):
        indices.setdefault(text, max(*indices.values(), *source.tasks) + 1)
    return indices


class _Export:
    """Writes the episodes, and collects the content of meta/."""

    def __init__(self, annotated: Annotated, texts: dict[str, int], root: Path, task_per_frame: bool) -> None:
        source = annotated.source
        self._source, self._goals, self._missing = source, annotated.goals, annotated.missing
        self._texts, self._root = texts, root
        self._task_per_frame = task_per_frame
        numbers = {n: f for n, f in source.features.items() if f["dtype"] not in _OTHER}
        # The statistics that its loader of N1.6 makes fail on them.
        matrices = {name for name, feature in numbers.items() if len(feature["shape"]) != 1}
        if matrices:
            names = ", ".join(sorted(matrices))
            log.warning("%s: left out, for GR00T reads vectors alone: %s", source.root, names)
        absent = set(numbers) - set(parquet_schema(data_files(source.root)[0]).names)
        self._dropped = set(source.features) - set(numbers) | matrices | absent
        annotations = {index: text for text, index in texts.items()}
        self.meta = GrootMeta(source, annotations, (TASK, SUB_TASK), self._dropped)

    def episodes(self) -> Iterator[int]:
        """Write the episodes in the order of the data files, and yield the index of each."""
        for path in data_files(self._source.root):
            columns = [name for name in parquet_schema(path).names if name not in self._dropped]
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
        sub_task = task if goals is None else sub_task_indices(goals, self._texts, task)
        index = sub_task if self._task_per_frame else task
        for name, values in (("task_index", index), (TASK, task), (SUB_TASK, sub_task)):
            table = put_column(table, pa.field(name, pa.int64()), pa.chunked_array([values]))
        table = table.replace_schema_metadata(drop_fields(table.schema, self._dropped).metadata)
        with atomic(self._root / self.meta.path(DATA, episode)) as tmp:
            pq.write_table(table, tmp, compression="snappy")
        for camera in self._source.cameras:
            cut_video(recorded, camera, self._root / self.meta.path(VIDEO, episode, camera))
        self.meta.add(episode, table, index, goals)

    def _tasks(self, stored: NDArray[np.int64], goals: Goals | None) -> NDArray[np.int64]:
        """The owner's task of each frame, where `stored` may be sub-tasks that `--task-per-frame` wrote."""
        if goals is None or not has_sub_tasks(self._source.features):
            return stored
        runs = frame_labels(stored, self._source.tasks)
        if joined_tasks(runs) == goals.instruction:
            return stored
        empty = [index for index in np.unique(stored).tolist() if not self._source.tasks[index].strip()]
        return np.where(np.isin(stored, empty), stored, self._texts[goals.instruction])
