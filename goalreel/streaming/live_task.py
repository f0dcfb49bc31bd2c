"""The task under way: its board, which only it changes, and the order that is still to be carried out."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from goalreel.models.presets import Preset
from goalreel.streaming.board import Board, EndState, ErrorCode, Goal, GoalReason, Phase, PhaseName, StepPanel
from goalreel.streaming.camera import LiveCamera
from goalreel.streaming.request import BoardListener, TaskRequest
from goalreel.streaming.settings import EngineSettings

if TYPE_CHECKING:
    from goalreel.streaming.cue import ExamplesCue

_FINAL_STATES: dict[ErrorCode, EndState] = {
    ErrorCode.NONE: "succeeded",
    ErrorCode.CANCELED: "canceled",
    ErrorCode.PREEMPTED: "canceled",
    ErrorCode.UNCONFIRMED: "unconfirmed",
}


@dataclass(frozen=True)
class Order:
    """An operator's order: plan anew, go to step `index`, or take it, the active one, as done or skipped.

    But for `replan` it holds for the plan of one `revision` only.
    """

    kind: Literal["replan", "active", "completed", "skipped"]
    index: int = 0
    revision: int = 0
    reason: str = ""


class LiveTask:
    """Everything that the parts of a session share. Used from the event loop.

    `board` is frozen and may be read from any thread.
    """

    def __init__(
        self,
        request: TaskRequest,
        settings: EngineSettings,
        preset: Preset,
        board: Board,
        camera: LiveCamera,
        listener: BoardListener,
        now: Callable[[], int],
        on_phase: Callable[[Phase], None] | None = None,
        cue: "ExamplesCue | None" = None,
    ) -> None:
        """`preset` says which steps, attempts and checks there are; `now` is the clock, in ns."""
        self.request, self.settings, self.preset = request, settings, preset
        self.board, self.camera, self.now = board, camera, now
        self._listener, self._on_phase, self._cue = listener, on_phase, cue
        self.executes = request.kind == "execute"
        """A policy is led through the storyboard once it is made."""
        self.paused = False
        """An operator holds the task."""
        self._goal: Goal | None = None
        """The goal as it was published last."""
        self._held: tuple[StepPanel | None, GoalReason] | None = None
        """The last `hold`; None once a goal was published."""
        self._order: Order | None = None
        self._changed = asyncio.Event()

    # -- the board and its listener

    def update(self, **changes: Any) -> None:
        """Replace fields of the board and notify the listener; of the goal too, where other models failed."""
        before, self.board = self.board, replace(self.board, stamp=self.now(), **changes)
        self._listener.on_board(self.board)
        if (goal := self._goal) is not None and self.board.degraded_lines != before.degraded_lines:
            index = None if goal.panel is None else goal.panel.index
            panel = next((p for p in self.board.steps if p.index == index), None)
            self._publish(replace(goal, board=self.board, panel=panel))
        self.wake()

    def put_panel(self, panel: StepPanel) -> None:
        """Replace one panel of the board and notify the listener."""
        self.update(steps=self.board.with_panel(panel).steps)

    @property
    def goal_reason(self) -> GoalReason | None:
        """The reason of the goal as it was published last."""
        return None if self._goal is None else self._goal.reason

    def publish_goal(self, panel: StepPanel | None, reason: GoalReason) -> None:
        """Give the policy a goal, or say why it has to hold: a pause before any other reason."""
        self._held = None
        if self.paused and reason not in ("active", "over"):
            reason = "paused"
        self._publish(Goal(self.board, panel, reason, self.now()))

    def _publish(self, goal: Goal) -> None:
        self._goal = goal
        self._listener.on_goal(goal)

    def hold(self, panel: StepPanel | None, reason: GoalReason) -> None:
        """Say why the policy has to hold, where that has changed."""
        if self.executes and self.goal_reason != ("paused" if self.paused else reason):
            self.publish_goal(panel, reason)
        self._held = panel, reason

    def report_phase(self, stage: PhaseName, panel: StepPanel | None = None) -> None:
        """Report progress to whoever asked for the storyboard."""
        if self._on_phase is None:
            return
        steps = self.board.steps
        share = sum(p.picture_is_final for p in steps) / len(steps) if steps else 0.0
        index, attempt = (panel.index, max(0, panel.attempts - 1)) if panel else (0, 0)
        self._on_phase(Phase(stage, index, len(steps), attempt, share, panel, self.board.models))

    def end(self, error: ErrorCode) -> None:
        """Publish the end of the task, to the policy too."""
        state = _FINAL_STATES.get(error, "failed")
        if (active := self.board.active) is not None:
            status = "failed" if state == "failed" else "pending"
            self.put_panel(replace(active, status=status, ended=self.now()))
        self.update(state="ready" if state == "succeeded" and not self.executes else state)
        if self.executes:
            self.publish_goal(None, "over")

    # -- the cue of labelled episodes

    async def enter_step(self, step: int, *, anew: bool) -> None:
        """Let labelled episodes follow the robot into a step; `anew` where the critic did not lead there."""
        steps = len(self.board.steps)
        if self._cue is not None and step < steps:
            if anew:
                await asyncio.to_thread(self._cue.begin, self.request.task, steps, step)
            else:
                self._cue.enter(step)

    def is_left(self, step: int) -> bool | None:
        """True if labelled episodes say that the robot has done a step; None where they say nothing."""
        return None if self._cue is None else self._cue.is_left(step)

    # -- commands of an operator, or of the policy itself

    def pause(self, paused: bool) -> None:
        """Hold the task, or resume it. What is planned meanwhile is held too."""
        self.paused = paused
        if self._held is not None:
            self.hold(*self._held)
        self.wake()

    def give(self, order: Order) -> None:
        """Give an order; it replaces one that is not carried out yet."""
        self._order = order
        self.wake()

    def take_order(self) -> Order | None:
        """Take the order that is still to be carried out, if it is not for an earlier plan."""
        order, self._order = self._order, None
        outdated = order and order.kind != "replan" and order.revision != self.board.revision
        return None if outdated else order

    def wake(self) -> None:
        """Wake whoever waits: something changed."""
        self._changed.set()

    async def wait(self, seconds: float) -> None:
        """Wait until `wake` is called, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()
