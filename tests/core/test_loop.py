"""The loop alone: no model, no file, no clock; and what runs one trajectory of it."""

import asyncio
import threading
from collections.abc import Iterable

import numpy as np
import pytest

from goalreel import storyboard
from goalreel.drivers import advance, run
from goalreel.image import Image
from goalreel.loop import MAX_REFERENCES, attempt_seed, best_storyboard, choose_references, is_whole
from goalreel.middleware import AskAdapter, Middleware, ask_models, compose
from goalreel.types import (
    Answer,
    Ask,
    Candidate,
    Edit,
    Failure,
    Plan,
    Request,
    Segment,
    Step,
    Storyboard,
    Task,
    Verdict,
)


def picture(value: int) -> Image:
    return Image(np.full((4, 4, 3), value, np.uint8))


def plan(n: int, *, segments: bool = False, words: frozenset[int] = frozenset()) -> Plan:
    """Steps 0 to n - 1; those of `words` have no picture."""
    steps = tuple(
        Step(
            name=f"step {i}",
            instruction=f"it is {i}",
            prompt=None if i in words else f"do {i}",
            auxiliary_text=f"now {i}",
        )
        for i in range(n)
    )
    return Plan(
        steps=steps, segments=tuple(Segment(start=i, end=i + 1) for i in range(n)) if segments else None
    )


TASK = Task(id="t", instruction="do it", image=picture(0), seed=7)
NO, YES = Verdict(success=False), Verdict(success=True)
BROKEN_EDIT = Failure(stage="edit", message="no picture")
BROKEN_JUDGE = Failure(stage="judge", message="no verdict", reply="???")


def drive(answers: Iterable[Answer], draws: int = 1, **settings) -> tuple[Storyboard, list[Request]]:
    trajectory = best_storyboard(TASK, draws, **{"max_attempts": 3, **settings})
    requests: list[Request] = [next(trajectory)]
    try:
        for answer in answers:
            requests.append(trajectory.send(answer))
    except StopIteration as finished:
        return finished.value, requests
    raise AssertionError("the loop wanted more answers")


def test_accepted_image_feeds_the_next_step():
    board, requests = drive([plan(2, segments=True), picture(1), YES, picture(2), YES])
    assert board.complete
    edits = [r for r in requests if isinstance(r, Edit)]
    assert [e.image for e in edits] == [TASK.image, picture(1)]
    assert [e.segment for e in edits] == [Segment(start=0, end=1), Segment(start=1, end=2)]
    assert [c.source for c in requests if isinstance(c, Candidate)] == [TASK.image, picture(1)]


def test_a_rejection_rewrites_the_prompt_and_changes_the_seed():
    refined = Verdict(success=False, refined_prompt="do it gently")
    board, requests = drive([plan(1), picture(1), refined, picture(2), NO, picture(3), YES])
    edits = [r for r in requests if isinstance(r, Edit)]
    assert [e.prompt for e in edits] == ["do 0", "do it gently", "do it gently"]
    assert len({e.seed for e in edits}) == 3
    assert [e.image for e in edits] == [TASK.image] * 3
    assert board.steps[0].chosen == 2
    judged = [r for r in requests if isinstance(r, Candidate)]
    assert [c.prompt for c in judged] == [e.prompt for e in edits]
    assert {c.first_prompt for c in judged} == {"do 0"}


def verdict(score: float | None = None, probability: float | None = None) -> Verdict:
    return Verdict(success=False, semantics=score, quality=score, probability=probability)


@pytest.mark.parametrize(
    ("keep", "judged", "kept"),
    [
        ("best", [NO, NO, NO], 2),
        ("best", [verdict(2), verdict(9), verdict(5)], 1),
        ("best", [verdict(None, 0.1), verdict(None, 0.4), verdict(None, 0.2)], 1),
        ("best", [verdict(3, 0.1), verdict(5, 0.2), verdict(4, 0.4)], 1),
        ("best", [verdict(5, 0.3), verdict(5, 0.2), verdict(4, 0.4)], 0),
        ("best", [verdict(5), verdict(5), verdict(4)], 1),
        ("best", [verdict(2), BROKEN_JUDGE, NO], 0),
        ("best", [NO, NO, BROKEN_JUDGE], 2),
        ("last", [verdict(2), verdict(9), verdict(5)], 2),
        ("last", [verdict(None, 0.4), verdict(None, 0.1), verdict(None, 0.2)], 2),
        ("last", [NO, NO, BROKEN_JUDGE], 2),
    ],
)
def test_of_rejected_pictures_one_is_kept_and_the_next_step_starts_from_it(keep, judged, kept):
    answers = [a for number, said in enumerate(judged, 1) for a in (picture(number), said)]
    board, requests = drive([plan(2), *answers, picture(9), YES], keep=keep)
    status = "unjudged" if judged[kept] is BROKEN_JUDGE else "rejected"
    assert (board.steps[0].status, board.steps[0].chosen) == (status, kept)
    assert [r.image for r in requests if isinstance(r, Edit)][-1] == picture(kept + 1)


@pytest.mark.parametrize("keep", ["best", "last"])
def test_an_accepted_picture_always_wins(keep):
    sure = Verdict(success=False, semantics=9, quality=9, probability=0.5)
    board, _ = drive([plan(1), picture(1), sure, picture(2), Verdict(success=True, semantics=1)], keep=keep)
    assert (board.steps[0].status, board.steps[0].chosen) == ("accepted", 1)


def test_a_last_attempt_without_a_picture_leaves_the_one_before():
    board, _ = drive([plan(1), picture(1), NO, picture(2), NO, BROKEN_EDIT], keep="last")
    assert board.steps[0].chosen == 1


def test_a_step_in_words_alone_changes_no_picture():
    board, requests = drive([plan(4, words=frozenset({0, 2})), picture(1), YES, picture(3), YES])
    assert [s.status for s in board.steps] == ["text", "accepted", "text", "accepted"]
    assert [r.image for r in requests if isinstance(r, Edit)] == [TASK.image, picture(1)]
    assert [r.step for r in requests if isinstance(r, Edit)] == [1, 3]
    assert board.steps[0].goal_image is None
    assert board.complete


def test_stop_does_not_stop_at_words_and_does_stop_behind_them():
    answers = [plan(4, words=frozenset({0, 2})), picture(1), NO]
    board, requests = drive(answers, max_attempts=1, on_rejected="stop")
    assert [s.status for s in board.steps] == ["text", "rejected", "skipped", "skipped"]
    assert sum(isinstance(r, Edit) for r in requests) == 1
    assert not board.complete


def test_a_failure_is_neither_acceptance_nor_rejection():
    board, _ = drive([plan(1), picture(1), BROKEN_JUDGE, BROKEN_EDIT, picture(3), NO])
    step = board.steps[0]
    assert [a.failure for a in step.attempts] == [BROKEN_JUDGE, BROKEN_EDIT, None]
    assert step.status == "rejected"
    assert step.chosen == 2


def test_no_picture_at_all_fails_the_step_and_the_next_starts_from_the_previous_image():
    board, requests = drive([plan(2), BROKEN_EDIT, picture(2), YES], max_attempts=1)
    assert [s.status for s in board.steps] == ["failed", "accepted"]
    assert [r.image for r in requests if isinstance(r, Edit)][-1] == TASK.image


def test_a_failed_plan_ends_the_storyboard_with_the_raw_reply():
    failure = Failure(stage="plan", message="not JSON", reply="hello")
    board, _ = drive([failure])
    assert board.failure == failure
    assert board.steps == ()


def shown(references: str, **fields: object) -> list[list[Image]]:
    task = TASK.model_copy(update=fields)
    trajectory = storyboard(task, max_attempts=1, references=references)
    next(trajectory)
    edits = [trajectory.send(plan(3))]
    for number in (1, 2):
        trajectory.send(picture(number))
        edits.append(trajectory.send(YES))
    return [list(e.references) for e in edits if isinstance(e, Edit)]


def test_an_edit_carries_the_pictures_that_the_option_says():
    assert shown("none") == [[], [], []]
    assert shown("first") == [[], [picture(0)], [picture(0)]]
    assert shown("all") == [[], [picture(0)], [picture(0), picture(1)]]
    assert shown("all", image=None) == [[], [], [picture(1)]], "a start from text has none"
    pictures = (picture(8), picture(0))  # at the marks of the instruction; the second is the scene
    first = [picture(8)]
    assert shown("all", images=pictures) == [first, [*first, picture(0)], [*first, picture(0), picture(1)]]
    assert shown("first", images=pictures) == [first] * 3
    seen = [picture(n) for n in range(40)]
    carried = choose_references("all", seen, seen[-1])
    assert list(carried) == [seen[0], *seen[39 - MAX_REFERENCES + 1 : 39]]


@pytest.mark.parametrize("size", [(4, 4), (8, 8)])
@pytest.mark.parametrize("background", ["correct", "ignore"])
def test_an_edit_that_is_its_own_source_is_rejected_without_asking(size, background):
    same = TASK.image.resized(size)
    board, requests = drive([plan(1), same, picture(3), YES], background=background)
    assert [type(r).__name__ for r in requests] == ["Task", "Edit", "Edit", "Candidate"]
    first = board.steps[0].attempts[0]
    assert (first.image, first.verdict.success, first.verdict.pictures_only) == (same, False, True)


@pytest.mark.parametrize(
    ("size", "fits"), [((2, 2), True), ((16, 10), True), ((9, 4), False), ((4, 8), False)]
)
def test_a_picture_of_another_shape_than_its_source_is_a_failure(size, fits):
    drawn = Image(np.full((size[1], size[0], 3), 3, np.uint8))
    board, _ = drive([plan(1), drawn, YES] if fits else [plan(1), drawn], max_attempts=1)
    (attempt,) = board.steps[0].attempts
    assert (attempt.failure is None) == fits


def test_a_wrong_answer_is_refused():
    with pytest.raises(TypeError, match="expected Plan"):
        drive([YES])
    with pytest.raises(ValueError, match="at least 1"):
        next(storyboard(TASK, max_attempts=0))


def test_seeds_differ_by_task_step_and_attempt():
    assert len({attempt_seed(t, s, a) for t in (7, 8) for s in range(50) for a in range(20)}) == 2000


def test_once_all_steps_have_come_off_the_critic_is_asked_about_the_whole_instruction():
    answers = [plan(2), picture(1), YES, picture(2), YES]
    refused = Verdict(success=False, reasoning="it is not done")
    told = [(YES, True, "unknown"), (refused, False, "unknown"), (BROKEN_JUDGE, False, "nobody")]
    for answer, complete, by in told:
        board, requests = drive([*answers, answer], confirms=lambda steps: steps == 2)
        asked = requests[-1]
        assert isinstance(asked, Candidate)
        assert (asked.source, asked.image, asked.prompt) == (TASK.image, picture(2), "do it")
        assert (asked.step, asked.instruction) == (2, "it is 0; it is 1. In all: do it")
        assert (board.complete, board.end_checked, bool(board.end_doubt)) == (complete, by, not complete)
        assert Storyboard.model_validate_json(board.model_dump_json()) == board
    assert board.degraded == "the critic failed: no verdict"
    assert [is_whole(r) for r in requests if isinstance(r, Candidate)] == [False, False, True]
    board, _ = drive([plan(1).model_copy(update={"missing": ("lid", "jar")}), picture(1), YES])
    assert board.end_doubt == "the end is in doubt: no step mentions the lid or the jar"
    assert Storyboard.model_validate_json(board.model_dump_json()) == board


def test_a_task_is_drawn_again_until_a_storyboard_is_complete():
    board, requests = drive([plan(1), picture(1), NO, plan(1), picture(2), YES], draws=3, max_attempts=1)
    assert (board.drawn, board.kept, board.complete, board.goal_images()) == (2, 2, True, (picture(2),))
    assert len({request.seed for request in requests if isinstance(request, Task)}) == 2
    likely = Verdict(success=False, probability=0.2)
    board, _ = drive([plan(1), picture(1), NO, plan(1), picture(2), likely], draws=2, max_attempts=1)
    assert (board.drawn, board.kept, board.complete) == (2, 2, False)
    assert drive([plan(1), picture(1), BROKEN_JUDGE], draws=2, max_attempts=1)[0].drawn == 1


@pytest.mark.parametrize(
    ("answers", "settings"),
    [
        ([plan(1), picture(1), YES], {"confirms": lambda steps: steps < 1}),
        ([plan(1), picture(1), NO], {"max_attempts": 1, "confirms": lambda steps: True}),
        ([plan(1, segments=True), picture(1), YES], {"confirms": lambda steps: True}),
        ([plan(1, words=frozenset({0}))], {"confirms": lambda steps: True}),
    ],
    ids=["too long", "a step was rejected", "recorded", "words alone"],
)
def test_nobody_is_asked_about_an_end_that_cannot_be_judged(answers, settings):
    board, _ = drive(answers, **settings)
    assert (board.end, board.end_checked, board.end_doubt) == (None, "nobody", "")


def test_the_yes_of_picture_checks_says_nothing_of_the_end():
    rule = Verdict(success=True, pictures_only=True)
    board, _ = drive([plan(1), picture(1), YES, rule], confirms=lambda steps: True)
    assert board.end is None


class Models:
    """A plan of one step, a picture, and a yes."""

    def plan(self, tasks):
        return [plan(1)] * len(tasks)

    def edit(self, edits):
        return [picture(1)] * len(edits)

    def judge(self, candidates):
        return [YES] * len(candidates)


def noted(calls: list[str], name: str) -> Middleware:
    def wrap(ask: Ask) -> Ask:
        def answer(stage, requests):
            calls.append(f"{name} {stage}")
            return ask(stage, requests)

        return answer

    return wrap


def test_a_task_runs_by_one_function_around_which_the_innermost_middleware_is_put_first():
    calls: list[str] = []
    ask = compose(ask_models(Models(), Models(), Models()), [noted(calls, "inner"), noted(calls, "outer")])
    (board,) = run([TASK], *[AskAdapter(ask)] * 3, max_attempts=2)
    assert board.complete
    assert calls == [f"{name} {stage}" for stage in ("plan", "edit", "judge") for name in ("outer", "inner")]
    assert AskAdapter(ask).judge([]) == []


@pytest.mark.parametrize("error", [None, TypeError("of the wrong kind")])
def test_a_picture_is_taken_in_beside_the_event_loop(error):
    threads = []

    def trajectory():
        for request in (TASK, Edit(task_id="t", step=0, attempt=0, image=None, prompt="p", seed=0)):
            yield request
            threads.append(threading.current_thread() is threading.main_thread())
        if error is not None:
            raise error
        return "the end"

    async def ask(request):
        return picture(1) if isinstance(request, Edit) else BROKEN_EDIT

    if error is None:
        assert asyncio.run(advance(trajectory(), ask)) == "the end"
    else:
        with pytest.raises(TypeError, match="of the wrong kind"):
            asyncio.run(advance(trajectory(), ask))
    assert threads == [True, False]
