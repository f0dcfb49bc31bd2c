"""Follows one sub-goal, or the check of the whole task: one loop obeys orders and watches the camera.

It measures how far the live view has come to the goal, and decides when to ask the Critic or to re-plan.
"""

import asyncio
import math
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel import loop, wording
from goalreel.critics.difference import differing
from goalreel.image import Image
from goalreel.streaming.board import ErrorCode, Frame, GoalReason, StepPanel
from goalreel.streaming.live_task import LiveTask
from goalreel.streaming.model_caller import ModelCaller
from goalreel.streaming.renderer import Renderer
from goalreel.streaming.request import TaskEnded, end_from_failure
from goalreel.streaming.settings import EngineSettings
from goalreel.types import Candidate, Failure, Verdict

MAX_QUESTIONS = 3
"""The critic must say no to the whole task this often before it counts: the arm may be in the way."""
WIDTH = 160
"""Pictures are compared at this width at most, which also smooths camera noise."""
LEVEL = 20
"""Grey levels (of 255) by which a pixel must differ to count."""
THIN = 3
"""Differences fewer pixels wide do not count, such as edges that a drawn picture has slightly elsewhere
(dev/LOG.md, 2026-11-26)."""
type SmallPixels = NDArray[np.int16]
type Decision = Literal["wait", "ask", "stalled"]
PROGRESS = 0.05
"""Gain in closeness that counts as progress. A view whose closeness changes by no more is at rest."""
REST_SECONDS = 1.0
"""Seconds at rest after which the Critic is asked, however far the view is from the goal. A drawn picture is
never matched exactly, and most of a small change may be hidden."""
CUE_SECONDS = 10.0
"""Seconds after which the Critic is asked against a cue: labelled episodes may miss the end of a step."""


@dataclass(frozen=True)
class StepEnd:
    """The end of a step, and the step `index` to go to: the next one, any (`active`), or one to plan anew."""

    kind: Literal["completed", "skipped", "active", "replan"]
    index: int
    frame: Frame | None = None
    """The scene at that moment, if a frame was read."""
    reason: str = ""
    by_operator: bool = False
    verdict: Verdict | None = None
    """The critic's yes to the task as a whole, which ends the task."""


class Follower:
    """Watches the live view while the policy has the goal of one step, and asks the critic about it.

    A pause, or a lost camera, takes the goal from the policy; an answer about what was seen before counts for
    nothing then.
    """

    def __init__(self, index: int, live: LiveTask, caller: ModelCaller) -> None:
        self.closeness = math.nan
        self.message = ""
        self._index = index
        self._live, self._settings, self._camera = live, live.settings, live.camera
        self._caller = caller
        self._clock = live.camera.clock
        self._start_time = self._clock()
        self._reason: GoalReason | None = None
        """The reason of the goal as it was published last; None where that is to be done."""
        self._question: asyncio.Task[Verdict | Failure] | None = None
        self._question_frame: Frame | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._start_time

    @property
    def _panel(self) -> StepPanel:
        return self._live.board.steps[self._index]

    async def run(self) -> StepEnd:
        """Follow until the end of the step; TaskEnded is the end of the task."""
        try:
            while (end := self._take_order() or self._watch()) is None:
                await self._live.wait(1 / self._settings.track_rate)
            return end
        finally:
            self._drop_question()

    def _take_order(self) -> StepEnd | None:
        if (order := self._live.take_order()) is None:
            return None
        if order.kind == "replan":
            return StepEnd("replan", self._index, reason=order.reason, by_operator=True)
        if order.kind == "active":
            return StepEnd("active", order.index, self._camera.fresh_frame(), by_operator=True)
        if order.index != self._index:
            return None
        return StepEnd(order.kind, self._index + 1, self._camera.fresh_frame(), by_operator=True)

    def _watch(self) -> StepEnd | None:
        if self._live.paused:
            self._hold()
            return None
        if self._live.board.state == "paused":
            self._live.update(state="executing")
        if not self._may_show():
            return self._prepare()
        if self._reason is None:
            self._camera.restart_timeout()
        frame, self.message = self._poll()
        if self._reason != self._camera.goal_reason:
            self._publish(self._camera.goal_reason)
        return None if frame is None else self._look(frame)

    def _hold(self) -> None:
        if self._live.board.state != "paused":
            self._live.update(state="paused")
            self._live.publish_goal(self._panel, "paused")
            self.message = "paused"
            self._drop_question()
        self._reason = None

    def _publish(self, reason: GoalReason) -> None:
        self._reason = reason
        if reason != "active":
            self._drop_question()
        self._live.publish_goal(self._panel, reason)

    def _may_show(self) -> bool:
        """True if the policy may have the goal."""
        panel = self._panel
        is_final = panel.picture_is_final and panel.image_status != "failed"
        return is_final and not (self._settings.require_verified and self._live.board.doubt(panel))

    def _ask(self, candidate: Candidate, frame: Frame) -> None:
        self._question_frame = frame
        self._question = asyncio.create_task(self._caller.judge_live(candidate), name="goalreel-tracking")
        self._question.add_done_callback(lambda _: self._live.wake())

    def _take_answer(self) -> Verdict | Failure | None:
        if self._question is None:
            return None
        if not self._question.done():
            if problem := self._caller.retry_reason("judge"):
                self._note(Failure(stage="judge", message=problem))
            return None
        answer, self._question = self._question.result(), None
        self._note(answer if isinstance(answer, Failure) else None)
        return answer

    def _note(self, failure: Failure | None) -> None:
        if failure != self._live.board.critic_failure:
            self._live.update(critic_failure=failure)

    def _drop_question(self) -> None:
        if self._question is not None:
            self._question.cancel()
            self._question = None

    # -- what differs

    def _poll(self) -> tuple[Frame | None, str]:
        return self._camera.poll(steady=True)

    def _prepare(self) -> StepEnd | None:
        """Do what comes before the goal may be shown."""
        raise NotImplementedError

    def _look(self, frame: Frame) -> StepEnd | None:
        raise NotImplementedError


class StepFollower(Follower):
    """Gives the policy a goal once it and as many after it as `ahead` says are rendered, then follows it."""

    def __init__(
        self, index: int, live: LiveTask, caller: ModelCaller, renderer: Renderer, ahead: int
    ) -> None:
        super().__init__(index, live, caller)
        self._renderer, self._ahead = renderer, ahead
        self._doubt_time: float | None = None
        """Time at which this goal was held back; None where it is not."""
        self._first_frame: Frame | None = None
        self._closeness: Closeness | None = None
        self._tracker = Tracker(live.settings, self._start_time)

    def _may_show(self) -> bool:
        return super()._may_show() and not self._waits_for_more()

    def _waits_for_more(self) -> bool:
        """True while goals after this one are to be rendered first."""
        more = self._live.board.steps[self._index + 1 : self._index + 1 + self._ahead]
        return self._renderer.at_work and not all(p.picture_is_final for p in more)

    def _prepare(self) -> StepEnd | None:
        panel = self._panel
        if panel.picture_is_final and panel.image_status != "failed" and not self._waits_for_more():
            return self._hold_back(panel, self._live.board.doubt(panel))
        self.message = "rendering the goal image"
        if self._live.goal_reason == "paused":
            self._live.publish_goal(panel, "planning")
        self._renderer.check()
        return None

    def _hold_back(self, panel: StepPanel, doubt: str) -> StepEnd | None:
        """Keep a goal that is not verified from the policy; in the end, ask for a new plan."""
        now, limit = self._clock(), self._settings.stall_timeout
        if self._doubt_time is None:
            self._doubt_time = now
            self._live.publish_goal(panel, "holding")
        rest = self._doubt_time + limit - now
        reason = f"the goal is not verified (require_verified): {doubt}"
        self.message = f"{reason}; set_active_step goes on, or a re-plan in {max(0.0, rest):.0f} s"
        return StepEnd("replan", self._index, reason=reason) if rest <= 0 else None

    def _hold(self) -> None:
        super()._hold()
        self._doubt_time = None

    def _publish(self, reason: GoalReason) -> None:
        self._tracker.restart(self._clock())
        self._ahead = 0
        super()._publish(reason)

    def _look(self, frame: Frame) -> StepEnd | None:
        goal = self._panel.goal_image
        if self._first_frame is None:
            self._first_frame = frame
            self._closeness = None if goal is None else Closeness(frame.image, goal)
        if self._closeness is not None:
            self.closeness = self._closeness.measure(frame.image)
        if (answer := self._take_answer()) is not None and self._is_reached(answer):
            return StepEnd("completed", self._index + 1, self._question_frame)
        if self._question is not None:
            self.message = "asking the critic"
            return None
        return self._decide(frame)

    def _is_reached(self, answer: Verdict | Failure) -> bool:
        if isinstance(answer, Verdict):
            return answer.success
        if self._settings.on_model_failure == "fail" and answer.reply is None:
            raise end_from_failure(answer)
        self._tracker.forget_question()
        return False

    def _decide(self, frame: Frame) -> StepEnd | None:
        now = self._clock()
        if (reason := self._caller.unavailable_reason("judge")) is not None:
            # Nobody can say whether the step is reached, and a new plan would not change that.
            self._tracker.restart(now)
            self.message = f"the critic cannot be asked, set_active_step goes on: {reason}"
            return None
        match self._tracker.decide(now, self.closeness, self._live.is_left(self._index)):
            case "ask":
                self._ask(self._candidate(frame.image), frame)
            case "stalled":
                return StepEnd(
                    "replan", self._index, frame, f"no progress for {self._settings.stall_timeout:g} s"
                )
            case "wait" if not math.isnan(self.closeness):
                self.message = f"{max(0.0, self.closeness):.0%} of the visible change"
        return None

    def _candidate(self, image: Image) -> Candidate:
        step = self._panel.step
        return Candidate(
            task_id=self._live.board.id.hex,
            step=self._index,
            source=self._first_frame.image if self._first_frame is not None else None,
            image=image,
            instruction=step.instruction,
            prompt=step.prompt or step.instruction,
            first_prompt=step.prompt,
        )


class TaskFollower(Follower):
    """Asks the critic on live frames whether the task is done: each step may have been accepted wrongly.

    The policy keeps the last goal meanwhile. An operator may go back to a step, or have the rest planned.
    It ends with a `verdict`, or by a TaskEnded: UNCONFIRMED where the task is too long, the critic says no or
    cannot be asked, or there is no frame; the model's own code where `on_model_failure` is "fail".
    """

    def __init__(self, live: LiveTask, caller: ModelCaller, first_image: Image) -> None:
        super().__init__(len(live.board.steps), live, caller)
        self.message = "asking the critic about the task as a whole"
        self._first_image = first_image
        self._reason = live.goal_reason
        self._has_goal = live.goal_reason in ("active", "stale", "blind")
        """False where an operator ended the last step before the policy had its goal, or in a pause."""
        self._asked, self._next_time = 0, -math.inf
        self._can_judge = asyncio.create_task(caller.confirms(live.preset, self._index))

    @property
    def _panel(self) -> StepPanel:
        return self._live.board.steps[-1]

    def _watch(self) -> StepEnd | None:
        if self._can_judge.done() and not self._can_judge.result():
            raise _unconfirmed(f"it cannot judge one of {self._index} steps (confirm_steps)")
        return super()._watch()

    def _may_show(self) -> bool:
        return self._has_goal and super()._may_show()

    def _prepare(self) -> StepEnd | None:
        frame, self.message = self._poll()
        if frame is None:
            self._drop_question()
            return None
        return self._look(frame)  # all the same

    def _poll(self) -> tuple[Frame | None, str]:
        try:
            return super()._poll()
        except TaskEnded as e:
            raise _unconfirmed(e.message) from None

    def _look(self, frame: Frame) -> StepEnd | None:
        self.message = "asking the critic about the task as a whole"
        now = self._clock()
        if (answer := self._take_answer()) is not None:
            if isinstance(answer, Verdict) and answer.success:
                return StepEnd("completed", self._index, frame, verdict=answer)
            self._asked += 1
            if self._asked == MAX_QUESTIONS or (isinstance(answer, Failure) and answer.reply is None):
                raise self._refusal(answer)
            self._next_time = now + self._settings.critic_period
        if self._question is None and now >= self._next_time and self._can_judge.done():
            self._ask(self._candidate(frame.image), frame)
        return None

    def _candidate(self, image: Image) -> Candidate:
        board = self._live.board
        done = [panel.step.instruction for panel in board.steps if panel.status == "completed"]
        return Candidate(
            task_id=board.id.hex,
            step=len(board.steps),
            source=self._first_image,
            image=image,
            instruction=loop.whole_state(board.task, done),
            prompt=board.task,
        )

    def _refusal(self, answer: Verdict | Failure) -> TaskEnded:
        if isinstance(answer, Verdict):
            return _unconfirmed(wording.reader_text(answer.reasoning), answer)
        if self._settings.on_model_failure == "fail":
            return end_from_failure(answer)
        return _unconfirmed(f"it could not be asked: {answer.message}")


def _unconfirmed(reason: str, verdict: Verdict | None = None) -> TaskEnded:
    line = reason.strip().splitlines()[0] if reason.strip() else "it gives no reason"
    return TaskEnded(
        ErrorCode.UNCONFIRMED,
        f"every step has ended, but the critic does not confirm the task: {line}",
        verdict,
    )


def shrink(image: Image, size: tuple[int, int] | None = None) -> SmallPixels:
    """Make the picture for comparison, (h, w, 3): of `size` (w, h), or at most WIDTH pixels wide."""
    if size is None:
        width = min(WIDTH, image.size[0])
        size = width, max(1, round(image.size[1] * width / image.size[0]))
    small = cv2.resize(image.pixels, size, interpolation=cv2.INTER_AREA)
    return cv2.GaussianBlur(small, (0, 0), 1.0).astype(np.int16)


def changed_share(first: Image, second: Image) -> float:
    """Measure the share of the picture, 0-1, that differs, apart from brightness, at the size of `first`."""
    return _share(shrink(first), second)


def _share(a: SmallPixels, other: Image) -> float:
    """Share of the pixels, 0-1, in which a picture differs, without thin differences."""
    differs = differing(a, shrink(other, (a.shape[1], a.shape[0])), LEVEL).astype(np.uint8)
    return float(cv2.morphologyEx(differs, cv2.MORPH_OPEN, np.ones((THIN, THIN), np.uint8)).mean())


class Closeness:
    """Places a live view between a start (0) and a goal (1).

    Below 0 the view is farther from the goal than the start is. NaN where start and goal look the same.
    """

    def __init__(self, start: Image, goal: Image) -> None:
        self._goal = shrink(goal)
        self._distance = _share(self._goal, start)

    def measure(self, live: Image) -> float:
        """Measure one live view."""
        return 1 - _share(self._goal, live) / self._distance if self._distance else math.nan


class Tracker:
    """Follows one sub-goal. Times are in seconds of any steady clock."""

    def __init__(self, settings: EngineSettings, now: float) -> None:
        self._settings = settings
        self._question_time: float | None = None
        self.restart(now)

    def restart(self, now: float) -> None:
        """Count time from now, as after a pause."""
        self._start = now
        self._best = -math.inf
        self._best_time = now
        self._final_question = False
        self._rest, self._rest_time = math.nan, now
        self._question_closeness = 0.0

    def decide(self, now: float, closeness: float, cue: bool | None = None) -> Decision:
        """Decide what to do about a live view of this closeness, which may be NaN.

        `cue` says that the step seems done, or not yet; None says nothing.
        """
        s = self._settings
        if closeness > self._best + PROGRESS:
            self._best, self._best_time, self._final_question = closeness, now, False
        if not abs(closeness - self._rest) <= PROGRESS:
            self._rest, self._rest_time = closeness, now
        may_ask = self._question_time is None or now - self._question_time >= s.critic_period
        if now - self._best_time >= s.stall_timeout:
            if self._final_question:
                return "stalled"
            # A goal image that is slightly wrong may never be matched: the Critic decides.
            return self._ask(now, final=True) if may_ask else "wait"
        rests = now - self._rest_time >= REST_SECONDS
        is_new = abs(self._rest - self._question_closeness) > PROGRESS
        seems_done = (rests and is_new) or not closeness < s.gate
        if cue is not None:
            waits = now - max(self._start, self._question_time or -math.inf)
            seems_done = cue or (seems_done and waits >= CUE_SECONDS)
        return self._ask(now, final=False) if may_ask and seems_done else "wait"

    def forget_question(self) -> None:
        """Forget the last question, which got no verdict: it is asked again about a view still at rest."""
        self._question_closeness = 0.0

    def _ask(self, now: float, *, final: bool) -> Decision:
        self._question_time, self._question_closeness, self._final_question = now, self._rest, final
        return "ask"
