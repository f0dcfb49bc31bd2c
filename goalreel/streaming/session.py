"""One task from its first frame to its end: plan, render ahead, stream sub-goals, re-plan.

Everything here runs on one event loop; the models run elsewhere (`goalreel.streaming.model_caller`).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from goalreel.critics.task_check import whole_state
from goalreel.image import Image
from goalreel.models.presets import Preset
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
from goalreel.streaming.camera import POLL_SECONDS, LiveCamera
from goalreel.streaming.live_board import LiveBoard, Override, PendingCommands, TaskCommand
from goalreel.streaming.model_caller import ModelCaller
from goalreel.streaming.renderer import Renderer
from goalreel.streaming.request import (
    TaskEnded,
    TaskOutcome,
    TaskRequest,
    Ticket,
    attempts_of,
    end_from_failure,
    single_step_plan,
)
from goalreel.streaming.settings import EngineSettings
from goalreel.streaming.step_follower import StepEnd, StepFollower
from goalreel.streaming.tracking import changed_share
from goalreel.types import ROLE_OF_STAGE, Candidate, Failure, Plan, Storyboard, Task, Verdict
from goalreel.wording import reader_text


def panels_of(
    plan: Plan, previous: tuple[StepPanel, ...], request: TaskRequest, preset: Preset
) -> tuple[StepPanel, ...]:
    """The previous panels, followed by one for each step of the plan.

    Raises:
        TaskEnded: PLANNER_FAILED, as the plan has more steps than are allowed.
    """
    limit = preset.max_steps if request.max_steps < 0 else request.max_steps
    if len(plan.steps) > limit:
        text = f"the plan has {len(plan.steps)} steps, {limit} are allowed (max_steps)"
        raise TaskEnded(ErrorCode.PLANNER_FAILED, text)
    attempts = attempts_of(request.max_attempts, preset)
    steps = enumerate(plan.steps, len(previous))
    return (*previous, *(StepPanel(index, step, attempts) for index, step in steps))


def panels_again(
    panels: Sequence[StepPanel], index: int, request: TaskRequest, preset: Preset
) -> tuple[StepPanel, ...]:
    """The panels with step `index` and what follows as they were planned, where nobody can plan anew.

    Raises:
        TaskEnded: as `panels_of`.
    """
    before, old = tuple(panels[:index]), panels[index:]
    new = panels_of(Plan(steps=tuple(p.step for p in old)), before, request, preset)[index:]
    authors = (replace(n, written_by=o.written_by, what=o.what) for n, o in zip(new, old, strict=True))
    return (*before, *authors)


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


SLOW_CALL_SECONDS = 1.0
"""A model call that takes longer is mentioned in the progress message."""


class Session:
    """Carries one request out, with the steps, attempts and checks that `preset` says.

    `models` waits for the models, and `loading` says which of them is being loaded.

    `run` gives a TaskOutcome whatever a model or the camera does. To stop it, set `reason` and cancel the
    coroutine that runs it. Where that coroutine ends in another way, the caller calls `end`.
    """

    def __init__(
        self,
        request: TaskRequest,
        settings: EngineSettings,
        preset: Preset,
        live: LiveBoard,
        camera: LiveCamera,
        models: Callable[[], Awaitable[ModelCaller]],
        loading: Callable[[], str],
        commands: PendingCommands,
    ) -> None:
        self.reason: CodedText = (ErrorCode.CANCELED, "cancelled")
        self.replans = 0
        self._request = request
        self._settings = settings
        self._preset = preset
        self._live = live
        self._camera = camera
        self._models, self._loading = models, loading
        self._commands = commands
        self._start_time = time.monotonic()
        self._planning_time = 0.0
        self._message = ""
        self._verdict: Verdict | None = None
        self._first_image: Image | None = None
        self._caller: ModelCaller
        self._describe_waits: Callable[[ModelNames, float], Sequence[str]] = lambda *_: ()
        self._renderer: Renderer | None = None
        self._follower: StepFollower | None = None

    @property
    def executes(self) -> bool:
        """Whether a policy is led through the storyboard once it is made."""
        return self._request.kind == "execute"

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
        finally:
            if self._renderer is not None:
                self._renderer.cancel()
        is_checked = self._verdict is not None
        return self.end(*end_of(self._live.board, executes=self.executes, is_checked=is_checked))

    def progress(self) -> BoardProgress:
        """Give the progress at this moment. Safe from any thread."""
        board, follower = self._live.board, self._follower
        if follower is None:
            return BoardProgress(board, replans=self.replans, message=self._full_message(self._message))
        message = self._full_message(follower.message)
        return BoardProgress(board, follower.closeness, follower.elapsed, self.replans, message)

    def waits(self, seconds: float = 0.0) -> Sequence[str]:
        """Say what has been waited for so long: calls of models. Safe from any thread."""
        return self._describe_waits(self._live.board.models, seconds)

    def _full_message(self, message: str) -> str:
        """The message, the model that is being loaded, and what is waited for."""
        return "; ".join(filter(None, (message, self._loading(), *self.waits(SLOW_CALL_SECONDS))))

    # -- making the storyboard

    async def _work(self) -> None:
        has_plan = bool(self._live.board.steps)
        self._hold(None, "planning")
        if not has_plan:
            self._live.update(source=await self._first_frame())
        self._live.report_phase("loading_models")
        self._message = ""
        self._caller = await self._models()
        self._describe_waits = self._caller.describe_waits
        self._caller.forget_failures()
        self._caller.timeout = self._settings.model_timeout
        text_only = self._request.text_only
        loop = self._preset.loop_arguments
        renderer = Renderer(self._live, self._caller, self._settings, loop, text_only=text_only)
        self._renderer = renderer
        if not has_plan:
            await self._plan()
        if self.executes:
            await self._execute(renderer)
        elif not all(panel.picture_is_final for panel in self._live.board.steps):
            self._message = "rendering"
            source = self._source
            await renderer.run(self._task(source.image), 0, source)

    async def _first_frame(self) -> Frame:
        if self._request.image is not None:
            image = self._request.image
            small = image.within(self._settings.max_image_side)
            return Frame(small, self._live.now(), full_size=image.size)
        self._live.update(state="planning")
        self._live.report_phase("waiting_for_image")
        self._message = "waiting for a camera frame"
        return await self._wait_for_frame(None, "planning")

    async def _wait_for_frame(self, panel: StepPanel | None, reason: GoalReason) -> Frame:
        """Wait for a fresh frame. The policy holds for `reason`, and hears where the camera is lost."""
        self._camera.restart_timeout()
        while (frame := self._camera.poll()[0]) is None:
            self._hold(panel, self._camera.goal_reason)
            await asyncio.sleep(POLL_SECONDS)
        self._hold(panel, reason)
        return frame

    def _hold(self, panel: StepPanel | None, reason: GoalReason) -> None:
        if self.executes:
            self._live.hold(panel, reason)

    async def _plan(self) -> None:
        self._live.update(state="planning")
        self._live.report_phase("planning")
        self._message = "planning"
        self._first_image = self._source.image
        start = time.monotonic()
        plan = await self._caller.ask(self._task(self._first_image))
        self._planning_time = time.monotonic() - start
        if isinstance(plan, Plan):
            steps = panels_of(plan, (), self._request, self._preset)
            self._live.update(state="rendering", steps=steps)
            return
        step_plan = single_step_plan(plan, self._request.task, self._settings)
        (panel,) = panels_of(step_plan, (), self._request, self._preset)
        panel = replace(panel, image_status="unverified", created=self._live.now(), written_by="person")
        self._live.update(state="rendering", steps=(panel,), planner_failure=plan)

    def _task(self, image: Image | None) -> Task:
        text = "\n".join(t for t in (self._request.task, self._request.auxiliary_text.strip()) if t)
        return Task(id=self._live.board.id.hex, instruction=text, image=image, seed=self._settings.seed)

    @property
    def _source(self) -> Frame:
        assert self._live.board.source is not None
        return self._live.board.source

    # -- executing it

    async def _execute(self, renderer: Renderer) -> None:
        self._live.update(state="executing")
        if any(not p.picture_is_final for p in self._live.board.steps):
            await self._render_ahead(renderer, 0, self._source)
        index, look_ahead = 0, self._settings.goals_ahead
        scene: Frame | None
        scene = first = await self._wait_for_frame(None, "planning")
        if self._request.storyboard is not None:  # made in another size, and perhaps without sight of a scene
            self._live.update(steps=tuple(panel.in_size(first.size) for panel in self._live.board.steps))
            self._first_image = first.image
        while index < len(self._live.board.steps):
            await self._enter(renderer, index, scene)
            self._follower = StepFollower(
                index,
                self._live,
                self._camera,
                self._caller,
                self._settings,
                self._commands,
                renderer,
                look_ahead,
            )
            end = await self._follower.run()
            if end.kind == "replan":
                scene = await self._replan(renderer, index, end)
                look_ahead = self._settings.goals_ahead
            else:
                look_ahead = 0
                steps = self._live.board.leave_step(
                    index, end.kind, end.index, self._live.now(), by_operator=end.by_operator
                )
                self._live.update(steps=steps)
                index, scene = end.index, end.frame
        if self._preset.confirm:
            self._verdict = await self._confirm(first.image)

    async def _confirm(self, first_image: Image) -> Verdict:
        self._follower = None
        self._message = "asking the critic about the task as a whole"
        return await confirm_task(
            self._live.board,
            first_image,
            self._camera,
            self._caller,
            self._settings,
            self._preset.confirm_steps,
        )

    async def _enter(self, renderer: Renderer, index: int, scene: Frame | None) -> None:
        """Make a step the active one, and render its goal again where the scene is not as predicted."""
        predicted = self._live.board.predicted_before(index)
        if predicted is not None and scene is not None and self._live.board.steps[index].has_picture:
            difference = await asyncio.to_thread(changed_share, predicted, scene.image)
            if difference > self._settings.rerender:
                await self._render_ahead(renderer, index, scene)
        panel = replace(self._live.board.steps[index], status="active", started=self._live.now(), ended=0)
        self._live.put_panel(panel)
        if not panel.picture_is_final:
            self._live.publish_goal(panel, "planning")

    async def _render_ahead(self, renderer: Renderer, first: int, source: Frame) -> None:
        await renderer.start(self._task(source.image), first, source, self._commands.wake)

    async def _replan(self, renderer: Renderer, index: int, end: StepEnd) -> Frame:
        """Plan step `index` and what follows again, from the live scene."""
        limit = self._request.max_replans if self._request.max_replans >= 0 else self._settings.max_replans
        if self.replans >= limit and not end.by_operator:
            raise TaskEnded(
                ErrorCode.REPLANS_EXHAUSTED, f"{end.reason}, and the limit of {limit} re-plans is reached"
            )
        self.replans += 1
        self._follower = None
        self._message = f"re-planning: {end.reason}"
        await renderer.stop()
        board = self._live.board
        self._hold(board.steps[index], "replanning")
        self._live.update(state="planning")
        frame = await self._wait_for_frame(board.steps[index], "replanning")
        if end.by_operator:
            self._caller.forget_failures()
        plan = await self._caller.replan(ReplanContext(self._storyboard(), index, frame.image))
        if isinstance(plan, Failure):
            if self._settings.on_model_failure == "fail":
                raise end_from_failure(plan)
            self._live.update(planner_failure=plan)
            steps = panels_again(board.steps, index, self._request, self._preset)
        else:
            self._live.update(planner_failure=None)
            steps = panels_of(plan, board.steps[:index], self._request, self._preset)
        self._live.update(state="executing", revision=board.revision + 1, source=frame, steps=steps)
        await self._render_ahead(renderer, index, frame)
        return frame

    def _storyboard(self) -> Storyboard:
        """The board in the form that the agents know."""
        longest = self._settings.max_image_side
        steps = tuple(p.as_step(longest) for p in self._live.board.steps)
        return Storyboard(task=self._task(self._first_image or self._source.image), steps=steps)

    # -- the end

    def end(self, error: ErrorCode, message: str) -> TaskOutcome:
        """Publish the end on the board and to the policy, and give the outcome."""
        self._follower = None
        self._describe_waits = lambda *_: ()
        self._message = message
        self._live.end(error, executes=self.executes)
        times = self._planning_time, time.monotonic() - self._start_time
        return TaskOutcome(self._live.board, error, message, self.replans, *times, self._verdict)


class Execution:
    """A ticket with its session, its board, and the pending commands about it."""

    def __init__(
        self,
        ticket: Ticket,
        session: Session,
        live: LiveBoard,
        commands: PendingCommands,
        call: Callable[..., None],
    ) -> None:
        """`call` calls a function with its arguments on the loop, from any thread."""
        self.ticket, self.session, self.live = ticket, session, live
        self._commands, self._call = commands, call
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
            if not self.session.executes:
                return ErrorCode.INVALID_REQUEST, "a storyboard that is only generated has nothing to pause"
            self._call(self._commands.pause, command == "pause")
        elif self.live.board.active is None:
            return ErrorCode.INVALID_REQUEST, "nothing is being executed that could be re-planned"
        else:
            self._call(self._commands.request_replan, reason)
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
            self._call(self._commands.request_override, Override(index, status, board.revision))
        return ErrorCode.NONE, ""

    async def _run(self, previous: "Execution | None") -> TaskOutcome:
        if previous is not None:
            await asyncio.wait([previous._coroutine])
        return await self.session.run()
