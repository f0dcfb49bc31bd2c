"""The instructions of a dataset, and the sub-tasks and goals that it has already."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa

from goalreel.datasets.arrow import read_table
from goalreel.datasets.episode import SUB_TASKS
from goalreel.datasets.health.frames import MISSING, FrameRows
from goalreel.datasets.health.issues import HealthIssue, spell
from goalreel.datasets.labels import subtask_labels
from goalreel.datasets.records import FOLDER
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError

_TASKS = "meta/tasks.parquet"


def task_issues(source: Source, rows: FrameRows, chosen: Collection[int]) -> Iterator[HealthIssue]:
    """Tasks that frames have and the dataset does not, and instructions that are empty or several."""
    known = read_table(source.root / "meta" / "tasks.parquet")["task_index"].to_pylist()
    if not source.info.get("total_tasks", len(known)):
        text = "meta/info.json says total_tasks 0, so lerobot reads no task: write their number"
        yield HealthIssue(kind="tasks", level="broken", text=text, group="Instructions")
    beyond = (rows.task >= len(known)) | (rows.task == MISSING)
    if beyond.any():
        episodes = np.unique(rows.episode[beyond]).tolist()
        text = f"{spell(episodes)}: frames whose task_index has no row in {_TASKS}, where lerobot fails"
        yield HealthIssue(
            kind="tasks",
            level="broken",
            text=f"{text}: add the tasks, or mend task_index",
            episodes=tuple(episodes),
            group="Instructions",
        )
    if known != list(range(len(known))):
        text = f"lerobot takes row k of {_TASKS} for task k, and they differ: sort its rows by task_index"
        yield HealthIssue(kind="task_order", level="warning", text=text, group="Instructions")
    yield from _instructions(source, rows, [e for e in chosen if e in rows.of_episode])


def _instructions(source: Source, rows: FrameRows, chosen: Sequence[int]) -> Iterator[HealthIssue]:
    empty, several = [], []
    for episode in chosen:
        tasks = rows.task[rows.of_episode[episode]]
        is_known = tasks[0] < 0 or int(tasks[0]) in source.tasks
        if is_known and tasks[0] != MISSING and not source.tasks.get(int(tasks[0]), "").strip():
            empty.append(episode)
        if (tasks != tasks[0]).any():
            several.append(episode)
    if empty:
        all_empty = len(empty) == len(chosen)
        text = "no episode has" if all_empty else f"{spell(empty)}: the first frame does not have"
        text = f"{text} an instruction, so annotate leaves {'all' if all_empty else 'that'} out"
        yield HealthIssue(
            kind="no_instruction",
            level="broken" if all_empty else "warning",
            text=f"{text}: name the task in {_TASKS}",
            episodes=tuple(empty),
            group="Instructions",
        )
    written = any((f.get("info") or {}).get(SUB_TASKS) for f in source.features.values())
    if several and not written:
        text = f"{spell(several)}: frames of one episode have several tasks, which are its owner's sub-tasks"
        yield HealthIssue(
            kind="task_per_frame",
            level="warning",
            text=f"{text}: annotate takes the first for the instruction; write the whole task there",
            episodes=tuple(several),
            group="Instructions",
        )


def label_issues(source: Source, chosen: Sequence[int]) -> Iterator[HealthIssue]:
    """Sub-tasks and sub-goals that somebody wrote before, in any form."""
    features = source.features
    if rows := _rows(source, chosen):
        text = f"{spell(rows)}: sub-task rows in language_persistent: keep them with --planner rows"
        yield _label("subtask_rows", f"{text}, or write new ones with --replace-rows", rows)
    if "subtask_index" in features or (source.root / "meta" / "subtasks.parquet").is_file():
        text = "sub-tasks in subtask_index and meta/subtasks.parquet, which annotate leaves as they are"
        yield _label("subtask_index", f"{text} and does not read")
    if (source.root / "meta" / "lerobot_annotations.json").is_file():
        yield _label("annotations", "meta/lerobot_annotations.json has labels, which annotate does not read")
    names = source.rows.names
    if stages := [name for name in ("sparse_subtask_names", "dense_subtask_names") if name in names]:
        yield _label("stages", f"SARM's stages in meta/episodes ({', '.join(stages)}), which annotate keeps")
    goals = [c for c in source.cameras if f"{c.rpartition('.')[2]}_is_pad" in features]
    if goals:
        records = " and its records" if (source.root / FOLDER).is_dir() else ""
        text = f"the sub-goal camera {', '.join(goals)}{records} of an earlier run: annotate replaces"
        yield _label("subgoal_camera", f"{text} what it shows in the episodes it annotates")


def _rows(source: Source, chosen: Sequence[int]) -> tuple[int, ...]:
    if "language_persistent" not in source.features:
        return ()
    labelled: set[int] = set()
    for path in dict.fromkeys(map(source.data_path, chosen)):
        try:
            labelled |= subtask_labels(path).keys()
        except (DatasetError, pa.ArrowException):
            continue  # said of the file itself
    return tuple(sorted(labelled & set(chosen)))


def _label(kind: str, text: str, episodes: tuple[int, ...] = ()) -> HealthIssue:
    return HealthIssue(kind=kind, level="note", text=text, episodes=episodes, group="Instructions")
