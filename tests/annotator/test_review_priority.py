"""Which episodes a person is to look at first, and how long that took."""

from datetime import UTC, datetime, timedelta

import pytest
from support.recordings import storyboard

from goalreel.annotator.review.queue import ENOUGH, EpisodeFacts, facts, priorities, spent, unmoved
from goalreel.types import Alignment, Failure, Storyboard, StoryboardStep, Task, Verdict


def with_step(board: Storyboard, number: int, **fields: object) -> Storyboard:
    steps = list(board.steps)
    steps[number] = steps[number].model_copy(update=fields)
    return board.model_copy(update={"steps": tuple(steps)})


def judged(board: Storyboard, number: int, probability: float) -> Storyboard:
    attempt = board.steps[number].attempts[0]
    verdict = Verdict(success=True, probability=probability)
    return with_step(board, number, attempts=(attempt.model_copy(update={"verdict": verdict}),))


def test_what_counts_most_comes_first():
    sure, plain = storyboard(12), storyboard(12, ("accepted", "rejected", "accepted"))
    failed = Storyboard(task=Task(id="t", instruction="i"), failure=Failure(stage="plan", message="m"))
    lost = with_step(sure, 2, segment=None, alignment=Alignment(reason="not there"))
    found = priorities(dict(enumerate(map(facts, (sure, plain, failed, judged(sure, 1, 0.25), lost)))))
    assert found[0].value == 0
    assert found[0].reasons == ()
    assert found[1].reasons == ("step 2 rejected by the Critic",)
    checks = Verdict(success=False, reasoning="too dark", pictures_only=True)
    dark = plain.steps[1].attempts[0].model_copy(update={"verdict": checks})
    step = StoryboardStep(step=plain.steps[1].step, attempts=(dark,), chosen=0, status="rejected")
    seen = facts(Storyboard(task=plain.task, steps=(step,)))
    assert [reason for _, reason in seen.claims] == ["step 1 rejected by picture checks"]
    assert found[2].value == 1
    assert found[2].reasons == ("no plan",)
    assert found[3].reasons == ("probability 0.25 of step 2",)
    assert found[4].reasons == ("step 3 not found in the recording",)
    assert found[2].value > found[3].value > found[1].value == found[4].value > 0
    twice = priorities({0: facts(storyboard(12, ("rejected", "rejected", "accepted")))})[0]
    assert found[1].value < twice.value < 1
    assert priorities({0: facts(judged(sure, 0, 0.97))})[0].reasons == (), "a Critic that is sure"


@pytest.mark.parametrize(("frames", "word"), [(300, "long"), (2, "short"), (24, None)])
def test_an_unusual_length_stands_out(frames, word):
    usual = {i: EpisodeFacts((), (("reach", 20 + i % 3),)) for i in range(ENOUGH)}
    found = priorities(usual | {99: EpisodeFacts((), (("reach", frames),))})
    assert found[99].reasons == ((f"“reach” is unusually {word}",) if word else ())
    assert all(found[i].value == 0 for i in usual)
    few = {i: usual[i] for i in range(ENOUGH - 2)} | {99: EpisodeFacts((), (("reach", frames),))}
    assert priorities(few)[99].reasons == ()


def test_a_boundary_where_nothing_moves_is_in_doubt():
    board = storyboard(12)  # boundaries at 4 and 8
    assert [unmoved(board, found, 1) for found in ([4, 8], [5, 12], [1], [])] == [0, 1, 2, 0]
    one, two = (priorities({0: facts(board, count)})[0] for count in (1, 2))
    assert one.reasons == ("a boundary where the motion shows none",)
    assert two.reasons == ("2 boundaries where the motion shows none",)
    assert 0 < one.value < two.value < 1


def test_a_cut_that_is_missing_comes_before_one_that_is_too_many():
    usual = {i: EpisodeFacts((), (("reach", 20 + i % 3),)) for i in range(ENOUGH)}
    found = priorities(
        usual | {97: EpisodeFacts((), (("reach", 300),)), 98: EpisodeFacts((), (("reach", 2),))}
    )
    shifted = priorities({0: facts(storyboard(12), 1)})[0]
    assert found[97].value == pytest.approx(7 * found[98].value)
    assert found[97].value == pytest.approx(7 * shifted.value)


def test_the_time_of_a_person_is_without_breaks():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    times = [start + timedelta(minutes=m) for m in (3, 0, 5, 45, 47)]
    assert spent(times) == timedelta(minutes=7)
    assert spent([]) == timedelta()
