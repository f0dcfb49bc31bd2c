"""The end of a task: does the scene show all of it? Its steps may each have been taken for done wrongly."""

import asyncio

from goalreel.image import Image
from goalreel.planners.agents.task_check import whole_state
from goalreel.streaming.board import Board, ErrorCode
from goalreel.streaming.camera import LiveCamera
from goalreel.streaming.model_caller import Caller
from goalreel.streaming.settings import EngineSettings
from goalreel.streaming.task_end import TaskEnded, of_failure
from goalreel.types import Candidate, Failure, Verdict

LOOKS = 3
"""So often the critic is asked before its no counts: the arm may still be on its way out of the picture."""


async def confirm(
    board: Board, before: Image, camera: LiveCamera, caller: Caller, settings: EngineSettings
) -> Verdict:
    """Ask the critic on live frames whether the task is done; `before` is the scene as it began.

    Raises:
        TaskEnded: UNVERIFIED, it says no, or cannot be asked, or there is no frame; where a failing model is
            to end a task, as that.
    """
    said: Verdict | Failure | None = None
    for look in range(LOOKS):
        await asyncio.sleep(settings.critic_period if look else 0)
        said = await caller.look(_question(board, before, await _frame(camera)))
        if isinstance(said, Verdict) and said.success:
            return said
        if isinstance(said, Failure) and said.reply is None:
            break
    if isinstance(said, Verdict):
        raise TaskEnded(ErrorCode.UNVERIFIED, _unseen(said.reasoning), said)
    assert said is not None
    if settings.on_model_failure == "fail":
        raise of_failure(said)
    raise TaskEnded(ErrorCode.UNVERIFIED, _unseen(f"it could not be asked: {said.message}"))


async def _frame(camera: LiveCamera) -> Image:
    try:
        return (await camera.wait()).image
    except TaskEnded as e:
        raise TaskEnded(ErrorCode.UNVERIFIED, _unseen(e.message)) from None


def _question(board: Board, before: Image, now: Image) -> Candidate:
    done = [p.step.instruction for p in board.steps if p.status == "completed"]
    return Candidate(
        task_id=board.id.hex,
        step=len(board.steps),
        source=before,
        image=now,
        instruction=whole_state(board.task, done),
        prompt=board.task,
    )


def _unseen(why: str) -> str:
    said = why.strip().splitlines()[0] if why.strip() else "it gives no reason"
    return f"every step was taken for done, but the critic does not confirm the task: {said}"
