"""Rows as conversations: exactly what the agents ask, with the reply in exactly the form that they read."""

from goalreel.chat.dialects import OWN, Dialect
from goalreel.chat.plan import plan_reply
from goalreel.chat.verdict import verdict_reply
from goalreel.critics.chat import Mode
from goalreel.critics.chat import question as critic_question
from goalreel.datasets.corpora.rows import Lesson
from goalreel.planners.chat import question as planner_question
from goalreel.types import Candidate, Failure, Task
from goalreel_lab.lessons.rows import PlanRow, VerdictRow


def plan_lesson(row: PlanRow) -> Lesson:
    """Make the conversation of `ChatPlanner`; the reply first says where everything stands and goes.

    Raises:
        ValueError: the row is no question, such as an instruction with an image mark.
    """
    question = planner_question(task_of(row))
    if isinstance(question, Failure):
        raise ValueError(question.message)
    return question.conversation, plan_reply(row.plan, row.thinking)


def verdict_lesson(row: VerdictRow, mode: Mode = "strict", dialect: Dialect = OWN) -> Lesson:
    """Make the conversation of `ChatCritic` in a mode; the reply is the true verdict."""
    question = critic_question(candidate_of(row), mode=mode, dialect=dialect)
    return question.conversation, verdict_reply(row.verdict)


def task_of(row: PlanRow) -> Task:
    return Task(id=str(row.origin.seed), instruction=row.instruction, image=row.image)


def candidate_of(row: VerdictRow) -> Candidate:
    return Candidate(
        task_id=str(row.origin.seed),
        step=row.origin.done,
        source=row.source,
        image=row.candidate,
        instruction=row.instruction,
        prompt=row.prompt,
    )
