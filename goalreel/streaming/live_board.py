"""The board of the task under way, and the commands about it. Used from the engine's event loop."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, TypedDict, Unpack

from goalreel.streaming.board import (
    Board,
    BoardState,
    ErrorCode,
    Frame,
    Goal,
    GoalReason,
    Phase,
    PhaseName,
    StepPanel,
)
from goalreel.streaming.request import BoardListener
from goalreel.types import Failure

_FINAL_STATES: dict[ErrorCode, BoardState] = {
    ErrorCode.NONE: "succeeded",
    ErrorCode.CANCELED: "canceled",
    ErrorCode.PREEMPTED: "canceled",
    ErrorCode.UNVERIFIED: "unverified",
}


class BoardChanges(TypedDict, total=False):
    """The fields of a Board that change while a task is under way."""

    state: BoardState
    revision: int
    source: Frame
    steps: tuple[StepPanel, ...]
    planner_failure: Failure | None
    critic_failure: Failure | None


class LiveBoard:
    """Used from the event loop. `board` is frozen and may be read from any thread."""

    def __init__(
        self,
        board: Board,
        listener: BoardListener,
        now: Callable[[], int],
        on_phase: Callable[[Phase], None] | None,
        wake: Callable[[], None],
    ) -> None:
        self.board = board
        self.now = now
        self._listener = listener
        self._on_phase = on_phase
        self._wake = wake
        self._goal_reason: GoalReason | None = None

    def update(self, **changes: Unpack[BoardChanges]) -> None:
        """Replace fields of the board and notify the listener."""
        self.board = replace(self.board, stamp=self.now(), **changes)
        self._listener.on_board(self.board)
        self._wake()

    def put_panel(self, panel: StepPanel) -> None:
        """Replace one panel of the board and notify the listener."""
        self.update(steps=self.board.with_panel(panel).steps)

    def publish_goal(self, panel: StepPanel | None, reason: GoalReason) -> None:
        """Give the policy a goal, or say why it has to hold."""
        self._goal_reason = reason
        self._listener.on_goal(Goal(self.board, panel, reason, self.now()))

    def hold(self, panel: StepPanel | None, reason: GoalReason) -> None:
        """Say why the policy has to hold, where that has changed."""
        if reason != self._goal_reason:
            self.publish_goal(panel, reason)

    def report_phase(self, stage: PhaseName, panel: StepPanel | None = None) -> None:
        """Report progress to whoever asked for the storyboard."""
        if self._on_phase is None:
            return
        steps = self.board.steps
        share = sum(p.picture_is_final for p in steps) / len(steps) if steps else 0.0
        index, attempt = (panel.index, max(0, panel.attempts - 1)) if panel else (0, 0)
        self._on_phase(Phase(stage, index, len(steps), attempt, share, panel, self.board.models))

    def end(self, error: ErrorCode, *, executes: bool) -> None:
        """Publish the end of the task, to the policy too where it `executes`."""
        state = _FINAL_STATES.get(error, "failed")
        if (active := self.board.active) is not None:
            status = "failed" if state == "failed" else "pending"
            self.put_panel(replace(active, status=status, ended=self.now()))
        is_ready = error is ErrorCode.NONE and not executes
        self.update(state="ready" if is_ready else state)
        if executes:
            self.publish_goal(None, "over")


type TaskCommand = Literal["pause", "resume", "replan", "cancel"]


@dataclass(frozen=True)
class Override:
    """Go to step `index`, or mark it, the active one, as completed or skipped.

    It holds for the plan of one `revision` only: another plan has other steps.
    """

    index: int
    status: Literal["active", "completed", "skipped"]
    revision: int


class PendingCommands:
    """Commands that have not been carried out yet. Used from the event loop only."""

    def __init__(self) -> None:
        self.paused = False
        self.replan: str | None = None
        """The reason, once somebody asks for a new plan."""
        self.override: Override | None = None
        self._changed = asyncio.Event()

    def pause(self, paused: bool) -> None:
        """Hold the task, or resume it."""
        self.paused = paused
        self.wake()

    def request_replan(self, reason: str) -> None:
        """Ask for a new plan for the remaining steps."""
        self.replan = reason or "ordered"
        self.wake()

    def request_override(self, override: Override) -> None:
        """Ask to go to a step, or to mark it as completed or skipped."""
        self.override = override
        self.wake()

    def wake(self) -> None:
        """Wake whoever waits: something changed."""
        self._changed.set()

    async def wait(self, seconds: float) -> None:
        """Wait until `wake` is called, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()
