"""One task from its first frame to its end: plan, render ahead, stream sub-goals, re-plan, check the end.

Everything here runs on one event loop; the models run elsewhere (`goalreel.streaming.model_caller`).
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from goalreel.image import Image
from goalreel.streaming.board import BoardProgress, CodedText, ErrorCode, Frame, GoalReason, StepPanel
from goalreel.streaming.follower import Follower, StepEnd, StepFollower, TaskFollower, changed_share
from goalreel.streaming.live_task import LiveTask
from goalreel.streaming.model_caller import ModelCaller
from goalreel.streaming.renderer import Renderer
from goalreel.streaming.request import TaskEnded, TaskOutcome, Ticket, attempts_of, end_from_failure
from goalreel.types import ROLE_OF_STAGE, Plan, ReplanContext, Step, Storyboard, StoryboardStep, Task, Verdict

_POLL_SECONDS = 0.02
"""Seconds between two looks at the camera."""
_SLOW_CALL_SECONDS = 1.0
"""A model call that takes longer is mentioned in the progress message."""
NOT_CHECKED = "every step has ended; nobody checked the end against the whole task (`confirm`)"
"""The message of a task that ends by its steps alone."""


class Session:
    """Carries one request out: `run` gives a TaskOutcome whatever a model or the camera does.

    Where its coroutine ends in another way, the caller calls `end`.
    """

    def __init__(
        self,
        ticket: Ticket,
        live: LiveTask,
        models: Callable[[], Awaitable[ModelCaller]],
        loading: Callable[[], str],
    ) -> None:
        """`models` waits for the models, and `loading` says which of them is being loaded."""
        self.ticket, self.live = ticket, live
        self.coroutine: asyncio.Task[TaskOutcome]
        """It runs this session."""
        self.reason: CodedText = (ErrorCode.CANCELED, "cancelled")
        """The reason why it is stopped."""
        self._request, self._settings = live.request, live.settings
        self._models, self._loading = models, loading
        self._clock = live.camera.clock
        self._start_time, self._planning_time = self._clock(), 0.0
        self._replans, self._message = 0, ""
        self._verdict: Verdict | None = None
        self._first_image: Image | None = None
        self._caller: ModelCaller | None = None
        self._renderer: Renderer
        self._follower: Follower | None = None

    async def run(self) -> TaskOutcome:
        """Carry the request out, from its first frame to its outcome."""
        timeout = self._request.timeout or self._settings.task_timeout
        limit = None if timeout is None or timeout < 0 else asyncio.create_task(self._stop_after(timeout))
        try:
            await self._work()
        except TaskEnded as e:
            self._verdict = e.verdict
            return self.end(e.error, e.message)
        except asyncio.CancelledError:
            return self.end(*self.reason)
        finally:
            if limit is not None:
                limit.cancel()
        return self.end(*self._end_of_steps())

    async def _stop_after(self, timeout: float) -> None:
        while (rest := self._start_time + timeout - self._clock()) > 0:
            await asyncio.sleep(min(rest, 0.1))  # the clock may be a simulator's
        self.stop(ErrorCode.TIMEOUT, f"not done within {timeout:g} s")

    def stop(self, error: ErrorCode, message: str) -> None:
        """End it with that code."""
        self.reason = error, message
        self.coroutine.cancel()

    @property
    def confirms(self) -> bool:
        """True while the critic is asked about the task as a whole. Safe from any thread."""
        return isinstance(self._follower, TaskFollower)

    def progress(self) -> BoardProgress:
        """Give the progress at this moment. Safe from any thread."""
        board, follower = self.live.board, self._follower
        pause = "paused" if self.live.paused and follower is None else ""
        message = self._message if follower is None else follower.message
        message = "; ".join(filter(None, (pause, message, self._loading(), *self.waits(_SLOW_CALL_SECONDS))))
        closeness, elapsed = (math.nan, 0.0) if follower is None else (follower.closeness, follower.elapsed)
        return BoardProgress(board, closeness, elapsed, self._replans, message)

    def waits(self, seconds: float = 0.0) -> Sequence[str]:
        """Say what is waited for: model calls of more than `seconds`, and models that failed."""
        caller = self._caller
        return () if caller is None else caller.describe_waits(self.live.board.models, seconds)

    # -- making the storyboard

    async def _work(self) -> None:
        live = self.live
        has_plan = bool(live.board.steps)
        live.hold(None, "planning")
        if not has_plan:
            live.update(source=await self._first_frame())
        live.report_phase("loading_models")
        self._message = ""
        self._caller = caller = await self._models()
        caller.forget_failures()
        caller.timeout = self._settings.model_timeout
        self._renderer = Renderer(live, caller)
        try:
            if not has_plan:
                await self._plan(caller)
            if live.executes:
                await self._execute(caller)
            elif not all(panel.picture_is_final for panel in live.board.steps):
                self._message = "rendering"
                await self._renderer.run(self._task(self._source.image), 0, self._source)
        finally:
            self._renderer.cancel()

    async def _first_frame(self) -> Frame:
        if (image := self._request.image) is not None:
            small = image.within(self._settings.max_image_side)
            return Frame(small, self.live.now(), full_size=image.size)
        self.live.update(state="planning")
        self.live.report_phase("waiting_for_image")
        self._message = "waiting for a camera frame"
        return await self._wait_for_frame(None, "planning")

    async def _wait_for_frame(self, panel: StepPanel | None, reason: GoalReason) -> Frame:
        """Wait for a fresh frame, in a pause without a limit. The policy holds meanwhile, for a `reason`."""
        live, camera = self.live, self.live.camera
        camera.restart_timeout()
        while (frame := camera.fresh_frame() if live.paused else camera.poll()[0]) is None:
            if live.paused:
                camera.restart_timeout()
            live.hold(panel, camera.goal_reason)
            await asyncio.sleep(_POLL_SECONDS)
        if frame.frame_id != live.board.frame_id:
            live.update(camera_frame=frame.frame_id)
        live.hold(panel, reason)
        return frame

    async def _plan(self, caller: ModelCaller) -> None:
        self.live.update(state="planning")
        self.live.report_phase("planning")
        self._message = "planning"
        self._first_image = self._source.image
        start = time.monotonic()
        plan = await caller.ask(self._task(self._first_image))
        self._planning_time = time.monotonic() - start
        if isinstance(plan, Plan):
            self.live.update(state="rendering", steps=self._panels(plan.steps))
            return
        if self._settings.on_model_failure == "fail" or plan.reply is not None:
            raise end_from_failure(plan)
        # The task itself stands in for a plan, in words.
        task = self._request.task
        (panel,) = self._panels([Step(name=task, instruction=task, prompt=None, auxiliary_text=task)])
        panel = replace(panel, image_status="unjudged", created=self.live.now(), written_by="person")
        self.live.update(state="rendering", steps=(panel,), planner_failure=plan)

    def _panels(self, steps: Sequence[Step], previous: tuple[StepPanel, ...] = ()) -> tuple[StepPanel, ...]:
        """Give the previous panels, and one for each planned step. A TaskEnded says that it has too many."""
        request, preset = self._request, self.live.preset
        limit = preset.max_steps if request.max_steps < 0 else request.max_steps
        if len(steps) > limit:
            raise TaskEnded(
                ErrorCode.PLANNER_FAILED, f"the plan has {len(steps)} steps, {limit} are allowed (max_steps)"
            )
        attempts = attempts_of(request.max_attempts, preset)
        numbered = enumerate(steps, len(previous))
        return (*previous, *(StepPanel(i, StoryboardStep(step=step), attempts) for i, step in numbered))

    def _task(self, image: Image | None) -> Task:
        text = "\n".join(t for t in (self._request.task, self._request.auxiliary_text.strip()) if t)
        return Task(id=self.live.board.id.hex, instruction=text, image=image, seed=self._settings.seed)

    @property
    def _source(self) -> Frame:
        assert self.live.board.source is not None
        return self.live.board.source

    # -- executing it

    async def _execute(self, caller: ModelCaller) -> None:
        live = self.live
        live.update(state="executing")
        if any(not p.picture_is_final for p in live.board.steps):
            await self._renderer.start(self._task(self._source.image), 0, self._source)
        index, goals_ahead = 0, self._settings.goals_ahead
        first = await self._wait_for_frame(None, "planning")
        scene: Frame | None = first
        if self._request.storyboard is not None:  # made in another size, and perhaps without sight of a scene
            live.update(steps=tuple(panel.in_size(first.size) for panel in live.board.steps))
            self._first_image = first.image
        await live.enter_step(0, anew=True)
        while live.preset.confirm or index < len(live.board.steps):
            if index == len(live.board.steps):
                self._follower = TaskFollower(live, caller, first.image)
            else:
                await self._enter(index, scene)
                self._follower = StepFollower(index, live, caller, self._renderer, goals_ahead)
            end = await self._follower.run()
            if end.verdict is not None:
                self._verdict = end.verdict
                return
            if end.kind == "replan":
                scene = await self._replan(caller, index, end)
                goals_ahead = self._settings.goals_ahead
                await live.enter_step(index, anew=True)
            else:
                by = "operator" if end.by_operator else "critic"
                live.update(steps=live.board.leave_step(index, end.kind, end.index, live.now(), by))
                index, scene, goals_ahead = end.index, end.frame, 0
                await live.enter_step(index, anew=end.by_operator)

    async def _enter(self, index: int, scene: Frame | None) -> None:
        """Make a step the active one, and render its goal again where the scene is not as predicted."""
        predicted = self.live.board.predicted_before(index)
        if predicted is not None and scene is not None and self.live.board.steps[index].has_picture:
            difference = await asyncio.to_thread(changed_share, predicted, scene.image)
            if difference > self._settings.rerender:
                await self._renderer.start(self._task(scene.image), index, scene)
        panel = replace(self.live.board.steps[index], status="active", started=self.live.now(), ended=0)
        self.live.put_panel(panel)
        if not panel.picture_is_final:
            self.live.publish_goal(panel, "planning")

    async def _replan(self, caller: ModelCaller, index: int, end: StepEnd) -> Frame:
        """Plan step `index` and what follows again, from the live scene."""
        live, settings = self.live, self._settings
        limit = self._request.max_replans if self._request.max_replans >= 0 else settings.max_replans
        if self._replans >= limit and not end.by_operator:
            raise TaskEnded(
                ErrorCode.REPLANS_EXHAUSTED, f"{end.reason}, and the limit of {limit} re-plans is reached"
            )
        self._replans += 1
        self._follower = None
        self._message = f"re-planning: {end.reason}"
        await self._renderer.stop()
        board = live.board
        panel = board.steps[min(index, len(board.steps) - 1)]
        live.hold(panel, "replanning")
        live.update(state="planning")
        frame = await self._wait_for_frame(panel, "replanning")
        if end.by_operator:
            caller.forget_failures()
        plan = await caller.replan(ReplanContext(self._storyboard(), index, frame.image))
        if isinstance(plan, Plan):
            panels, failure = self._panels(plan.steps, board.steps[:index]), None
        elif settings.on_model_failure == "fail":
            raise end_from_failure(plan)
        else:  # as they were planned, where nobody can plan anew
            panels = self._panels([panel.step for panel in board.steps[index:]], board.steps[:index])
            panels = tuple(
                replace(panel, written_by=before.written_by, what=before.what)
                for panel, before in zip(panels, board.steps, strict=True)
            )
            failure = plan
        revision = board.revision + 1
        live.update(state="executing", revision=revision, source=frame, steps=panels, planner_failure=failure)
        await self._renderer.start(self._task(frame.image), index, frame)
        return frame

    def _storyboard(self) -> Storyboard:
        """Give the board in the form that the agents know."""
        steps = tuple(panel.shown(self._settings.max_image_side) for panel in self.live.board.steps)
        return Storyboard(task=self._task(self._first_image or self._source.image), steps=steps)

    # -- the end

    def _end_of_steps(self) -> CodedText:
        """Say how a task ends whose steps are all done: UNCONFIRMED where a model failed without a stand-in.

        A robot reaches the steps without an editor, but nobody else stands in for planner and critic.
        """
        board, executes = self.live.board, self.live.executes
        if self._verdict is not None:
            return ErrorCode.NONE, board.degraded
        failed = {ROLE_OF_STAGE[failure.stage] for failure in board.failures}
        if failed & {"planner", "critic"} if executes else failed:
            return ErrorCode.UNCONFIRMED, board.degraded
        not_checked = NOT_CHECKED if executes else board.unaccepted
        return ErrorCode.NONE, "; ".join(filter(None, (not_checked, board.degraded)))

    def end(self, error: ErrorCode, message: str) -> TaskOutcome:
        """Publish the end on the board and to the policy, and give the outcome."""
        self._follower = self._caller = None
        self._message = message
        self.live.end(error)
        times = self._planning_time, self._clock() - self._start_time
        return TaskOutcome(self.live.board, error, message, self._replans, *times, self._verdict)
