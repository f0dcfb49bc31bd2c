"""Rows for the Planner (InterleaveThinker, section 3.2): whole plans, and storyboards cut at a random step.

The question about a cut storyboard has the instruction, the first frame and the steps before the cut with
their goal images. The answer has the other steps. It is asked as `ChatPlanner.continue_plan` asks, but
without the earlier plan for the rest, which would give the answer away.

Whole storyboards as one conversation: the plan, then each picture with its verdict.

`easy` has the accepted attempts alone; `reflection` has the rejected ones too, with the Critic's words. A
model that learns them plans and judges. The paper's code makes such rows; whether they were used, it does not
say.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from goalreel.chat.conversation import Message
from goalreel.chat.dialects import OWN, Dialect
from goalreel.chat.interleave import plain
from goalreel.chat.reply_format import plan_reply, verdict_reply
from goalreel.datasets.corpora.rows import Lesson, TalkRow, said_in_short, talks
from goalreel.datasets.corpora.trajectories import Outline, plan_of
from goalreel.datasets.corrections.board import critic_words
from goalreel.image import Image
from goalreel.planners.chat import question, rest_question
from goalreel.replan import ReplanContext
from goalreel.types import ACCEPTED, Failure, Plan, Storyboard, Verdict

PLANS, CONTINUATIONS = talks("plans"), talks("continuations")
_STREAM = 6


def cut_of(
    outline: Outline, seed: int, number: int
) -> int | Literal["one_step", "first_step_not_accepted", "marks_without_pictures"]:
    """How many steps lie before the cut, or why there is none; drawn by `seed` and the storyboard's number.

    Only accepted steps, or words alone, are done: a picture that is not what its step says misleads.
    """
    last = min(outline.accepted, len(outline.statuses) - 1)
    if len(outline.statuses) < 2:
        return "one_step"
    if last < 1:
        return "first_step_not_accepted"
    if not outline.askable:
        return "marks_without_pictures"
    return int(np.random.default_rng([seed, number, _STREAM]).integers(1, last + 1))


def plan_row(board: Storyboard, task_id: str, dialect: Dialect = OWN) -> TalkRow:
    """Make the row of a whole plan: the task in, the plan out.

    Raises:
        ValueError: the task's pictures do not fit its marks.
    """
    request = question(board.task, dialect=dialect)
    if isinstance(request, Failure):
        raise ValueError(request.message)
    plan, done = plan_of(board), len(board.task.done)
    thinking = said_in_short([step.name for step in plan.steps], done)
    return TalkRow(task_id, done, (request.conversation, plan_reply(plan, thinking, done + 1)))


def continuation_row(board: Storyboard, task_id: str, done: int, dialect: Dialect = OWN) -> TalkRow:
    """The row of a storyboard cut after `done` steps."""
    past = board.model_copy(update={"steps": board.steps[:done], "phases": ()})
    now = next((s.goal_image for s in reversed(past.steps) if s.goal_image is not None), board.task.image)
    rest = Plan(steps=tuple(s.step for s in board.steps[done:]))
    names = [step.name for step in rest.steps]
    progress, thinking = ReplanContext(past, done, now), said_in_short(names, done)
    return TalkRow(task_id, done, rest_lesson(progress, rest, thinking, dialect))


def rest_lesson(progress: ReplanContext, rest: Plan, thinking: str, dialect: Dialect = OWN) -> Lesson:
    """The conversation of `ChatPlanner.continue_plan`, with the plan for the rest as the reply.

    Raises:
        ValueError: the task's pictures do not fit its marks.
    """
    request = rest_question(progress, dialect=dialect)
    if isinstance(request, Failure):
        raise ValueError(request.message)
    first = len(progress.storyboard.task.done) + progress.done + 1
    return request.conversation, plan_reply(rest, thinking, first)


EASY, REFLECTION = talks("easy"), talks("reflection")

type SequenceFault = Literal[
    "no_plan",
    "incomplete",
    "words_only",
    "marks_without_pictures",
    "unscored",
    "scorer_disagrees",
    "nothing_rejected",
]


def easy_fault(outline: Outline) -> SequenceFault | None:
    """Why a storyboard is no sequence; None where every step was accepted, and the scorer agrees."""
    if not outline.statuses:
        return "no_plan"
    if not all(status in (*ACCEPTED, "text") for status in outline.statuses):
        return "incomplete"
    if not set(ACCEPTED) & set(outline.statuses):
        return "words_only"
    if not outline.askable:
        return "marks_without_pictures"
    chosen_samples = [s for s in outline.samples if outline.chosen[s.step] == s.attempt]
    if any(s.scores is None for s in chosen_samples):
        return "unscored"
    return None if all(s.success for s in chosen_samples) else "scorer_disagrees"


def reflection_fault(outline: Outline) -> SequenceFault | None:
    """Why a storyboard is no sequence with rejected attempts."""
    if fault := easy_fault(outline):
        return fault
    if any(s.verdict is not None and not s.verdict.success for s in outline.samples):
        return None
    return "nothing_rejected"


def sequence_row(board: Storyboard, task_id: str, *, rejected: bool, dialect: Dialect = OWN) -> TalkRow:
    """A storyboard as a conversation, with or without its `rejected` attempts.

    Raises:
        ValueError: it has no plan, or no accepted picture.
    """
    first = plan_row(board, task_id, dialect)
    conversation, reply = first.lesson
    turns = [*conversation, Message("assistant", (reply,))]
    for text, picture, verdict in _attempts(board, rejected):
        turns += [Message("user", (text, picture)), Message("assistant", (verdict_reply(verdict),))]
    *conversation, last = turns
    return TalkRow(task_id, first.done, (tuple(conversation), str(last.parts[0])))


def _attempts(board: Storyboard, rejected: bool) -> Iterator[tuple[str, Image, Verdict]]:
    for number, step in enumerate(board.steps, len(board.task.done) + 1):
        for i, attempt in enumerate(step.attempts):
            if attempt.image is None or attempt.verdict is None or not (rejected or i == step.chosen):
                continue
            text = f"Step {number}: {plain(step.step.instruction)}\nOrder: {plain(attempt.prompt)}\nPicture: "
            verdict = attempt.verdict.model_copy(update={"reasoning": critic_words(attempt.verdict)})
            yield text, attempt.image, verdict
