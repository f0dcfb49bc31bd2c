"""One sub-goal, from the moment it is due until it is reached, overridden or given up."""

import asyncio
import math
import time
from dataclasses import dataclass
from typing import Literal

from goalreel.streaming.board import Frame, StepPanel
from goalreel.streaming.camera import LiveCamera
from goalreel.streaming.closeness import Closeness
from goalreel.streaming.live_board import LiveBoard
from goalreel.streaming.model_caller import Caller
from goalreel.streaming.operator_commands import Orders
from goalreel.streaming.settings import EngineSettings
from goalreel.streaming.task_end import of_failure
from goalreel.streaming.tracker import Tracker
from goalreel.types import Candidate, Failure, Verdict


@dataclass(frozen=True)
class Turn:
    """What comes next: `completed` or `skipped`, then step `index`; `active`: a jump to it; or `replan`."""

    kind: Literal["completed", "skipped", "active", "replan"]
    index: int
    frame: Frame | None = None
    """The scene at that moment, if it was looked at."""
    why: str = ""
    ordered: bool = False


class StepFollower:
    """Tells the policy of step `index` once it is rendered, then watches."""

    def __init__(
        self,
        index: int,
        live: LiveBoard,
        camera: LiveCamera,
        caller: Caller,
        settings: EngineSettings,
        orders: Orders,
        rendering: asyncio.Task[None] | None,
    ) -> None:
        self.closeness = math.nan
        self.message = ""
        self._index = index
        self._live = live
        self._camera = camera
        self._caller = caller
        self._settings = settings
        self._orders = orders
        self._rendering = rendering
        self._began = time.monotonic()
        self._told = False
        self._start: Frame | None = None
        self._measure: Closeness | None = None
        self._tracker = Tracker(settings, self._began)
        self._asking: asyncio.Task[object] | None = None
        self._asked_about: Frame | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the step became the active one."""
        return time.monotonic() - self._began

    async def run(self) -> Turn:
        """Follow the step until it is over.

        Raises:
            Ended: the camera is lost, or the goal image did not come about.
        """
        try:
            while (turn := self._ordered() or self._look()) is None:
                await self._orders.wait(1 / self._settings.track_rate)
            return turn
        finally:
            self._forget_question()

    def _forget_question(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    # -- orders

    def _ordered(self) -> Turn | None:
        orders = self._orders
        if orders.replan is not None:
            why, orders.replan = orders.replan, None
            return Turn("replan", self._index, why=why, ordered=True)
        if orders.override is not None:
            ordered, orders.override = orders.override, None
            jump = ordered.status == "active"
            if ordered.revision == self._live.board.revision and (jump or ordered.index == self._index):
                target = ordered.index if jump else self._index + 1
                return Turn(ordered.status, target, self._camera.glance(), ordered=True)
        return None

    def _hold(self, panel: StepPanel) -> None:
        if self._live.board.state != "paused":
            self._live.update(state="paused")
            self._live.goal(panel, active=False)
            self.message = "paused"
            self._forget_question()
        self._told = False

    def _tell(self, panel: StepPanel) -> None:
        self._camera.restart()
        self._tracker.restart(time.monotonic())
        self._live.goal(panel, active=True)
        self._told = True

    # -- tracking

    def _look(self) -> Turn | None:
        panel = self._live.board.steps[self._index]
        if self._orders.paused:
            self._hold(panel)
            return None
        if self._live.board.state == "paused":
            self._live.update(state="executing")
        if not panel.rendered or panel.image_status == "failed":
            self.message = "rendering the goal image"
            if self._rendering is not None and self._rendering.done():
                self._rendering.result()
            return None
        if not self._told:
            self._tell(panel)
        frame, self.message = self._camera.look()
        return None if frame is None else self._track(panel, frame)

    def _track(self, panel: StepPanel, frame: Frame) -> Turn | None:
        if self._start is None:
            self._start = frame
            if panel.goal_image is not None:
                self._measure = Closeness(frame.image, panel.goal_image)
        if self._measure is not None:
            self.closeness = self._measure.of(frame.image)
        if self._asking is not None:
            if not self._asking.done():
                self.message = "asking the critic"
                return None
            answer, self._asking = self._asking.result(), None
            if self._convinced(answer):
                return Turn("completed", self._index + 1, self._asked_about)
        return self._decide(panel, frame)

    def _convinced(self, answer: object) -> bool:
        if isinstance(answer, Failure):
            if self._settings.on_model_failure == "fail" and answer.reply is None:
                raise of_failure(answer)
            self._tracker.unanswered()
            return False
        return isinstance(answer, Verdict) and answer.success

    def _decide(self, panel: StepPanel, frame: Frame) -> Turn | None:
        now = time.monotonic()
        if (reason := self._caller.down("judge")) is not None:
            # Nobody can say whether it is reached, and a new plan would not change that.
            self._tracker.restart(now)
            self.message = f"the critic cannot be asked, set_active_step goes on: {reason}"
            return None
        match self._tracker.look(now, self.closeness):
            case "ask":
                self._ask(panel, frame)
            case "stalled":
                why = f"no progress for {self._settings.stall_timeout:g} s"
                return Turn("replan", self._index, frame, why)
            case "left":
                return Turn("replan", self._index, frame, "the scene left the plan")
            case "wait":
                if not math.isnan(self.closeness):
                    self.message = f"{max(0.0, self.closeness):.0%} of the visible change"
        return None

    def _ask(self, panel: StepPanel, frame: Frame) -> None:
        self._asked_about = frame
        candidate = Candidate(
            task_id=self._live.board.id.hex,
            step=self._index,
            source=self._start.image if self._start is not None else None,
            image=frame.image,
            instruction=panel.step.instruction,
            prompt=panel.step.prompt or panel.step.instruction,
            first_prompt=panel.step.prompt,
        )
        self._asking = asyncio.create_task(self._caller.look(candidate), name="goalreel-tracking")
        self._asking.add_done_callback(lambda _: self._orders.wake())
