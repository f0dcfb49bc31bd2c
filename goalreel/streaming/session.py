"""One task from its first frame to its end: plan, render ahead, stream sub-goals, re-plan.

Everything here runs on one event loop; models run elsewhere (`goalreel.streaming.model_caller`).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from goalreel.image import Image
from goalreel.models.presets import Preset
from goalreel.planners.agents.replan import ReplanContext
from goalreel.streaming.board import BoardProgress, BoardState, CodedText, ErrorCode, Frame, StepPanel
from goalreel.streaming.camera import LiveCamera
from goalreel.streaming.closeness import changed
from goalreel.streaming.final_check import confirm
from goalreel.streaming.live_board import LiveBoard
from goalreel.streaming.model_caller import Caller, Waiting
from goalreel.streaming.operator_commands import Orders
from goalreel.streaming.renderer import Renderer
from goalreel.streaming.request import TaskOutcome, TaskRequest
from goalreel.streaming.settings import EngineSettings
from goalreel.streaming.step_follower import StepFollower, Turn
from goalreel.streaming.task_end import TaskEnded, in_one_step, of_failure
from goalreel.types import Failure, Plan, Storyboard, Task, Verdict

ENDS: dict[ErrorCode, BoardState] = {
    ErrorCode.NONE: "succeeded",
    ErrorCode.CANCELED: "canceled",
    ErrorCode.PREEMPTED: "canceled",
    ErrorCode.UNVERIFIED: "unverified",
}
WORTH_SAYING = 1.0
"""Seconds after which a model's answer counts as waited for."""


class Session:
    """Carries one request out. `settings` are complete (see `names.completed`).

    `models` waits for the models, and `loading` says which is being loaded.

    `run` gives a TaskOutcome, whatever a model or the camera does. To stop it, put into `reason` what that
    shall be called and cancel the coroutine that runs it. When that ends otherwise, `end` is the caller's.
    """

    def __init__(
        self,
        request: TaskRequest,
        settings: EngineSettings,
        preset: Preset,
        live: LiveBoard,
        camera: LiveCamera,
        models: Callable[[], Awaitable[Caller]],
        loading: Callable[[], str],
        orders: Orders,
    ) -> None:
        self.reason: CodedText = (ErrorCode.CANCELED, "cancelled")
        self.replans = 0
        self._request = request
        self._settings = settings
        self._preset = preset
        self._live = live
        self._camera = camera
        self._models, self._loading = models, loading
        self._orders = orders
        self._began = time.monotonic()
        self._planning_time = 0.0
        self._message = ""
        self._verdict: Verdict | None = None
        self._first: Image | None = None
        self._caller: Caller
        self._waiting: Callable[[], Sequence[Waiting]] = tuple
        self._renderer: Renderer
        self._rendering: asyncio.Task[None] | None = None
        self._follower: StepFollower | None = None

    @property
    def executes(self) -> bool:
        """Whether a policy is led through the storyboard, once it is made."""
        return self._request.kind == "annotate"

    async def run(self) -> TaskOutcome:
        """Carry the request out, from its first frame to its outcome."""
        timeout = self._request.timeout or self._settings.task_timeout
        try:
            async with asyncio.timeout(timeout):
                await self._work()
        except TaskEnded as e:
            self._verdict = e.verdict
            return self.end(e.error, e.message)
        except TimeoutError:
            return self.end(ErrorCode.TIMEOUT, f"not done within {timeout or 0:g} s")
        except asyncio.CancelledError:
            return self.end(*self.reason)
        finally:
            if self._rendering is not None:
                self._rendering.cancel()
        return self.end(ErrorCode.NONE, "")

    def progress(self) -> BoardProgress:
        """Say how it goes at this moment. Any thread may ask."""
        board, follower = self._live.board, self._follower
        if follower is None:
            return BoardProgress(board, replans=self.replans, message=self._waits_for(self._message))
        message = self._waits_for(follower.message)
        return BoardProgress(board, follower.closeness, follower.elapsed, self.replans, message)

    def _waits_for(self, message: str) -> str:
        """The message, and which model has been waited for long enough to be worth saying."""
        long_ago, names = time.monotonic() - WORTH_SAYING, self._live.board.models
        waits = (w.said(names) for w in self._waiting() if w.since < long_ago)
        return "; ".join(filter(None, (message, self._loading(), *waits)))

    # -- making the storyboard

    async def _work(self) -> None:
        planned = bool(self._live.board.steps)
        if not planned:
            self._live.update(source=await self._first_frame())
        self._live.phase("loading_models")
        self._say("")
        self._caller = await self._models()
        self._waiting = self._caller.waiting
        self._caller.timeout = self._settings.model_timeout
        self._renderer = Renderer(self._live, self._caller, self._settings, self._preset.keep)
        if not planned:
            await self._plan()
        if self.executes:
            await self._execute()
        else:
            await self._render_all()

    async def _first_frame(self) -> Frame:
        if self._request.image is not None:
            image = self._request.image
            small = image.within(self._settings.max_image_side)
            return Frame(small, self._live.now(), full_size=image.size)
        self._live.update(state="planning")
        self._live.phase("waiting_for_image")
        self._say("waiting for a camera frame")
        return await self._camera.wait()

    async def _plan(self) -> None:
        self._live.update(state="planning")
        self._live.phase("planning")
        self._say("planning")
        self._first = self._source.image
        began = time.monotonic()
        plan = await self._caller.ask(self._task(self._first))
        self._planning_time = time.monotonic() - began
        if not isinstance(plan, Plan):
            plan = in_one_step(plan, self._request.task, self._settings)
        self._live.update(state="rendering", steps=self._panels(plan, ()))

    def _panels(self, plan: Plan, before: tuple[StepPanel, ...]) -> tuple[StepPanel, ...]:
        limit = self._request.max_steps or self._preset.max_steps
        if len(plan.steps) > limit:
            text = f"the plan has {len(plan.steps)} steps, {limit} are allowed (max_steps)"
            raise TaskEnded(ErrorCode.PLANNER_FAILED, text)
        attempts = self._request.max_attempts or self._preset.max_attempts
        steps = enumerate(plan.steps, len(before))
        return (*before, *(StepPanel(index, step, attempts) for index, step in steps))

    def _task(self, image: Image | None) -> Task:
        text = "\n".join(t for t in (self._request.task, self._request.auxiliary_text.strip()) if t)
        return Task(id=self._live.board.id.hex, instruction=text, image=image, seed=self._settings.seed)

    @property
    def _source(self) -> Frame:
        assert self._live.board.source is not None
        return self._live.board.source

    async def _render_all(self) -> None:
        self._say("rendering")
        if self._request.text_only:
            self._renderer.in_words()
        else:
            source = self._source
            await self._renderer.run(self._task(source.image), 0, source)

    # -- executing it

    async def _execute(self) -> None:
        steps = self._live.board.steps
        self._live.update(state="executing")
        if any(not p.rendered for p in steps):
            await self._render_ahead(0, self._source)
        index = 0
        scene: Frame | None
        scene = before = await self._camera.wait()
        while index < len(self._live.board.steps):
            await self._enter(index, scene)
            self._follower = self._follow(index)
            turn = await self._follower.run()
            if turn.kind == "replan":
                scene = await self._replan(index, turn)
            else:
                self._leave(index, turn)
                index, scene = turn.index, turn.frame
        if self._preset.confirm:
            self._verdict = await self._confirm(before.image)

    async def _confirm(self, before: Image) -> Verdict:
        self._follower = None
        self._say("asking the critic about the task as a whole")
        return await confirm(self._live.board, before, self._camera, self._caller, self._settings)

    def _follow(self, index: int) -> StepFollower:
        live, camera, caller = self._live, self._camera, self._caller
        return StepFollower(index, live, camera, caller, self._settings, self._orders, self._rendering)

    async def _enter(self, index: int, scene: Frame | None) -> None:
        """Make a step the active one. Its goal is rendered again where the scene is not as predicted."""
        predicted = self._live.board.predicted(index)
        if predicted is not None and scene is not None and self._live.board.steps[index].pictured:
            difference = await asyncio.to_thread(changed, predicted, scene.image)
            if difference > self._settings.rerender:
                await self._render_ahead(index, scene)
        panel = replace(self._live.board.steps[index], status="active", started=self._live.now(), ended=0)
        self._live.put(panel)
        if not panel.rendered:
            self._live.goal(panel, active=False)

    def _leave(self, index: int, turn: Turn) -> None:
        now, steps = self._live.now(), list(self._live.board.steps)
        if turn.kind == "active":  # what is jumped over is skipped, what follows is still to be done
            for i in range(min(index, turn.index), len(steps)):
                over = i < turn.index
                steps[i] = replace(
                    steps[i], status="skipped" if over else "pending", ended=now if over else 0
                )
        else:
            steps[index] = replace(steps[index], status=turn.kind, ended=now)
        self._live.update(steps=tuple(steps))

    async def _render_ahead(self, first: int, source: Frame) -> None:
        """Render from step `first` on; what was under way is dropped."""
        await self._stop_rendering()
        steps = self._live.board.steps
        fresh = (replace(p, image_status="none", attempts=0, attempt=None, created=0) for p in steps[first:])
        self._live.update(steps=(*steps[:first], *fresh))
        if self._request.text_only:
            self._renderer.in_words()
            return
        work = self._renderer.run(self._task(source.image), first, source)
        self._rendering = asyncio.create_task(work, name="goalreel-rendering")
        self._rendering.add_done_callback(self._rendered)

    def _rendered(self, rendering: asyncio.Task[None]) -> None:
        if not rendering.cancelled():
            rendering.exception()  # told when its step is due (`StepFollower`), not before
        self._orders.wake()

    async def _stop_rendering(self) -> None:
        if self._rendering is not None:
            self._rendering.cancel()
            await asyncio.wait([self._rendering])

    async def _replan(self, index: int, turn: Turn) -> Frame:
        """A new plan for step `index` and what follows, from the scene as it is."""
        limit = self._request.max_replans or self._settings.max_replans
        if self.replans >= limit and not turn.ordered:
            raise TaskEnded(ErrorCode.REPLANS_EXHAUSTED, f"{turn.why}, and {limit} re-plans are spent")
        self.replans += 1
        self._follower = None
        self._say(f"re-planning: {turn.why}")
        await self._stop_rendering()
        board = self._live.board
        self._live.goal(board.steps[index], active=False)
        self._live.update(state="planning")
        frame = await self._camera.wait()
        plan = await self._caller.replan(ReplanContext(self._storyboard(), index, frame.image))
        if isinstance(plan, Failure):
            if self._settings.on_model_failure == "fail":
                raise of_failure(plan)
            plan = Plan(steps=tuple(p.step for p in board.steps[index:]))
        steps = self._panels(plan, board.steps[:index])
        self._live.update(state="executing", revision=board.revision + 1, source=frame, steps=steps)
        await self._render_ahead(index, frame)
        return frame

    def _storyboard(self) -> Storyboard:
        """The board as the agents know it."""
        longest = self._settings.max_image_side
        steps = tuple(p.as_step(longest) for p in self._live.board.steps)
        return Storyboard(task=self._task(self._first or self._source.image), steps=steps)

    # -- the end

    def end(self, error: ErrorCode, message: str) -> TaskOutcome:
        """Say on the board and to the policy that it is over."""
        self._follower = None
        self._say(message)
        active = self._live.board.active
        if active is not None:
            status = "failed" if ENDS.get(error, "failed") == "failed" else "pending"
            self._live.put(replace(active, status=status, ended=self._live.now()))
        made = error is ErrorCode.NONE and not self.executes
        self._live.update(state="ready" if made else ENDS.get(error, "failed"))
        if self.executes:
            self._live.goal(None, active=False)
        elapsed = time.monotonic() - self._began
        took = self._planning_time, elapsed
        return TaskOutcome(self._live.board, error, message, self.replans, *took, self._verdict)

    def _say(self, message: str) -> None:
        self._message = message
