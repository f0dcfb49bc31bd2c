"""Checks at the end of a task whether the scene shows all of it: each step may have been accepted wrongly."""

import asyncio

from goalreel.critics.task_check import whole_state
from goalreel.image import Image
from goalreel.streaming.board import Board, CodedText, ErrorCode
from goalreel.streaming.camera import LiveCamera
from goalreel.streaming.model_caller import ModelCaller
from goalreel.streaming.settings import EngineSettings
from goalreel.streaming.task_end import TaskEnded, end_from_failure
from goalreel.types import ROLE_OF_STAGE, Candidate, Failure, Verdict
from goalreel.wording import reader_text

NOT_CHECKED = "every step was taken for done; nobody checked the end against the whole task (`confirm`)"
"""The message of a task that ends by its steps alone."""
_SOLE_JUDGES = {"planner", "critic"}
MAX_QUESTIONS = 3
"""The critic must say no this often before it counts: the arm may still be leaving the picture."""


def end_of(board: Board, *, executes: bool, is_checked: bool) -> CodedText:
    """Say how a task ends whose steps are all done: UNVERIFIED where a model failed that nobody stood in for.

    A robot reaches the steps without an editor, but nobody else stands in for planner and critic. The task
    `is_checked` if the critic has confirmed it as a whole.
    """
    failed = {ROLE_OF_STAGE[failure.stage] for failure in board.failures}
    if not is_checked and (failed & _SOLE_JUDGES if executes else failed):
        return ErrorCode.UNVERIFIED, board.degraded
    not_checked = "" if is_checked else NOT_CHECKED if executes else board.unaccepted
    return ErrorCode.NONE, "; ".join(filter(None, (not_checked, board.degraded)))


async def confirm_task(
    board: Board,
    first_image: Image,
    camera: LiveCamera,
    caller: ModelCaller,
    settings: EngineSettings,
    max_steps: int | None,
) -> Verdict:
    """Ask the critic on live frames whether the task is done. `first_image` is the scene as it began.

    `max_steps` is the length of a task, in steps, that the critic can judge; None for any.

    Raises:
        TaskEnded: UNVERIFIED where the task is too long, the critic says no or cannot be asked, or there is
            no frame; the model's own code where `on_model_failure` is "fail".
    """
    if max_steps is not None and len(board.steps) > max_steps:
        reason = f"it cannot judge one of {len(board.steps)} steps (confirm_steps: {max_steps})"
        raise TaskEnded(ErrorCode.UNVERIFIED, _message(reason))
    answer: Verdict | Failure | None = None
    for question in range(MAX_QUESTIONS):
        await asyncio.sleep(settings.critic_period if question else 0)
        answer = await caller.judge_live(_candidate(board, first_image, await _frame(camera)))
        if isinstance(answer, Verdict) and answer.success:
            return answer
        if isinstance(answer, Failure) and answer.reply is None:
            break
    if isinstance(answer, Verdict):
        raise TaskEnded(ErrorCode.UNVERIFIED, _message(reader_text(answer.reasoning)), answer)
    assert answer is not None
    if settings.on_model_failure == "fail":
        raise end_from_failure(answer)
    raise TaskEnded(ErrorCode.UNVERIFIED, _message(f"it could not be asked: {answer.message}"))


async def _frame(camera: LiveCamera) -> Image:
    try:
        return (await camera.wait()).image
    except TaskEnded as e:
        raise TaskEnded(ErrorCode.UNVERIFIED, _message(e.message)) from None


def _candidate(board: Board, first_image: Image, live_image: Image) -> Candidate:
    done = [p.step.instruction for p in board.steps if p.status == "completed"]
    return Candidate(
        task_id=board.id.hex,
        step=len(board.steps),
        source=first_image,
        image=live_image,
        instruction=whole_state(board.task, done),
        prompt=board.task,
    )


def _message(reason: str) -> str:
    line = reason.strip().splitlines()[0] if reason.strip() else "it gives no reason"
    return f"every step was accepted as done, but the critic does not confirm the task: {line}"
