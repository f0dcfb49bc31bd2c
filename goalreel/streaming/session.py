"""One task from its first frame to its end: plan, render ahead, stream sub-goals, re-plan, check the end.

Everything here runs on one event loop; the models run elsewhere (`goalreel.streaming.model_caller`).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from goalreel.critics.task_check import whole_state
from goalreel.image import Image
from goalreel.replan import ReplanContext
from goalreel.streaming.board import (
    Board,
    BoardProgress,
    CodedText,
    ErrorCode,
    Frame,
    GoalReason,
    ModelNames,
    StepPanel,
)
from goalreel.streaming.camera import POLL_SECONDS
from goalreel.streaming.live_task import LiveTask, Override, TaskCommand
from goalreel.streaming.model_caller import ModelCaller
from goalreel.streaming.renderer import Renderer
from goalreel.streaming.request import (
    TaskEnded,
    TaskOutcome,
    Ticket,
    attempts_of,
    end_from_failure,
    single_step_plan,
)
from goalreel.streaming.step_follower import StepEnd, StepFollower
from goalreel.streaming.tracking import changed_share
from goalreel.types import (
    ROLE_OF_STAGE,
    Candidate,
    Failure,
    Plan,
    Step,
    Storyboard,
    StoryboardStep,
    Task,
    Verdict,
)
from goalreel.wording import reader_text

SLOW_CALL_SECONDS = 1.0
"""A model call that takes longer is mentioned in the progress message."""
NOT_CHECKED = "every step was taken for done; nobody checked the end against the whole task (`confirm`)"
"""The message of a task that ends by its steps alone."""
MAX_QUESTIONS = 3
"""The critic must say no this often before it counts: the arm may still be leaving the picture."""
_SOLE_JUDGES = {"planner", "critic"}


class Session:
    """Carries one request out.

    `run` gives a TaskOutcome whatever a model or the camera does. To stop it, set `reason` and cancel the
    coroutine that runs it. Where that coroutine ends in another way, the caller calls `end`.
    """

    def __init__(
        self, live: LiveTask, models: Callable[[], Awaitable[ModelCaller]], loading: Callable[[], str]
    ) -> None:
        """`models` waits for the models, and `loading` says which of them is being loaded."""
        self.reason: CodedText = (ErrorCode.CANCELED, "cancelled")
        self.replans = 0
        self._live, self._request, self._settings = live, live.request, live.settings
        self._models, self._loading = models, loading
        self._start_time = time.monotonic()
        self._planning_time = 0.0
        self._message = ""
        self._verdict: Verdict | None = None
        self._first_image: Image | None = None
        self._caller: ModelCaller
        self._describe_waits: Callable[[ModelNames, float], Sequence[str]] = lambda *_: ()
        self._renderer: Renderer
        self._follower: StepFollower | None = None

    async def run(self) -> TaskOutcome:
        """Carry the request out, from its first frame to its outcome."""
        timeout = self._request.timeout or self._settings.task_timeout
        timeout = None if timeout is None or timeout < 0 else timeout
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
        return self.end(*self._end_of_steps())

    def progress(self) -> BoardProgress:
        """Give the progress at this moment. Safe from any thread."""
        board, follower = self._live.board, self._follower
        message = self._message if follower is None else follower.message
        message = "; ".join(filter(None, (message, self._loading(), *self.waits(SLOW_CALL_SECONDS))))
        if follower is None:
            return BoardProgress(board, replans=self.replans, message=message)
        return BoardProgress(board, follower.closeness, follower.elapsed, self.replans, message)

    def waits(self, seconds: float = 0.0) -> Sequence[str]:
        """Say what has been waited for so long: calls of models. Safe from any thread."""
        return self._describe_waits(self._live.board.models, seconds)

    # -- making the storyboard

    async def _work(self) -> None:
        live = self._live
        has_plan = bool(live.board.steps)
        live.hold(None, "planning")
        if not has_plan:
            live.update(source=await self._first_frame())
        live.report_phase("loading_models")
        self._message = ""
        self._caller = await self._models()
        self._describe_waits = self._caller.describe_waits
        self._caller.forget_failures()
        self._caller.timeout = self._settings.model_timeout
        self._renderer = Renderer(live, self._caller)
        try:
            if not has_plan:
                await self._plan()
            if live.executes:
                await self._execute()
            elif not all(panel.picture_is_final for panel in live.board.steps):
                self._message = "rendering"
                await self._renderer.run(self._task(self._source.image), 0, self._source)
        finally:
            self._renderer.cancel()

    async def _first_frame(self) -> Frame:
        if (image := self._request.image) is not None:
            small = image.within(self._settings.max_image_side)
            return Frame(small, self._live.now(), full_size=image.size)
        self._live.update(state="planning")
        self._live.report_phase("waiting_for_image")
        self._message = "waiting for a camera frame"
        return await self._wait_for_frame(None, "planning")

    async def _wait_for_frame(self, panel: StepPanel | None, reason: GoalReason) -> Frame:
        """Wait for a fresh frame. The policy holds for `reason`, and hears where the camera is lost."""
        camera = self._live.camera
        camera.restart_timeout()
        while (frame := camera.poll()[0]) is None:
            self._live.hold(panel, camera.goal_reason)
            await asyncio.sleep(POLL_SECONDS)
        self._live.hold(panel, reason)
        return frame

    async def _plan(self) -> None:
        self._live.update(state="planning")
        self._live.report_phase("planning")
        self._message = "planning"
        self._first_image = self._source.image
        start = time.monotonic()
        plan = await self._caller.ask(self._task(self._first_image))
        self._planning_time = time.monotonic() - start
        if isinstance(plan, Plan):
            self._live.update(state="rendering", steps=self._panels(plan.steps))
            return
        step_plan = single_step_plan(plan, self._request.task, self._settings)
        (panel,) = self._panels(step_plan.steps)
        panel = replace(panel, image_status="unverified", created=self._live.now(), written_by="person")
        self._live.update(state="rendering", steps=(panel,), planner_failure=plan)

    def _panels(self, steps: Sequence[Step], previous: tuple[StepPanel, ...] = ()) -> tuple[StepPanel, ...]:
        """Give the previous panels, followed by one for each step that was planned.

        Raises:
            TaskEnded: PLANNER_FAILED, as the plan has more steps than are allowed.
        """
        request, preset = self._request, self._live.preset
        limit = preset.max_steps if request.max_steps < 0 else request.max_steps
        if len(steps) > limit:
            text = f"the plan has {len(steps)} steps, {limit} are allowed (max_steps)"
            raise TaskEnded(ErrorCode.PLANNER_FAILED, text)
        attempts = attempts_of(request.max_attempts, preset)
        numbered = enumerate(steps, len(previous))
        return (*previous, *(StepPanel(i, StoryboardStep(step=step), attempts) for i, step in numbered))

    def _task(self, image: Image | None) -> Task:
        text = "\n".join(t for t in (self._request.task, self._request.auxiliary_text.strip()) if t)
        return Task(id=self._live.board.id.hex, instruction=text, image=image, seed=self._settings.seed)

    @property
    def _source(self) -> Frame:
        assert self._live.board.source is not None
        return self._live.board.source

    # -- executing it

    async def _execute(self) -> None:
        live = self._live
        live.update(state="executing")
        if any(not p.picture_is_final for p in live.board.steps):
            await self._render_ahead(0, self._source)
        index, goals_ahead = 0, self._settings.goals_ahead
        scene: Frame | None
        scene = first = await self._wait_for_frame(None, "planning")
        if self._request.storyboard is not None:  # made in another size, and perhaps without sight of a scene
            live.update(steps=tuple(panel.in_size(first.size) for panel in live.board.steps))
            self._first_image = first.image
        while index < len(live.board.steps):
            await self._enter(index, scene)
            self._follower = StepFollower(index, live, self._caller, self._renderer, goals_ahead)
            end = await self._follower.run()
            if end.kind == "replan":
                scene = await self._replan(index, end)
                goals_ahead = self._settings.goals_ahead
            else:
                by = "operator" if end.by_operator else "critic"
                live.update(steps=live.board.leave_step(index, end.kind, end.index, live.now(), by))
                index, scene, goals_ahead = end.index, end.frame, 0
        if live.preset.confirm:
            self._follower = None
            self._message = "asking the critic about the task as a whole"
            self._verdict = await self._confirm(first.image)

    async def _enter(self, index: int, scene: Frame | None) -> None:
        """Make a step the active one, and render its goal again where the scene is not as predicted."""
        predicted = self._live.board.predicted_before(index)
        if predicted is not None and scene is not None and self._live.board.steps[index].has_picture:
            difference = await asyncio.to_thread(changed_share, predicted, scene.image)
            if difference > self._settings.rerender:
                await self._render_ahead(index, scene)
        panel = replace(self._live.board.steps[index], status="active", started=self._live.now(), ended=0)
        self._live.put_panel(panel)
        if not panel.picture_is_final:
            self._live.publish_goal(panel, "planning")

    async def _render_ahead(self, first: int, source: Frame) -> None:
        await self._renderer.start(self._task(source.image), first, source)

    async def _replan(self, index: int, end: StepEnd) -> Frame:
        """Plan step `index` and what follows again, from the live scene."""
        live, settings = self._live, self._settings
        limit = self._request.max_replans if self._request.max_replans >= 0 else settings.max_replans
        if self.replans >= limit and not end.by_operator:
            text = f"{end.reason}, and the limit of {limit} re-plans is reached"
            raise TaskEnded(ErrorCode.REPLANS_EXHAUSTED, text)
        self.replans += 1
        self._follower = None
        self._message = f"re-planning: {end.reason}"
        await self._renderer.stop()
        board = live.board
        live.hold(board.steps[index], "replanning")
        live.update(state="planning")
        frame = await self._wait_for_frame(board.steps[index], "replanning")
        if end.by_operator:
            self._caller.forget_failures()
        plan = await self._caller.replan(ReplanContext(self._storyboard(), index, frame.image))
        if isinstance(plan, Plan):
            steps, failure = plan.steps, None
        elif settings.on_model_failure == "fail":
            raise end_from_failure(plan)
        else:  # as they were planned, where nobody can plan anew
            steps, failure = [panel.step for panel in board.steps[index:]], plan
        live.update(planner_failure=failure)
        panels = self._panels(steps, board.steps[:index])
        if failure is not None:
            panels = tuple(
                replace(panel, written_by=before.written_by, what=before.what)
                for panel, before in zip(panels, board.steps, strict=True)
            )
        live.update(state="executing", revision=board.revision + 1, source=frame, steps=panels)
        await self._render_ahead(index, frame)
        return frame

    def _storyboard(self) -> Storyboard:
        """Give the board in the form that the agents know."""
        longest = self._settings.max_image_side
        steps = tuple(panel.shown(longest) for panel in self._live.board.steps)
        return Storyboard(task=self._task(self._first_image or self._source.image), steps=steps)

    # -- the end

    async def _confirm(self, first_image: Image) -> Verdict:
        """Ask the critic on live frames whether the task is done: each step may have been accepted wrongly.

        Raises:
            TaskEnded: UNVERIFIED where the task is too long, the critic says no or cannot be asked, or there
                is no frame; the model's own code where `on_model_failure` is "fail".
        """
        board, limit = self._live.board, self._live.preset.confirm_steps
        if limit is not None and len(board.steps) > limit:
            raise _unconfirmed(f"it cannot judge one of {len(board.steps)} steps (confirm_steps: {limit})")
        done = [p.step.instruction for p in board.steps if p.status == "completed"]
        instruction = whole_state(board.task, done)
        answer: Verdict | Failure | None = None
        for question in range(MAX_QUESTIONS):
            await asyncio.sleep(self._settings.critic_period if question else 0)
            try:
                image = (await self._live.camera.wait()).image
            except TaskEnded as e:
                raise _unconfirmed(e.message) from None
            candidate = Candidate(
                task_id=board.id.hex,
                step=len(board.steps),
                source=first_image,
                image=image,
                instruction=instruction,
                prompt=board.task,
            )
            answer = await self._caller.judge_live(candidate)
            if isinstance(answer, Verdict) and answer.success:
                return answer
            if isinstance(answer, Failure) and answer.reply is None:
                break
        if isinstance(answer, Verdict):
            raise _unconfirmed(reader_text(answer.reasoning), answer)
        assert answer is not None
        if self._settings.on_model_failure == "fail":
            raise end_from_failure(answer)
        raise _unconfirmed(f"it could not be asked: {answer.message}")

    def _end_of_steps(self) -> CodedText:
        """Say how a task ends whose steps are all done: UNVERIFIED where a model failed without a stand-in.

        A robot reaches the steps without an editor, but nobody else stands in for planner and critic.
        """
        board, executes, is_checked = self._live.board, self._live.executes, self._verdict is not None
        failed = {ROLE_OF_STAGE[failure.stage] for failure in board.failures}
        if not is_checked and (failed & _SOLE_JUDGES if executes else failed):
            return ErrorCode.UNVERIFIED, board.degraded
        not_checked = "" if is_checked else NOT_CHECKED if executes else board.unaccepted
        return ErrorCode.NONE, "; ".join(filter(None, (not_checked, board.degraded)))

    def end(self, error: ErrorCode, message: str) -> TaskOutcome:
        """Publish the end on the board and to the policy, and give the outcome."""
        self._follower = None
        self._describe_waits = lambda *_: ()
        self._message = message
        self._live.end(error)
        times = self._planning_time, time.monotonic() - self._start_time
        return TaskOutcome(self._live.board, error, message, self.replans, *times, self._verdict)


def _unconfirmed(reason: str, verdict: Verdict | None = None) -> TaskEnded:
    line = reason.strip().splitlines()[0] if reason.strip() else "it gives no reason"
    text = f"every step was accepted as done, but the critic does not confirm the task: {line}"
    return TaskEnded(ErrorCode.UNVERIFIED, text, verdict)


class Execution:
    """A ticket with its session and its task, being carried out on the engine's event loop."""

    def __init__(self, ticket: Ticket, session: Session, live: LiveTask, call: Callable[..., None]) -> None:
        """`call` calls a function with its arguments on the loop, from any thread."""
        self.ticket, self.session, self.live, self._call = ticket, session, live, call
        self._coroutine: asyncio.Task[TaskOutcome]

    def start(
        self, previous: "Execution | None", on_end: Callable[["Execution", asyncio.Task[TaskOutcome]], None]
    ) -> None:
        """Run the session once the previous execution has ended, then call `on_end`, all on the loop."""
        self._coroutine = asyncio.create_task(self._run(previous), name="goalreel-task")
        self._coroutine.add_done_callback(lambda coroutine: on_end(self, coroutine))

    def stop(self, error: ErrorCode, message: str) -> None:
        """End it with that code. Called on the event loop."""
        self.session.reason = error, message
        self._coroutine.cancel()

    def command(self, command: TaskCommand, reason: str) -> CodedText:
        """Carry an operator's command out, or say why not. Called from any thread."""
        if command == "cancel":
            self.ticket.cancel(reason or "cancelled by an operator")
        elif command != "replan":
            if not self.live.executes:
                return ErrorCode.INVALID_REQUEST, "a storyboard that is only generated has nothing to pause"
            self._call(self.live.pause, command == "pause")
        elif self.live.board.active is None:
            return ErrorCode.INVALID_REQUEST, "nothing is being executed that could be re-planned"
        else:
            self._call(self.live.request_replan, reason)
        return ErrorCode.NONE, ""

    def set_step(self, index: int, status: str, board: Board, active: int) -> CodedText:
        """Go to a step of `board`, or mark the `active` one, or say why not. Called from any thread."""
        steps = len(board.steps)
        if not 0 <= index < steps:
            return ErrorCode.INVALID_REQUEST, f"there is no step {index}: there are 0 to {steps - 1}"
        if status != "active" and index != active:
            return ErrorCode.INVALID_REQUEST, f"step {active} is the active one, not {index}"
        if status == "failed":
            self.ticket.cancel(f"step {index} was marked as failed", ErrorCode.STEP_FAILED)
        elif status not in ("active", "completed", "skipped"):
            return ErrorCode.INVALID_REQUEST, f"a step cannot be made {status}"
        elif board.state == "planning":
            return ErrorCode.INVALID_REQUEST, f"step {active} and what follows are being planned anew"
        else:
            self._call(self.live.request_override, Override(index, status, board.revision))
        return ErrorCode.NONE, ""

    async def _run(self, previous: "Execution | None") -> TaskOutcome:
        if previous is not None:
            await asyncio.wait([previous._coroutine])
        return await self.session.run()
