"""The instructions of a dataset, and the sub-tasks and goals that it has already."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from goalreel.datasets.arrow import read_table
from goalreel.datasets.health.frames import FrameRows
from goalreel.datasets.health.issues import HealthIssue, spell
from goalreel.datasets.label_episodes import find_labels
from goalreel.datasets.labels import ANNOTATIONS, LABEL_FORMS, SUBTASKS
from goalreel.datasets.records import FOLDER
from goalreel.datasets.source import Source
from goalreel.terms import LabelForm

_TASKS = "meta/tasks.parquet"


def task_issues(source: Source, rows: FrameRows, chosen: Collection[int]) -> Iterator[HealthIssue]:
    """Tasks that frames have and the dataset does not, and instructions that are empty."""
    task_indices = list(map(int, read_table(source.root / _TASKS)["task_index"].to_pylist()))
    stated = source.info.get("total_tasks")
    if not isinstance(stated, int) or stated <= 0:
        text = f"meta/info.json says total_tasks {stated}, so lerobot reads no task"
        text = f"{text}: write {len(task_indices)}"
        yield HealthIssue(kind="tasks", level="broken", text=text, group="Instructions")
    beyond = (rows.task >= len(task_indices)) | (rows.task < -len(task_indices))
    if beyond.any():
        episodes = np.unique(rows.episode[beyond]).tolist()
        text = f"{spell(episodes)}: frames whose task_index has no row in {_TASKS}, where lerobot fails"
        yield HealthIssue(
            kind="tasks",
            level="broken",
            text=f"{text}: add the tasks, or correct task_index",
            episodes=tuple(episodes),
            group="Instructions",
        )
    if task_indices != list(range(len(task_indices))):
        text = f"lerobot takes row k of {_TASKS} for task k, and they differ: sort its rows by task_index"
        yield HealthIssue(kind="task_order", level="warning", text=text, group="Instructions")
    yield from _instructions(source, rows, [e for e in chosen if e in rows.of_episode])


def _instructions(source: Source, rows: FrameRows, chosen: Sequence[int]) -> Iterator[HealthIssue]:
    empty, partly = [], []
    for episode in chosen:
        tasks = rows.task[rows.of_episode[episode]]
        different = [tasks[0]] if (tasks == tasks[0]).all() else np.unique(tasks)
        texts = [source.tasks[int(task)].strip() for task in different if int(task) in source.tasks]
        if not all(texts):
            (partly if any(texts) else empty).append(episode)
    if empty:
        all_empty = len(empty) == len(chosen)
        text = "no episode has" if all_empty else f"{spell(empty)}: no frame has"
        text = f"{text} an instruction, so annotate leaves {'all' if all_empty else 'that'} out"
        yield HealthIssue(
            kind="no_instruction",
            level="broken" if all_empty else "warning",
            text=f"{text}: name the task in {_TASKS}",
            episodes=tuple(empty),
            group="Instructions",
        )
    if partly:
        text = f"{spell(partly)}: some frames have an empty task, and keep it"
        yield HealthIssue(
            kind="empty_task",
            level="warning",
            text=f"{text}: annotate takes the others' for the instruction",
            episodes=tuple(partly),
            group="Instructions",
        )


_LABEL_KINDS: Mapping[LabelForm, str] = {
    "rows": "subtask_rows",
    "annotations": "annotations",
    "subtask_index": "subtask_index",
    "tasks": "task_per_frame",
    "stages": "stages",
}


def label_issues(source: Source, chosen: Sequence[int]) -> Iterator[HealthIssue]:
    """Sub-tasks and sub-goals that somebody wrote before, in any form."""
    features = source.features
    label_forms = find_labels(source, chosen)
    for form, episodes in label_forms.items():
        how = "--planner rows" if form == next(iter(label_forms)) else f"--planner rows --labels {form}"
        text = f"{spell(episodes)}: sub-task labels in {LABEL_FORMS[form]}: {how} keeps them"
        yield _label(_LABEL_KINDS[form], f"{text}, --replace-rows writes new ones", episodes)
    presence: Mapping[LabelForm, bool] = {
        "annotations": (source.root / ANNOTATIONS).is_file(),
        "subtask_index": "subtask_index" in features or (source.root / SUBTASKS).is_file(),
    }
    for form in presence:
        if presence[form] and form not in label_forms:
            text = f"{LABEL_FORMS[form]}: no sub-task there can be read, and annotate leaves it as it is"
            yield _label(_LABEL_KINDS[form], text)
    goals = [c for c in source.cameras if f"{c.rpartition('.')[2]}_is_pad" in features]
    if goals:
        records = " and its records" if (source.root / FOLDER).is_dir() else ""
        text = f"the sub-goal camera {', '.join(goals)}{records} of an earlier run: annotate replaces"
        yield _label("subgoal_camera", f"{text} what it shows in the episodes it annotates")


def _label(kind: str, text: str, episodes: tuple[int, ...] = ()) -> HealthIssue:
    return HealthIssue(kind=kind, level="note", text=text, episodes=episodes, group="Instructions")
