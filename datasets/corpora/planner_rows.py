"""Rows for the Planner (InterleaveThinker, section 3.2): plans, storyboards cut at a random step, whole ones.

A cut storyboard is asked about as `ChatPlanner.continue_plan` asks, but without the earlier plan for the
rest, which would give the answer away. Of whole storyboards, `easy` has the accepted attempts alone;
`reflection` has the rejected ones too, with the Critic's words. A model that learns them plans and judges.
"""

from collections.abc import Iterator, Sequence

from goalreel.chat.conversation import Message
from goalreel.chat.dialects import OWN, Dialect
from goalreel.chat.interleave import plain
from goalreel.chat.plan import plan_reply
from goalreel.chat.verdict import verdict_reply
from goalreel.datasets.corpora.rows import Lesson, TalkRow, talks
from goalreel.datasets.corpora.trajectories import plan_of
from goalreel.datasets.corrections.board import critic_words
from goalreel.image import Image
from goalreel.planners.chat import question, rest_question
from goalreel.types import Failure, Plan, ReplanContext, Storyboard, Verdict

PLANS, CONTINUATIONS, EASY, REFLECTION = map(talks, ("plans", "continuations", "easy", "reflection"))


def brief_reasoning(names: Sequence[str], done: int) -> str:
    """Write the reasoning of a plan whose record has none: the steps done, and those that remain."""
    steps = "1 step remains" if len(names) == 1 else f"{len(names)} steps remain"
    return f"{f'{done} done, ' if done else ''}{steps}: {'; '.join(names)}."


def plan_row(board: Storyboard, task_id: str, dialect: Dialect = OWN) -> TalkRow:
    """Make the row of a whole plan: the task in, the plan out.

    Raises:
        ValueError: the task's pictures do not fit its marks.
    """
    request = question(board.task, dialect=dialect)
    if isinstance(request, Failure):
        raise ValueError(request.message)
    plan, done = plan_of(board), len(board.task.done)
    thinking = brief_reasoning([step.name for step in plan.steps], done)
    return TalkRow(task_id, done, (request.conversation, plan_reply(plan, thinking, done + 1)))


def continuation_row(board: Storyboard, task_id: str, done: int, dialect: Dialect = OWN) -> TalkRow:
    """Make the row of a storyboard cut after `done` steps."""
    past = board.model_copy(update={"steps": board.steps[:done], "phases": ()})
    now = next((s.goal_image for s in reversed(past.steps) if s.goal_image is not None), board.task.image)
    rest = Plan(steps=tuple(s.step for s in board.steps[done:]))
    names = [step.name for step in rest.steps]
    progress, thinking = ReplanContext(past, done, now), brief_reasoning(names, done)
    return TalkRow(task_id, done, rest_lesson(progress, rest, thinking, dialect))


def rest_lesson(progress: ReplanContext, rest: Plan, thinking: str, dialect: Dialect = OWN) -> Lesson:
    """Make the conversation of `ChatPlanner.continue_plan`, with the plan for the rest as the reply.

    Raises:
        ValueError: the task's pictures do not fit its marks.
    """
    request = rest_question(progress, dialect=dialect)
    if isinstance(request, Failure):
        raise ValueError(request.message)
    first = len(progress.storyboard.task.done) + progress.done + 1
    return request.conversation, plan_reply(rest, thinking, first)


def sequence_row(board: Storyboard, task_id: str, *, rejected: bool, dialect: Dialect = OWN) -> TalkRow:
    """Make the row of a storyboard as a conversation, with or without its `rejected` attempts.

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
