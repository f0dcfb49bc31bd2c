"""What people corrected or labelled: in the dataset, in later runs, in a corpus, against what models said."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.cli import fails, goalreel, invoke
from support.faults import DATA, TASKS, column
from support.person import says

from goalreel.annotator.annotate import open_dataset
from goalreel.annotator.corpus.boards import find_boards
from goalreel.annotator.existing_words import check_labels
from goalreel.annotator.review_scores import measure_reviews
from goalreel.annotator.show import read_storyboards
from goalreel.datasets.corrections.events import (
    Correction,
    DeleteStep,
    FlagIssue,
    GiveVerdict,
    InsertStep,
    Looked,
    MoveBoundary,
    RenameStep,
    SplitStep,
    TakeFrame,
    UndoChange,
)
from goalreel.datasets.corrections.reviews import Reviews
from goalreel.datasets.fingerprint import Fingerprint
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.errors import InputError
from goalreel.models.model_set import class_name
from goalreel.planners.kinematic.planner import KinematicPlanner
from goalreel.planners.rows import RowsPlanner

FRONT = "observation.images.front"
OLD, NEW = "put the red block in the blue bowl", "put the red block in the green bowl"


def told(root: Path) -> dict[int, tuple[str, list[dict]]]:
    """Episode -> its task and its language rows, as lerobot gives them."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/test", root=root, video_backend="pyav")
    firsts = [dataset.hf_dataset[dataset.meta.episodes[e]["dataset_from_index"]] for e in range(3)]
    tasks = [str(dataset.meta.tasks.iloc[int(first["task_index"])].name) for first in firsts]
    return {e: (tasks[e], first["language_persistent"] or []) for e, first in enumerate(firsts)}


def ends(out: Path) -> list[list[int]]:
    return [[s.segment.end for s in board.steps if s.segment] for _, board in read_storyboards(out)]


def test_build_writes_what_the_person_made_of_it(in_hindsight, video_dataset, tmp_path):
    out = shutil.copytree(in_hindsight, tmp_path / "out")
    length = len(Source.open(video_dataset).episode(1))
    review = says(
        out,
        1,
        SplitStep(step="0", frame=length // 2),
        MoveBoundary(step="r2", edge="start", frame=length // 2 - 1),
        RenameStep(step="0", name="take the block"),
        TakeFrame(step="r2", camera=FRONT, frame=length - 2),
    )
    before = told(out)
    assert "Brought in, from 1 of the episodes: " in (said := goalreel("build", out)), said
    rows = [(r["timestamp"], r["content"]) for r in told(out)[1][1] if r["style"] == "subtask"]
    assert told(out) != before
    assert rows == [(review.steps[0].segment.start / Source.open(video_dataset).fps, "take the block")]
    board = dict(read_storyboards(out))[1]
    assert [s.goal_image.frame for s in board.steps] == [s.goal.removeprefix("frame:") for s in review.steps]


def test_what_people_said_are_rows_of_the_highest_trust_with_their_type(in_hindsight, tmp_path):
    out = shutil.copytree(in_hindsight, tmp_path / "out")
    says(out, 0, GiveVerdict(verdict="accept"))
    says(out, 1, FlagIssue(step="0", issue="wrong_picture", on=True))
    says(out, 2, GiveVerdict(verdict="reject"))
    found = find_boards([out])
    said = [{at: (v.success, v.correction) for at, v in board.human_verdicts.items()} for board in found]
    assert set(said[0].values()) == {(True, "accepted")}
    assert said[1] == {(0, 0): (False, "wrong_picture")}
    assert said[2] == {}, "which of its pictures is wrong, nobody said"
    boards = [board.load() for board in found]
    assert not boards[1].steps[0].attempts[0].verdict.success
    assert not boards[2].complete, "so it is in no trajectory to learn"


@pytest.fixture
def renamed(video_dataset, tmp_path) -> tuple[Path, Path]:
    """(IN, OUT): in OUT a person moved an end of episode 1 and accepted it; then IN's task was mended."""
    root, out = shutil.copytree(video_dataset, tmp_path / "in"), tmp_path / "out"
    goalreel("annotate", root, "--out", out)
    frame = ends(out)[1][0] - 2
    says(out, 1, MoveBoundary(step="0", edge="end", frame=frame), GiveVerdict(verdict="accept"))
    goalreel("build", out)
    column(TASKS, "task", lambda _: [NEW])(root)
    return root, out


def words(out: Path) -> dict[int, set[str]]:
    return {episode: {task, *(row["content"] for row in rows)} for episode, (task, rows) in told(out).items()}


def test_build_keeps_what_a_person_made_and_says_what_to_annotate(renamed, caplog):
    _, out = renamed
    before = words(out)
    result = invoke("build", out)
    assert result.exit_code == 1
    assert "without goal images: episodes 0 and 2" in result.stderr
    warnings = [record.message for record in caplog.records if "labels have changed" in record.message]
    assert len(warnings) == len(set(warnings)) == 3, "one for each episode"
    assert ["person corrected are kept" in warning for warning in sorted(warnings)] == [False, True, False]
    now = words(out)
    assert now[1] == {text.replace(OLD, NEW) for text in before[1]}
    assert now[0] == now[2] == {NEW}
    frames = pd.read_parquet(out / DATA)
    pictured = {e: bool(np.any(~rows["subgoal_is_pad"])) for e, rows in frames.groupby("episode_index")}
    assert (pictured[0], pictured[1]) == (False, True)


def test_annotate_plans_anew_with_what_a_person_made(renamed, tmp_path, caplog):
    root, out = renamed
    corrected = ends(out)
    goalreel("annotate", root, "--out", tmp_path / "plain")
    assert corrected != ends(tmp_path / "plain")
    caplog.clear()
    goalreel("annotate", root, "--out", out, "--episodes", "0")
    changed = [record.message for record in caplog.records if "labels have changed" in record.message]
    assert len(changed) == len(set(changed)) == 4
    kept = [message for message in changed if "person corrected are kept" in message]
    assert ["episode_000001" in message for message in kept] == [True], "each is said once"
    goalreel("annotate", root, "--out", out)
    assert ends(out) == corrected
    assert {board.task.instruction for _, board in read_storyboards(out)} == {NEW}
    assert not any(OLD in text for texts in words(out).values() for text in texts)


LENGTH = 30
ACCEPT, REJECT = GiveVerdict(verdict="accept"), GiveVerdict(verdict="reject")


@pytest.fixture
def out(tmp_path, board):
    """Six episodes of three steps: the Critic accepted all, but the second goal image of episode 1."""
    recordings = {e: f"{e:064x}" for e in range(6)}
    with Records.open(tmp_path / "out", {"planner": "p"}, Fingerprint("s", recordings)) as records:
        for episode in recordings:
            statuses = ("accepted", "rejected" if episode == 1 else "accepted", "accepted")
            records.commit(episode, board(LENGTH, statuses))
    return tmp_path / "out"


def say(out, episode, *changes):
    reviews = Reviews(Records(out / FOLDER, ""))
    for change in changes:
        reviews.change(episode, LENGTH, reviews.look(episode, LENGTH).revision, "ann", change)


def test_what_people_and_the_models_say_is_counted(out):
    say(out, 0, ACCEPT)  # 3 pictures: both yes
    say(out, 1, ACCEPT)  # 3: both yes but one, which the Critic rejected
    say(out, 2, TakeFrame(step="0", camera=FRONT, frame=3), ACCEPT)  # replaced: the Critic was wrong
    say(out, 3, FlagIssue(step="1", issue="wrong_picture", on=True), REJECT)  # and here
    say(out, 4, GiveVerdict(verdict="unsure"))  # counts nowhere
    say(out, 5, GiveVerdict(verdict="reject", looked=Looked(seconds=0.2)))  # nobody looked
    report = measure_reviews(out, fps=10)
    assert (report.episodes, report.accepted) == (4, 3)
    assert report.untouched.value == 2 / 4
    # Both yes: 3 + 2 + 2; the person alone: 1; the Critic alone: 1 + 1.
    assert report.pictures == 10
    assert report.agreement.value == 7 / 10
    assert report.accepted_wrong.value == pytest.approx(2 / 9)
    assert report.balanced_agreement.value == pytest.approx((7 / 8 + 0 / 2) / 2)
    assert report.faulty.value == pytest.approx(2 / 3)  # of episodes 0, 2 and 3
    assert 2 / 3 < report.faulty_at_most < 1
    assert (report.boundary_f1.value, report.names_kept.value) == (1.0, 1.0)


def test_steps_that_people_moved_added_and_removed_are_counted(out):
    say(out, 0, MoveBoundary(step="1", edge="start", frame=16), DeleteStep(step="2"))
    say(out, 0, InsertStep(start=25, end=27, name="x"), InsertStep(start=27, end=30, name="y"), ACCEPT)
    report = measure_reviews(out, fps=10)
    assert (report.steps_added, report.steps_removed) == (2, 1)
    assert report.names_kept.value == pytest.approx(2 / 3)
    assert 0 < report.boundary_f1.value < 1


def test_nothing_wrong_in_many_episodes_bounds_what_may_be(out):
    for episode in range(6):
        say(out, episode, ACCEPT)
    report = measure_reviews(out, fps=10)
    assert report.faulty.value == 0
    assert report.faulty_at_most == pytest.approx(0.351, abs=0.001)  # Wilson's, of none among five


def test_the_command_says_the_same_and_what_to_do_first(video_dataset, tmp_path):
    goalreel("annotate", video_dataset, "--out", tmp_path / "out")
    said = fails("eval", "review", tmp_path / "out")
    assert "nobody has accepted or rejected an episode that they looked at: run" in said
    reviews = Reviews(Records(tmp_path / "out" / FOLDER, ""))
    reviews.change(0, 12, 0, "ann", ACCEPT)
    told = json.loads(goalreel("eval", "review", tmp_path / "out", "--json").splitlines()[-1])
    assert (told["episodes"], told["untouched"], told["untouched_low"]) == (1, 1.0, 1.0)
    assert "at most" in goalreel("eval", "review", tmp_path / "out")


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


def frame_tasks(root: Path) -> list[str]:
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
    assert frame_tasks(out)[:12] == ["take the block"] * 7 + [LABELS[1][1]] * 5
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
    assert frame_tasks(out)[12:17] == [INSTRUCTION] * 5
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
