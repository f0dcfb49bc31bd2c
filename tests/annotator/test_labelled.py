"""Sub-task rows that a dataset has already: goal images are added, and they are never replaced unasked."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.cli import fails, goalreel, invoke
from support.faults import DATA
from support.person import says

from goalreel.annotator.annotate import open_dataset
from goalreel.annotator.existing_words import check_labels
from goalreel.datasets.corrections.events import (
    Correction,
    DeleteStep,
    FlagIssue,
    GiveVerdict,
    MoveBoundary,
    RenameStep,
    UndoChange,
)
from goalreel.datasets.records import FOLDER, Records
from goalreel.errors import InputError
from goalreel.models.model_set import class_name
from goalreel.planners.kinematic import KinematicPlanner
from goalreel.planners.rows import RowsPlanner

PAD = "subgoal_is_pad"
LABELS = ((0, "grasp the block"), (5, "put the block in the bowl"))


@pytest.fixture(scope="module")
def labelled(video_dataset, tmp_path_factory) -> Path:
    """Three episodes; lerobot's own annotation writer has labelled the first two. Read only."""
    from lerobot.annotations.steerable_pipeline import LanguageColumnsWriter
    from lerobot.annotations.steerable_pipeline.reader import iter_episodes
    from lerobot.annotations.steerable_pipeline.staging import EpisodeStaging
    from lerobot.datasets.language import language_feature_info

    folder = tmp_path_factory.mktemp("labelled")
    root = Path(shutil.copytree(video_dataset, folder / "data"))
    records = list(iter_episodes(root))
    for record in records[:2]:
        plain = {"role": "assistant", "camera": None, "tool_calls": None, "style": "subtask"}
        said = [{**plain, "content": c, "timestamp": record.frame_timestamps[i]} for i, c in LABELS]
        plan = {**plain, "style": "plan", "content": "their plan", "timestamp": record.frame_timestamps[0]}
        EpisodeStaging(folder / "staging", record.episode_index).write("plan", [plan, *said])
    LanguageColumnsWriter().write_all(records, folder / "staging", root)
    info = json.loads((root / "meta/info.json").read_text())
    info["features"] |= language_feature_info()
    (root / "meta/info.json").write_text(json.dumps(info))
    return root


def language(root: Path) -> list[list[dict]]:
    frames = pq.read_table(root / DATA, columns=["language_persistent"]).to_pylist()
    return [
        [{k: row[k] for k in ("style", "content", "timestamp", "role")} for row in f["language_persistent"]]
        for f in frames
    ]


def test_goal_images_are_added_and_the_rows_stay(labelled, tmp_path):
    out = tmp_path / "out"
    result = invoke("annotate", labelled, "--out", out, "--planner", "rows", "--json")
    assert result.exit_code == 1
    summary = json.loads(result.stdout.splitlines()[-1])
    assert summary["annotated"] == 2
    assert summary["failures"] == {
        "2": "episode_000002: it has no sub-task labels: use another --planner for it"
    }
    assert language(out) == language(labelled)
    assert not any(pq.read_table(out / DATA)[PAD].to_pylist()[:21])
    for index, end in ((0, 12), (1, 9)):
        board = Records(out / FOLDER, source="").outline(index)
        assert [s.step.name for s in board.steps] == [text for _, text in LABELS]
        assert [(s.segment.start, s.segment.end) for s in board.steps] == [(0, 5), (5, end)]
        assert board.steps[1].step.instruction == "the block is in the bowl"


@pytest.fixture(scope="module")
def with_goals(labelled, tmp_path_factory) -> Path:
    """Episodes 0 and 1 with goal images for their rows, and each frame's sub-task as its task. Read only."""
    out = tmp_path_factory.mktemp("with_goals") / "out"
    result = invoke("annotate", labelled, "--out", out, "--planner", "rows", "--task-per-frame")
    assert result.exit_code == 1
    return out


def reviewed(out: Path, *changes: Correction, episode: int = 0) -> None:
    """What a person says of an episode, and the dataset built from it."""
    says(out, episode, *changes)
    assert "episode 2" in invoke("build", out).stderr, "the one without labels"


def rows(root: Path, first: int = 0) -> list[tuple[str, str, int]]:
    """(style, text, frame) of the rows of the episode that begins at row `first`."""
    said = [(r["style"], r["content"], round(r["timestamp"] * 10)) for r in language(root)[first]]
    return [row for row in said if row[0] in ("subtask", "plan")]


def told(root: Path) -> list[str]:
    """The task of each frame of the first two episodes."""
    tasks = pq.read_table(root / "meta/tasks.parquet").to_pylist()
    texts = {row["task_index"]: row["task"] for row in tasks}
    return [texts[i] for i in pq.read_table(root / DATA)["task_index"].to_pylist()[:21]]


THEIRS = [("plan", "their plan", 0), *(("subtask", text, at) for at, text in LABELS)]
INSTRUCTION = "put the red block in the blue bowl"


def test_rows_are_those_of_the_person_who_corrected_them(with_goals, tmp_path):
    out = shutil.copytree(with_goals, tmp_path / "out")
    assert rows(out) == rows(out, 12) == THEIRS
    reviewed(out, RenameStep(step="0", name="take the block"), MoveBoundary(step="1", edge="start", frame=7))
    steps = [("subtask", "take the block", 0), ("subtask", LABELS[1][1], 7)]
    assert rows(out) == [("plan", f"1. take the block\n2. {LABELS[1][1]}", 0), *steps]
    assert told(out)[:12] == ["take the block"] * 7 + [LABELS[1][1]] * 5
    assert rows(out, 12) == THEIRS
    before = {path: path.read_bytes() for path in out.rglob("*.parquet")}
    again = shutil.copytree(with_goals, tmp_path / "again")
    records_alone = shutil.ignore_patterns("files")
    shutil.copytree(out / FOLDER, again / FOLDER, ignore=records_alone, dirs_exist_ok=True)
    reviewed(again)
    assert {path: (again / path.relative_to(out)).read_bytes() for path in before} == before
    reviewed(out, UndoChange(), UndoChange(), RenameStep(step="0", name=LABELS[0][1]))
    assert rows(out)[0][1].startswith("1. "), "the same words, and a plan of ours"
    reviewed(out, UndoChange())
    assert rows(out) == THEIRS, "what a person takes back gives the owner's rows back"
    reviewed(out, GiveVerdict(verdict="accept"))
    assert rows(out) == THEIRS


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ([GiveVerdict(verdict="reject")], []),
        ([DeleteStep(step="0"), DeleteStep(step="1")], []),
        (
            [FlagIssue(step="0", issue="wrong_object", on=True)],
            [("plan", f"1. {LABELS[1][1]}", 0), ("subtask", LABELS[1][1], 5)],
        ),
    ],
    ids=["rejected", "all removed", "one flagged"],
)
def test_no_row_is_left_of_what_a_person_keeps_from_the_dataset(with_goals, tmp_path, changes, left):
    out = shutil.copytree(with_goals, tmp_path / "out")
    reviewed(out, *changes, episode=1)
    assert rows(out, 12) == left
    assert told(out)[12:17] == [INSTRUCTION] * 5
    assert rows(out) == THEIRS
    assert all(pq.read_table(out / DATA)[PAD].to_pylist()[12:17])


def test_rows_are_never_replaced_unasked(labelled, tmp_path, caplog):
    out = tmp_path / "out"
    line = fails("annotate", labelled, "--out", out)
    assert "episode 0 has subtask rows in language_persistent already: --planner rows keeps them" in line
    assert "--replace-rows" in line
    assert not out.exists()
    assert "leave --replace-rows out" in fails(
        "annotate", labelled, "--out", out, "--planner", "rows", "--replace-rows"
    )
    goalreel("annotate", labelled, "--out", tmp_path / "third", "--episodes", "2")
    goalreel("annotate", labelled, "--out", out, "--replace-rows")
    assert "sub-task rows of 1 episode(s) are removed, and no name may be written" in caplog.text
    said = [r["content"] for r in language(out)[0] if r["style"] == "subtask"]
    assert said == ["grasp the red block", "put the red block in the blue bowl"]
    assert rows(out, 12) == [], "no old rows either where no name may be written"
    says(out, 0, GiveVerdict(verdict="reject"))
    goalreel("build", out)
    assert rows(out) == [], "a rejected episode does not get its old rows back"


def test_a_planner_object_that_keeps_rows_may_have_them(labelled):
    source = open_dataset(labelled)
    check_labels(source, [0], class_name(RowsPlanner({})), replace=False)
    with pytest.raises(InputError, match="has subtask rows in language_persistent already"):
        check_labels(source, [0], class_name(KinematicPlanner({})), replace=False)
