"""Follows one sub-goal, from the moment it is due until it is reached, overridden or given up."""

import asyncio
import math
import time
from dataclasses import dataclass
from typing import Literal

from goalreel.streaming.board import Frame, GoalReason, StepPanel
from goalreel.streaming.live_task import LiveTask
from goalreel.streaming.model_caller import ModelCaller
from goalreel.streaming.renderer import Renderer
from goalreel.streaming.request import end_from_failure
from goalreel.streaming.tracking import Closeness, Tracker
from goalreel.types import Candidate, Failure, Verdict


@dataclass(frozen=True)
class StepEnd:
    """The end of a step, and the step `index` to go to.

    `completed` and `skipped` go to the next step, `active` is a jump to any step, and `replan` asks for a new
    plan from this step on.
    """

    kind: Literal["completed", "skipped", "active", "replan"]
    index: int
    frame: Frame | None = None
    """The scene at that moment, if a frame was read."""
    reason: str = ""
    by_operator: bool = False


class StepFollower:
    """Gives the policy the goal of step `index`, then watches the live view.

    The goal is given once it is rendered. `goals_ahead` goals after it are rendered early.
    """

    def __init__(
        self, index: int, live: LiveTask, caller: ModelCaller, renderer: Renderer, goals_ahead: int
    ) -> None:
        self.closeness = math.nan
        self.message = ""
        self._index = index
        self._live, self._settings, self._camera = live, live.settings, live.camera
        self._caller, self._renderer = caller, renderer
        self._ahead = goals_ahead
        self._start_time = time.monotonic()
        self._reason: GoalReason | None = None
        """The reason of the goal as it was published last; None where that is to be done."""
        self._doubt_time: float | None = None
        """Time at which this goal was held back; None where it is not."""
        self._first_frame: Frame | None = None
        self._closeness: Closeness | None = None
        self._tracker = Tracker(live.settings, self._start_time)
        self._question: asyncio.Task[object] | None = None
        self._question_frame: Frame | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the step became the active one."""
        return time.monotonic() - self._start_time

    async def run(self) -> StepEnd:
        """Follow the step until it ends.

        Raises:
            TaskEnded: the camera is lost, the step has no goal image, or a critic that cannot be asked is to
                end the task.
        """
        try:
            while (end := self._take_command() or self._watch()) is None:
                await self._live.wait(1 / self._settings.track_rate)
            return end
        finally:
            self._drop_question()

    def _drop_question(self) -> None:
        if self._question is not None:
            self._question.cancel()
            self._question = None

    # -- commands

    def _take_command(self) -> StepEnd | None:
        live = self._live
        if live.replan_reason is not None:
            reason, live.replan_reason = live.replan_reason, None
            return StepEnd("replan", self._index, reason=reason, by_operator=True)
        if live.override is not None:
            override, live.override = live.override, None
            jump = override.status == "active"
            if override.revision == live.board.revision and (jump or override.index == self._index):
                index = override.index if jump else self._index + 1
                return StepEnd(override.status, index, self._camera.fresh_frame(), by_operator=True)
        return None

    def _hold(self, panel: StepPanel) -> None:
        if self._live.board.state != "paused":
            self._live.update(state="paused")
            self._live.publish_goal(panel, "paused")
            self.message = "paused"
            self._drop_question()
        self._reason = self._doubt_time = None

    def _hold_back(self, panel: StepPanel, doubt: str) -> StepEnd | None:
        """Keep a goal that is not verified from the policy; in the end, ask for a new plan."""
        now, limit = time.monotonic(), self._settings.stall_timeout
        if self._doubt_time is None:
            self._doubt_time = now
            self._live.publish_goal(panel, "holding")
        rest = self._doubt_time + limit - now
        reason = f"the goal is not verified (require_verified): {doubt}"
        self.message = f"{reason}; set_active_step goes on, or a re-plan in {max(0.0, rest):.0f} s"
        return StepEnd("replan", self._index, reason=reason) if rest <= 0 else None

    def _publish(self, panel: StepPanel) -> None:
        self._tracker.restart(time.monotonic())
        self._reason, self._ahead = self._camera.goal_reason, 0
        if self._reason != "active":
            self._drop_question()
        self._live.publish_goal(panel, self._reason)

    # -- tracking

    def _watch(self) -> StepEnd | None:
        panel = self._live.board.steps[self._index]
        if self._live.paused:
            self._hold(panel)
            return None
        if self._live.board.state == "paused":
            self._live.update(state="executing")
        if not panel.picture_is_final or panel.image_status == "failed" or self._waits_for_more():
            self.message = "rendering the goal image"
            self._renderer.check()
            return None
        if self._settings.require_verified and (doubt := self._live.board.doubt(panel)):
            return self._hold_back(panel, doubt)
        if self._reason is None:
            self._camera.restart_timeout()
        frame, self.message = self._camera.poll(steady=True)
        if self._reason != self._camera.goal_reason:
            self._publish(panel)
        return None if frame is None else self._track(panel, frame)

    def _waits_for_more(self) -> bool:
        """True while goals after this one are to be rendered first."""
        more = self._live.board.steps[self._index + 1 : self._index + 1 + self._ahead]
        return self._renderer.at_work and not all(p.picture_is_final for p in more)

    def _track(self, panel: StepPanel, frame: Frame) -> StepEnd | None:
        if self._first_frame is None:
            self._first_frame = frame
            if panel.goal_image is not None:
                self._closeness = Closeness(frame.image, panel.goal_image)
        if self._closeness is not None:
            self.closeness = self._closeness.measure(frame.image)
        if self._question is not None:
            if not self._question.done():
                self.message = "asking the critic"
                return None
            answer, self._question = self._question.result(), None
            if self._is_reached(answer):
                return StepEnd("completed", self._index + 1, self._question_frame)
        return self._decide(panel, frame)

    def _is_reached(self, answer: object) -> bool:
        failure = answer if isinstance(answer, Failure) else None
        if failure != self._live.board.critic_failure:
            self._live.update(critic_failure=failure)
        if isinstance(answer, Failure):
            if self._settings.on_model_failure == "fail" and answer.reply is None:
                raise end_from_failure(answer)
            self._tracker.forget_question()
            return False
        return isinstance(answer, Verdict) and answer.success

    def _decide(self, panel: StepPanel, frame: Frame) -> StepEnd | None:
        now = time.monotonic()
        if (reason := self._caller.unavailable_reason("judge")) is not None:
            # Nobody can say whether the step is reached, and a new plan would not change that.
            self._tracker.restart(now)
            self.message = f"the critic cannot be asked, set_active_step goes on: {reason}"
            return None
        match self._tracker.decide(now, self.closeness):
            case "ask":
                self._ask(panel, frame)
            case "stalled":
                reason = f"no progress for {self._settings.stall_timeout:g} s"
                return StepEnd("replan", self._index, frame, reason)
            case "off_plan":
                return StepEnd("replan", self._index, frame, "the scene left the plan")
            case "wait":
                if not math.isnan(self.closeness):
                    self.message = f"{max(0.0, self.closeness):.0%} of the visible change"
        return None

    def _ask(self, panel: StepPanel, frame: Frame) -> None:
        self._question_frame = frame
        candidate = Candidate(
            task_id=self._live.board.id.hex,
            step=self._index,
            source=self._first_frame.image if self._first_frame is not None else None,
            image=frame.image,
            instruction=panel.step.instruction,
            prompt=panel.step.prompt or panel.step.instruction,
            first_prompt=panel.step.prompt,
        )
        self._question = asyncio.create_task(self._caller.judge_live(candidate), name="goalreel-tracking")
        self._question.add_done_callback(lambda _: self._live.wake())
