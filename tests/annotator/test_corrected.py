"""What people corrected, in the dataset, in a run after that one, and in a corpus."""

import pytest
from support.cli import fails, goalreel

from goalreel.annotator.corpus.boards import find_boards
from goalreel.annotator.show import read_storyboards
from goalreel.datasets.corrections.events import (
    FlagIssue,
    GiveVerdict,
    MoveBoundary,
    RenameStep,
    SplitStep,
    TakeFrame,
)
from goalreel.datasets.corrections.reviews import Reviews
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source

FRONT = "observation.images.front"
EPISODE = 1


def changes(out, length, *events, episode=EPISODE):
    reviews = Reviews(Records(out / FOLDER, ""))
    for event in events:
        reviews.change(episode, length, reviews.look(episode, length).revision, "ann", event)
    return reviews.look(episode, length).review


@pytest.fixture(scope="module")
def reviewed(video_dataset, tmp_path_factory):
    """(the annotated dataset, the episode as its person left it)."""
    out = tmp_path_factory.mktemp("review") / "out"
    goalreel("annotate", video_dataset, "--out", out)
    length = len(Source.open(video_dataset).episode(EPISODE))
    return out, changes(
        out,
        length,
        SplitStep(step="0", frame=length // 2),
        MoveBoundary(step="r2", edge="start", frame=length // 2 - 1),
        RenameStep(step="0", name="take the block"),
        TakeFrame(step="r2", camera=FRONT, frame=length - 2),
    )


def rows(root, episode=EPISODE):
    """(seconds, text) of the sub-task rows that lerobot's loader gives."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/test", root=root, video_backend="pyav")
    first = dataset.meta.episodes[episode]["dataset_from_index"]
    found = dataset.hf_dataset[first]["language_persistent"]
    return [(round(r["timestamp"], 3), r["content"]) for r in found if r["style"] == "subtask"]


def shown(board):
    return [(s.step.name, s.segment, s.goal_image and s.goal_image.frame, s.status) for s in board.steps]


def test_build_writes_what_the_person_made_of_it(reviewed, video_dataset):
    out, review = reviewed
    before = rows(out)
    goalreel("build", out)
    fps = Source.open(video_dataset).fps
    after = rows(out)
    assert after != before
    assert after[0][1] == "take the block"
    assert [at for at, _ in after] == [round(s.segment.start / fps, 3) for s in review.steps]
    board = dict(read_storyboards(out))[EPISODE]
    assert [s.goal_image.frame for s in board.steps] == [s.goal.removeprefix("frame:") for s in review.steps]


def test_their_steps_stay_in_a_run_with_other_settings(reviewed, video_dataset, tmp_path):
    out, review = reviewed
    other, plain = tmp_path / "other", tmp_path / "plain"
    goalreel("annotate", video_dataset, "--out", plain, "--granularity", "phase")
    goalreel("annotate", video_dataset, "--out", other, "--corrections", out, "--granularity", "phase")
    mine, without, theirs = (dict(read_storyboards(o)) for o in (other, plain, out))
    assert [s.segment for s in mine[EPISODE].steps] == [s.segment for s in review.steps]
    assert [s.step.name for s in mine[EPISODE].steps] == [s.step.name for s in theirs[EPISODE].steps]
    assert mine[EPISODE].steps[1].goal_image.frame == review.steps[1].goal.removeprefix("frame:")
    assert [s.segment for s in without[EPISODE].steps] != [s.segment for s in review.steps]
    assert all(shown(mine[e]) == shown(without[e]) for e in mine if e != EPISODE)
    record = Records(other / FOLDER, "")
    assert [s.segment for s in record.original(EPISODE).steps] == [s.segment for s in review.steps]
    goalreel(
        "annotate", video_dataset, "--out", other, "--granularity", "phase"
    )  # resumed, it changes nothing
    assert shown(dict(read_storyboards(other))[EPISODE]) == shown(mine[EPISODE])


def test_corrections_are_of_the_dataset_that_is_annotated(reviewed, video_dataset, image_dataset, tmp_path):
    out, _ = reviewed
    said = fails("annotate", video_dataset, "--out", tmp_path / "o", "--corrections", video_dataset)
    assert "holds no corrections: name what goalreel review was given" in said
    goalreel("annotate", image_dataset, "--out", tmp_path / "other", "--corrections", out)
    records = Records(tmp_path / "other" / FOLDER, "")
    assert records.outline(EPISODE) == records.original(EPISODE)  # another recording


def test_what_people_said_are_rows_of_the_highest_trust_with_their_type(video_dataset, tmp_path):
    goalreel("annotate", video_dataset, "--out", tmp_path / "out")
    lengths = {e: len(Source.open(video_dataset).episode(e)) for e in (0, 1, 2)}
    changes(tmp_path / "out", lengths[0], GiveVerdict(verdict="accept"), episode=0)
    changes(tmp_path / "out", lengths[1], FlagIssue(step="0", issue="wrong_picture", on=True), episode=1)
    changes(tmp_path / "out", lengths[2], GiveVerdict(verdict="reject"), episode=2)
    said = [board.human_verdicts for board in find_boards([tmp_path / "out"])]
    assert {v.correction for v in said[0].values()} == {"accepted"}
    assert all(v.success for v in said[0].values())
    assert {at: (v.success, v.correction) for at, v in said[1].items()} == {(0, 0): (False, "wrong_picture")}
    assert said[2] == {}  # which of its pictures is wrong, nobody said
    boards = [board.load() for board in find_boards([tmp_path / "out"])]
    assert not boards[1].steps[0].attempts[0].verdict.success
    assert not boards[2].complete  # so it is in no trajectory to learn
