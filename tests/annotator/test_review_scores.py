"""Agreement between people and the models: counted by hand on a few episodes."""

import json

import pytest
from support.cli import fails, goalreel

from goalreel.annotator.review_scores import measure_reviews
from goalreel.datasets.corrections.events import (
    DeleteStep,
    FlagIssue,
    GiveVerdict,
    InsertStep,
    Looked,
    MoveBoundary,
    TakeFrame,
)
from goalreel.datasets.corrections.reviews import Reviews
from goalreel.datasets.fingerprint import Fingerprint
from goalreel.datasets.records import FOLDER, Records

FRONT = "observation.images.front"
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
