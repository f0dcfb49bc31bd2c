"""Why a task ends before it is done, and what a model's Failure means for it."""

from textwrap import shorten

from goalreel.streaming.board import ErrorCode
from goalreel.streaming.settings import EngineSettings
from goalreel.types import Failure, Plan, Step, StoryboardStep, Verdict
from goalreel.wording import reader_text

_STAGES = {
    "plan": ErrorCode.PLANNER_FAILED,
    "edit": ErrorCode.EDITOR_FAILED,
    "judge": ErrorCode.CRITIC_FAILED,
}


class TaskEnded(Exception):
    """The task is over; `error` and `message` (one line) say why."""

    def __init__(self, error: ErrorCode, message: str, verdict: Verdict | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
        self.verdict = verdict
        """The critic's verdict on the task as a whole, if there is one."""


def end_from_failure(failure: Failure) -> TaskEnded:
    """Give the exception with which a model's Failure ends a task."""
    message = failure.line
    if failure.reply is not None:
        message = f"{message}; the model said {shorten(failure.reply, 120, placeholder=' ...')!r}"
    if "out of memory" in message.lower():
        return TaskEnded(ErrorCode.OUT_OF_MEMORY, message)
    return TaskEnded(_STAGES[failure.stage], message)


def single_step_plan(failure: Failure, task: str, settings: EngineSettings) -> Plan:
    """Make the task itself the only sub-goal, in words, where the planner cannot be asked and text will do.

    Raises:
        TaskEnded: `on_model_failure` is "fail", or the planner answered without giving a plan.
    """
    if settings.on_model_failure == "fail" or failure.reply is not None:
        raise end_from_failure(failure)
    return Plan(steps=(Step(name=task, instruction=task, prompt=None, auxiliary_text=task),))


def end_from_step(result: StoryboardStep, settings: EngineSettings) -> TaskEnded | None:
    """Give the exception with which a rendered step ends the task under these settings, or None."""
    if result.usable:
        return None
    attempt = result.attempts[-1]
    if attempt.failure is not None:
        return end_from_failure(attempt.failure) if settings.on_model_failure == "fail" else None
    if settings.on_unverified == "publish":
        return None
    reason = reader_text(attempt.verdict.reasoning) if attempt.verdict is not None else ""
    text = f"the critic rejected all {len(result.attempts)} pictures of {result.step.name!r}. {reason}"
    return TaskEnded(ErrorCode.ATTEMPTS_EXHAUSTED, text.strip().splitlines()[0])
