"""Which episodes a person is to look at first, and how long that took."""

from datetime import UTC, datetime, timedelta

import pytest
from support.recordings import storyboard

from goalreel.annotator.review.queue import ENOUGH, EpisodeFacts, Priority, facts, priorities, spent, unmoved
from goalreel.types import Alignment, Failure, Storyboard, StoryboardStep, Task, Verdict

SURE = storyboard(12)
"""Boundaries at 4 and 8."""


def with_step(number: int, **fields: object) -> Storyboard:
    steps = list(SURE.steps)
    steps[number] = steps[number].model_copy(update=fields)
    return SURE.model_copy(update={"steps": tuple(steps)})


def judged(number: int, probability: float) -> Storyboard:
    verdict = Verdict(success=True, probability=probability)
    return with_step(
        number, attempts=(SURE.steps[number].attempts[0].model_copy(update={"verdict": verdict}),)
    )


def doubt(board: Storyboard, *more: object) -> Priority:
    return priorities({0: facts(board, *more)})[0]


def test_what_counts_most_comes_first():
    rejected = storyboard(12, ("accepted", "rejected", "accepted"))
    failed = Storyboard(task=Task(id="t", instruction="i"), failure=Failure(stage="plan", message="m"))
    unlikely = judged(1, 0.25)
    lost = with_step(2, segment=None, alignment=Alignment(reason="not there"))
    dark = Verdict(success=False, reasoning="too dark", pictures_only=True)
    attempt = rejected.steps[1].attempts[0].model_copy(update={"verdict": dark})
    checked = StoryboardStep(step=rejected.steps[1].step, attempts=(attempt,), chosen=0, status="rejected")
    assert doubt(SURE) == Priority(0, ())
    assert doubt(failed) == Priority(1, ("no plan",))
    assert doubt(unlikely).reasons == ("probability 0.25 of step 2",)
    assert doubt(rejected).reasons == ("step 2 rejected by the Critic",)
    refused = doubt(Storyboard(task=rejected.task, steps=(checked,)))
    assert refused.reasons == ("step 1 rejected by picture checks",)
    assert doubt(lost).reasons == ("step 3 not found in the recording",)
    assert 1 > doubt(unlikely).value > doubt(rejected).value == doubt(lost).value > 0
    assert doubt(rejected).value < doubt(storyboard(12, ("rejected", "rejected", "accepted"))).value < 1
    assert doubt(judged(0, 0.97)).reasons == (), "a Critic that is sure"


@pytest.mark.parametrize(("frames", "word"), [(300, "long"), (2, "short"), (24, None)])
def test_an_unusual_length_stands_out(frames, word):
    usual = {i: EpisodeFacts((), (("reach", 20 + i % 3),)) for i in range(ENOUGH)}
    other = {99: EpisodeFacts((), (("reach", frames),))}
    found = priorities(usual | other)
    assert found[99].reasons == ((f"“reach” is unusually {word}",) if word else ())
    assert all(found[i].value == 0 for i in usual)
    assert priorities({i: usual[i] for i in range(ENOUGH - 2)} | other)[99].reasons == ()
    # What a missing cut costs a policy is seven times that of one too many, or elsewhere.
    weight = {"long": 7, "short": 1, None: 0}[word]
    assert found[99].value == pytest.approx(weight * doubt(SURE, 1).value)


def test_a_boundary_where_nothing_moves_is_in_doubt():
    assert [unmoved(SURE, found, 1) for found in ([4, 8], [5, 12], [1], [])] == [0, 1, 2, 0]
    one, two = doubt(SURE, 1), doubt(SURE, 2)
    assert one.reasons == ("a boundary where the motion shows none",)
    assert two.reasons == ("2 boundaries where the motion shows none",)
    assert 0 < one.value < two.value < 1


def test_the_time_of_a_person_is_without_breaks():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert spent(start + timedelta(minutes=m) for m in (3, 0, 5, 45, 47)) == timedelta(minutes=7)
    assert spent([]) == timedelta()
