"""What people corrected: in the dataset, in a later run, in a corpus, and against what the models said."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.cli import fails, goalreel, invoke
from support.faults import DATA, TASKS, column
from support.person import says

from goalreel.annotator.corpus.boards import find_boards
from goalreel.annotator.review_scores import measure_reviews
from goalreel.annotator.show import read_storyboards
from goalreel.datasets.corrections.events import (
    DeleteStep,
    FlagIssue,
    GiveVerdict,
    InsertStep,
    Looked,
    MoveBoundary,
    RenameStep,
    SplitStep,
    TakeFrame,
)
from goalreel.datasets.corrections.reviews import Reviews
from goalreel.datasets.fingerprint import Fingerprint
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source

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
