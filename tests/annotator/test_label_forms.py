"""Labels of a dataset's owner in every form: taken as the steps, kept in OUT, never lost unasked."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.cli import fails, goalreel, results
from support.faults import DATA, TASKS, both, column, info, table
from support.steady import Steady, contents

from goalreel.annotator.annotate import annotate as annotate_source, open_dataset
from goalreel.annotator.exports import export_table
from goalreel.annotator.options import Options
from goalreel.datasets.labels import find_labels, subtask_labels
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError
from goalreel.models import presets
from goalreel.models.load import load
from goalreel.terms import LabelForm

REACH, PUT = "PnP: reach the red block", "put it in the blue bowl"
TASK = "put the red block in the blue bowl"
INT = {"dtype": "int64", "shape": [1], "names": None}


def frames(texts: Sequence[int]):
    """Give the 12 frames of episode 0 these tasks."""
    return column(DATA, "task_index", lambda old: [*texts, *old[12:]])


def named_tasks(*texts: str):
    return table(TASKS, lambda _: pa.table({"task_index": range(len(texts)), "task": texts}))


def tasks(root: Path) -> None:
    both(named_tasks(TASK, REACH, PUT), frames([1] * 5 + [2] * 7))(root)
    info(lambda i: i.update(total_tasks=3))(root)


def subtask_index(root: Path, values: Sequence[int | None] = (0,) * 5 + (1,) * 7) -> None:
    def add(rows: pa.Table) -> pa.Table:
        return rows.append_column(
            "subtask_index", pa.array([*values, *[-1] * (len(rows) - len(values))], pa.int64())
        )

    table(DATA, add)(root)
    info(lambda i: i["features"].update(subtask_index=INT))(root)
    texts = pa.table({"subtask_index": [0, 1], "subtask": [REACH, PUT]})
    pq.write_table(texts, root / "meta/subtasks.parquet")


def annotations(root: Path, **episode: Any) -> None:
    content = {"version": 2, "episodes": {"0": episode, "77": {"atoms": []}}}
    (root / "meta/lerobot_annotations.json").write_text(json.dumps(content))


def atoms(root: Path) -> None:
    rows = [(0.5, "subtask", PUT), (0.0, "plan", "their plan"), (0.0, "subtask", REACH)]
    annotations(
        root, atoms=[{"role": "assistant", "timestamp": t, "style": s, "content": c} for t, s, c in rows]
    )


def segments(root: Path) -> None:
    """As the first version of lerobot's annotation tool wrote them."""
    spans = [{"label": PUT, "start": 0.5, "end": 1.1}, {"label": REACH, "start": 0, "end": 0.5}]
    annotations(root, subtasks=spans, high_levels=[{"start": 0.2, "user_prompt": "hurry"}])


FORMS: dict[str, tuple[Any, LabelForm]] = {
    "tasks": (tasks, "tasks"),
    "subtask_index": (subtask_index, "subtask_index"),
    "atoms": (atoms, "annotations"),
    "segments": (segments, "annotations"),
}


def rows(root: Path, style: str = "subtask") -> list[tuple[str, float]]:
    said = pq.read_table(root / DATA, columns=["language_persistent"])["language_persistent"][0].as_py()
    return [(r["content"], round(r["timestamp"], 3)) for r in said if r["style"] == style]


def told(root: Path) -> list[str]:
    """The task of each frame of episode 0."""
    texts = {row["task_index"]: row["task"] for row in pq.read_table(root / TASKS).to_pylist()}
    return [texts[i] for i in pq.read_table(root / DATA)["task_index"].to_pylist()[:12]]


def annotate(root: Path, *words: str) -> dict[str, Any]:
    return results("annotate", root, "--out", root.parent / "out", "--episodes", "0", *words)


@pytest.mark.parametrize("name", FORMS)
def test_labels_of_each_form_become_the_steps_and_stay(name, root):
    label, form = FORMS[name]
    label(root)
    assert find_labels(Source.open(root), [0, 1, 2]) == {form: (0,)}
    before = contents(root)
    line = fails("annotate", root, "--out", root.parent / "out")
    assert "episode 0 has" in line
    assert "--planner rows keeps them" in line
    assert "--replace-rows has new ones written beside them" in line
    assert not (root.parent / "out").exists(), "they are never ignored unasked"
    summary = annotate(root, "--planner", "rows", "--task-per-frame")
    out = root.parent / "out"
    assert summary["labels"] == {form: 1}
    board = Records(out / FOLDER, source="").outline(0)
    assert [step.step.name for step in board.steps] == [REACH, PUT]
    assert [(s.segment.start, s.segment.end) for s in board.steps] == [(0, 5), (5, 12)]
    assert {step.claims.what.by for step in board.steps} == {"rows"}
    assert rows(out) == [(REACH, 0.0), (PUT, 0.5)]
    assert told(out) == [REACH] * 5 + [PUT] * 7
    before_and_after = [Source.open(path).episode(0).subtasks(form) for path in (root, out)]
    assert before_and_after[0] == before_and_after[1] or form == "tasks"
    assert contents(root) == before


def test_labels_of_which_some_name_no_text_are_no_less_the_owners(root):
    subtask_index(root, (0,) * 5 + (7,) * 7)
    line = fails("annotate", root, "--out", root.parent / "out")
    assert "episode 0 has subtask_index and meta/subtasks.parquet already" in line
    assert not (root.parent / "out").exists()


def test_tasks_of_one_text_and_empty_ones_are_no_sub_tasks(root):
    """The index may differ: the words count. Frames without a task keep none, whatever is written."""
    both(named_tasks(TASK, "", f" {TASK}"), frames([1, 1, 0, 0, 2, 2, 2, 0, 0, 0, 0, 1]))(root)
    info(lambda i: i.update(total_tasks=3))(root)
    assert Source.open(root).episode(0).instruction == TASK
    assert find_labels(Source.open(root), [0]) == {}
    annotate(root, "--task-per-frame")
    words = told(root.parent / "out")
    assert words[:2] == [words[11]] * 2 == ["", ""]
    assert set(words[2:11]) == {"grasp the red block", TASK}


def test_new_sub_tasks_take_the_place_of_the_owners_where_they_are_asked_for(root):
    tasks(root)
    assert Source.open(root).episode(0).instruction == f"{REACH}; {PUT}"
    annotate(root, "--replace-rows")
    assert told(root.parent / "out") == [REACH] * 5 + [PUT] * 7


def test_a_label_whose_picture_is_rejected_stays(root):
    subtask_index(root)
    source, options = open_dataset(root), Options(task_per_frame=True)
    models = load(presets.load("hindsight", planner="rows"), recordings=options.recorded(source))
    refusing = replace(models, critic=Steady(accepts=0))
    annotate_source(source, root.parent / "out", refusing, options, episodes=[0])
    pads = pq.read_table(root.parent / "out" / DATA, columns=["subgoal_is_pad"])["subgoal_is_pad"]
    assert all(pads.to_pylist()[:12])
    assert rows(root.parent / "out") == [(REACH, 0.0), (PUT, 0.5)]
    assert told(root.parent / "out") == [REACH] * 5 + [PUT] * 7


def test_of_several_forms_one_is_taken_and_said(root, caplog):
    subtask_index(root)
    annotations(root, subtasks=[{"label": "move", "start": 0, "end": 0.5}])
    summary = annotate(root, "--planner", "rows", "--labels", "subtask_index")
    assert summary["labels"] == {"subtask_index": 1}
    assert rows(root.parent / "out") == [(REACH, 0.0), (PUT, 0.5)]
    shutil.rmtree(root.parent / "out")
    annotate(root, "--planner", "rows")
    assert "subtask_index (subtask_index and meta/subtasks.parquet) of episode 0" in caplog.text
    taken = "Taken: the first of annotations, subtask_index that an episode has; --labels chooses"
    assert taken in caplog.text
    assert rows(root.parent / "out") == [("move", 0.0)]
    line = fails("annotate", root, "--out", root.parent / "x", "--planner", "rows", "--labels", "tasks")
    assert "no a task per frame in task_index; its labels: annotations" in line
    assert "--labels says which labels --planner rows takes" in fails(
        "annotate", root, "--out", root.parent / "x", "--labels", "tasks"
    )


def test_labels_of_another_form_replace_rows_where_that_is_asked_for(root):
    atoms(root)
    annotate(root, "--planner", "rows")
    second = root.parent / "second"
    shutil.copytree(root.parent / "out", second / "in")
    annotations(second / "in", subtasks=[{"label": "all of it", "start": 0, "end": 1}])
    words = ("--planner", "rows", "--labels", "annotations")
    line = fails("annotate", second / "in", "--out", second / "out", "--episodes", "0", *words)
    assert "episode 0 has subtask rows in language_persistent too: --replace-rows writes" in line
    annotate(second / "in", *words, "--replace-rows")
    assert rows(second / "out") == [("all of it", 0.0)]
    assert subtask_labels(second / "out" / DATA)[0] == ((0.0, "all of it"), (1.0, ""))


@pytest.mark.parametrize(
    ("label", "labels"),
    [
        (lambda r: subtask_index(r, [-1, -1, 0, 0, 0, -1, None, 1, 1, 1, 1, -1]),
         [(0, ""), (2, REACH), (5, ""), (7, PUT), (11, "")]),
        (lambda r: annotations(r, subtasks=[{"label": PUT, "start": 0.7, "end": 0.93},
                                            {"label": REACH, "start": 0.2, "end": 0.5}]),
         [(2, REACH), (5, ""), (7, PUT), (9, "")]),
    ],
)  # fmt: skip
def test_gaps_between_labels_are_no_step(label, labels, root):
    label(root)
    found = Source.open(root).episode(0).subtasks()
    assert [(round(10 * seconds), text) for seconds, text in found] == labels


@pytest.mark.parametrize(
    ("label", "line"),
    [
        (lambda r: annotations(r, subtasks=[{"label": REACH, "start": 0, "end": 0.8},
                                            {"label": PUT, "start": 0.5, "end": 1}]), "overlap at 0.5 s"),
        (lambda r: annotations(r, subtasks=[{"label": REACH, "start": 0}]), "episode 0 is damaged"),
        (lambda r: (r / "meta/lerobot_annotations.json").write_text("{"), "annotations.json: damaged"),
        (lambda r: subtask_index(r, [7] * 12), "subtask_index 7 has no row in subtasks.parquet"),
    ],
)  # fmt: skip
def test_labels_that_contradict_each_other_are_refused_in_one_line(label, line, root):
    label(root)
    with pytest.raises(DatasetError, match=line):
        Source.open(root).episode(0).subtasks()


@pytest.mark.parametrize("text", ["USB stick: plug it in", "PnPBottleToCabinetClose"])
def test_the_capitals_of_an_instruction_stay_in_all_that_is_written(root, text):
    named_tasks(text)(root)
    annotate(root, "--task-per-frame", "--task-aug")
    out = root.parent / "out"
    export_table(out, out.parent / "steps.csv")
    goalreel("show", out, "--out", out.parent / "report")
    assert set(told(out)) == {text}
    assert rows(out, "task_aug") == [(text, 0.0)]
    assert {words for style in ("subtask", "plan") for words, _ in rows(out, style)} <= {text}
    written = [*(out.parent / "report").rglob("*.html"), out.parent / "steps.csv"]
    for path in written:
        content = path.read_text()
        assert content.lower().count(text.lower()) == content.count(text), path
    assert sum(text in path.read_text() for path in written) >= 2
