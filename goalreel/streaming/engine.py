"""The engine: a thread-safe interface to one running storyboard, for a ROS node or a robot's control loop."""

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID, uuid4

from goalreel.critics.examination import Examination
from goalreel.critics.examiner import Examiner
from goalreel.errors import BackendError, UserError
from goalreel.models.model_set import ModelSet
from goalreel.models.presets import Preset
from goalreel.streaming.board import (
    Board,
    BoardProgress,
    CodedText,
    ErrorCode,
    Frame,
    Goal,
    GoalReason,
    Phase,
)
from goalreel.streaming.camera import SILENCE, LiveCamera
from goalreel.streaming.live_task import LiveTask, Order
from goalreel.streaming.model_caller import Loading, ModelCaller, ModelQueue, Probes, one_line
from goalreel.streaming.request import (
    BoardListener,
    TaskEnded,
    TaskOutcome,
    TaskRequest,
    Ticket,
    check_length,
    check_request,
    examiner_of,
    first_board,
    names_of,
    preset_of,
    preset_of_task,
)
from goalreel.streaming.session import Session
from goalreel.streaming.settings import EngineSettings
from goalreel.torch_support import free_memory
from goalreel.types import Failure, Role

if TYPE_CHECKING:
    from goalreel.critics.controls import Control
    from goalreel.streaming.cue import ExamplesCue

log = logging.getLogger(__name__)

MAX_SAVED_BOARDS = 8
"""Storyboards that can still be executed by their id."""

type OnPhase = Callable[[Phase], None]
type TaskCommand = Literal["pause", "resume", "replan", "cancel"]

DEACTIVATED: CodedText = (ErrorCode.PREEMPTED, "the node was deactivated")


class Engine:
    """Carries out one task at a time. A new request ends the task under way as PREEMPTED."""

    def __init__(
        self,
        settings: EngineSettings,
        newest: Callable[[], Frame | None],
        listener: BoardListener,
        now: Callable[[], int],
        build: Callable[[Preset], ModelSet],
        explain_silence: Callable[[], str] = lambda: SILENCE,
        report: Callable[[str], object] = log.info,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make an engine without models; `begin_loading` or `start` loads them.

        Args:
            settings: the settings of the tasks, and the preset.
            newest: gives the newest camera frame, or None; raises ValueError where it cannot be read.
            listener: is notified of every change.
            now: the clock, in ns.
            build: makes the models of a preset; called in a thread of its own.
            explain_silence: says why no camera frame has arrived, where a task ends for that.
            report: is told which model is being loaded.
            clock: tells, in s, the ages of frames and the time-outs of tasks, but not of models.

        Raises:
            InputError: the preset does not exist, or predicts no goal images.
        """
        self._settings, self._preset = settings, preset_of(settings)
        self._newest, self._listener, self._now, self._build = newest, listener, now, build
        self._explain_silence, self._report, self._clock = explain_silence, report, clock
        self._names = names_of(self._preset)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Event
        self._thread: threading.Thread
        self._models: asyncio.Task[ModelCaller] | None = None
        self._role: Role | None = None
        """The role whose model is being loaded, or was when that failed; since `_role_time`."""
        self._role_time = 0.0
        self.probes: Probes | None = None
        """The last probes of the models' servers."""
        self._active = False
        self._session: Session | None = None
        """The newest session, which may have ended."""
        self._last_progress = BoardProgress(Board())
        self.cue: ExamplesCue | None = None
        """The cue of labelled episodes, once they are read; it takes the robot's numbers."""
        self._saved_boards: OrderedDict[UUID, Board] = OrderedDict()
        """The last storyboards that were generated, by the ids of their requests."""
        self._caller: ModelCaller | None = None
        self._examiner = examiner_of(settings, self._preset)
        self._controls: list[Control] = []
        """Control questions that are due."""
        self._examining: asyncio.Task[None] | None = None
        self._tickets: set[Ticket] = set()
        """The tickets of requests that have not ended."""

    # -- start and stop

    def begin_loading(self) -> Future[ModelCaller]:
        """Begin to load the models. A `stop` that comes afterwards ends it, whenever it comes."""
        return self._begin(self._require_models())

    @staticmethod
    def finish_loading(loading: Future[Any]) -> bool:
        """Wait for what `begin_loading` began. False if the engine is stopped meanwhile.

        Raises:
            UserError: a model cannot be loaded.
        """
        with suppress(CancelledError):
            loading.result()
        return not loading.cancelled()

    def probe(self, timeout: float) -> bool:
        """Ask the models' servers if they are there, once all are loaded. False if it is stopped meanwhile.

        Raises:
            UserError: one does not answer for `timeout` seconds, or address, key or model's name is wrong.
        """
        return self.finish_loading(self._begin(self._probe(timeout)))

    def start(self) -> None:
        """Take requests. Models that are not loaded are loaded in the background."""
        self._run_loop()
        if not self._active:
            self._active = True
            self._publish_no_goal("no_task")

    def end_task(self) -> None:
        """Take no more requests, and end the task under way as PREEMPTED. The models stay."""
        if not self._active:
            return
        self._active = False
        # On the loop, so that none is being started meanwhile.
        self._call(self._stop_session, None, *DEACTIVATED)
        wait([ticket.outcome for ticket in tuple(self._tickets)], timeout=0.4)
        self._publish_no_goal("not_active")

    def stop(self) -> None:
        """End the task under way as PREEMPTED and release the models. Takes a second at most."""
        self.end_task()
        if self._loop is None:
            return
        self._call(self._closing.set)
        self._thread.join(0.5)
        if self._session is not None:
            self._last_progress = self._session.progress()
        for ticket in tuple(self._tickets):
            self._settle(ticket, TaskOutcome(self.board, *DEACTIVATED))
        self._loop = self._models = self._caller = None
        self._session = self.probes = self._role = None
        free_memory()

    def configure(self, settings: EngineSettings) -> None:
        """Use the settings that are not read-only from the next request on."""
        before, self._settings = self._settings, settings
        if (before.examination, before.controls) != (settings.examination, settings.controls):
            self._examiner = examiner_of(settings, self._preset)

    def _publish_no_goal(self, reason: GoalReason) -> None:
        self._listener.on_goal(Goal(self.board, None, reason, self._now()))

    # -- the event loop, in a thread of its own

    def _run_loop(self) -> asyncio.AbstractEventLoop:
        """Start the loop, in which the models are loaded and requests carried out, if it does not run."""
        if self._loop is None:
            self._closing, ready = asyncio.Event(), threading.Event()

            async def main() -> None:
                self._loop, self._role_time = asyncio.get_running_loop(), time.monotonic()
                self._models = asyncio.create_task(self._load_models(), name="goalreel-load")
                ready.set()
                await self._closing.wait()

            self._thread = threading.Thread(
                target=lambda: asyncio.run(main()), name="goalreel-engine", daemon=True
            )
            self._thread.start()
            ready.wait()
        assert self._loop is not None
        return self._loop

    def _begin[Result](self, coroutine: Coroutine[object, object, Result]) -> "Future[Result]":
        """Run a coroutine on the loop. Its future is cancelled where the engine is stopped before its end."""
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._run_loop())
        except RuntimeError:  # the loop is closed
            coroutine.close()
            never: Future[Result] = Future()
            never.cancel()
            return never

    def _call[*Arguments](self, function: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
        """Call a function on the loop, from any thread. Does nothing once the loop has ended."""
        with suppress(RuntimeError):  # the loop is closed
            if (loop := self._loop) is not None:
                loop.call_soon_threadsafe(function, *arguments)

    # -- the models

    async def _load_models(self) -> ModelCaller:
        def note(role: Role) -> None:
            self._role, self._role_time = role, time.monotonic()
            self._report(f"loading {self._loaded}")

        def build() -> ModelSet:
            if (labelled := self._settings.examples) and self.cue is None:
                from goalreel.streaming.cue import ExamplesCue

                self.cue = ExamplesCue(Path(labelled).expanduser(), self._clock)
            model_set = self._build(self._preset)
            model_set.prepare(note)
            return model_set

        return ModelCaller(await ModelQueue("goalreel-load").call(build))

    @property
    def _loaded(self) -> str:
        """The model that is being loaded, or was when that failed."""
        return f"the {self._role} ({getattr(self._names, self._role)})" if self._role else "the models"

    async def _require_models(self) -> ModelCaller:
        """Wait for the models. A UserError says in one line which one cannot be loaded, and why."""
        assert self._models is not None
        await asyncio.wait([self._models])
        if (error := self._models.exception()) is None:
            return self._models.result()
        log.info("traceback of this error:", exc_info=error)
        if isinstance(error, UserError) and self._role is None:
            raise error  # a name, before anything was loaded
        raise BackendError(f"{self._loaded} cannot be loaded: {one_line(error)}")

    async def _models_of_task(self) -> ModelCaller:
        """Wait for the models. Where they cannot be loaded, a TaskEnded says why."""
        try:
            self._caller = caller = await self._require_models()
        except UserError as e:
            raise TaskEnded(ErrorCode.MODELS_NOT_LOADED, one_line(e)) from None
        caller.examiner = self._examiner if self._settings.controls else None
        return caller

    async def _probe(self, timeout: float) -> None:
        self.probes = Probes((await self._require_models()).model_set, self._names)
        await self.probes.run(timeout)

    def _describe_loading(self) -> str:
        """Say which model is being loaded, or which server does not answer; empty where there is none."""
        if self._models is None or self._models.done():
            return self.probes.describe() if self.probes else ""
        return f"loading {self._loaded} for {time.monotonic() - self._role_time:.0f} s"

    @property
    def loading(self) -> tuple[Loading, str]:
        """The state of the models; while they load, which one; where they failed, the reason."""
        if (models := self._models) is None:
            return "unloaded", ""
        if not models.done():
            return "loading", self._describe_loading()
        error = None if models.cancelled() else models.exception()
        return ("ready", "") if error is None else ("failed", one_line(error))

    # -- state

    @property
    def board(self) -> Board:
        """The storyboard under way, or the last one."""
        return self.progress().board

    def progress(self) -> BoardProgress:
        """Give the progress of the storyboard under way, or of the last one."""
        if (session := self._session) is not None:
            self._last_progress = session.progress()
        elif self._models is not None:
            return replace(self._last_progress, message=self._describe_loading())
        return self._last_progress

    @property
    def waits(self) -> Sequence[str]:
        """The things that are waited for, in words: model calls under way, and models that failed."""
        return session.waits() if (session := self._current()) is not None else ()

    @property
    def examination(self) -> Examination | None:
        """The examination of the critic, as far as it is."""
        found = self._examiner.examination
        return found.model_copy(update={"critic": f"model {self._names.critic}"}) if found.kinds else None

    @property
    def cue_state(self) -> str:
        """A line on the step under way, by labelled episodes; empty without them."""
        active = self.board.active
        return "" if self.cue is None else self.cue.describe(0 if active is None else active.index)

    # -- requests and commands

    def submit(self, request: TaskRequest, on_phase: OnPhase | None = None) -> Ticket:
        """Start a request. One that cannot be carried out ends with a TaskOutcome that says why.

        `on_phase` is called on the engine's thread.
        """
        sent = None if request.storyboard is None else request.storyboard.id
        ticket = Ticket(request.storyboard_id or sent or uuid4(), partial(self._call, self._stop_session))
        if not self._active:
            return ticket.refuse(request, (ErrorCode.NOT_ACTIVE, "the node is not active"))
        try:
            check_request(request, self._settings, self._preset, self._saved_boards)
        except TaskEnded as e:
            return ticket.refuse(request, (e.error, e.message))
        self._tickets.add(ticket)
        self._call(self._start_session, ticket, request, on_phase)
        if not self._active:  # stopped meanwhile, so that the request will not be started
            self._settle(ticket, TaskOutcome(self.board, *DEACTIVATED))
        return ticket

    def command(self, command: TaskCommand, reason: str = "") -> CodedText:
        """Pause, resume, re-plan or cancel the task under way."""
        try:
            check_length("reason", reason, self._settings)
        except TaskEnded as e:
            return e.error, e.message
        if (session := self._newest_session()) is None:
            return ErrorCode.NO_TASK, f"there is no task to {command}"
        live = session.live
        if command == "cancel":
            session.ticket.cancel(reason or "cancelled by an operator")
        elif command == "replan":
            if live.board.active is None and not session.confirms:
                return ErrorCode.INVALID_REQUEST, "nothing is being executed that could be re-planned"
            self._call(live.give, Order("replan", reason=reason or "ordered"))
        elif not live.executes:
            return ErrorCode.INVALID_REQUEST, "a storyboard that is only generated has nothing to pause"
        else:
            self._call(live.pause, command == "pause")
        return ErrorCode.NONE, ""

    def set_step(self, index: int, status: str) -> CodedText:
        """Go to a step, or mark the active one; `status` is active, completed, skipped or failed."""
        if (session := self._newest_session()) is None:
            return ErrorCode.NO_TASK, "there is no task"
        board = session.live.board
        active = board.active
        if active is None and not session.confirms:
            text = "no step is being executed at present"
        elif not 0 <= index < len(board.steps):
            text = f"there is no step {index}: there are 0 to {len(board.steps) - 1}"
        elif status not in ("active", "completed", "skipped", "failed"):
            text = f"a step cannot be made {status}"
        elif status != "active" and (active is None or index != active.index):
            text = f"step {active.index} is the active one, not {index}" if active else "no step is active"
        elif status == "failed":
            session.ticket.cancel(f"step {index} was marked as failed", ErrorCode.STEP_FAILED)
            return ErrorCode.NONE, ""
        elif board.state == "planning":
            first = active.index if active else len(board.steps)
            text = f"step {first} and what follows are being planned anew"
        else:
            self._call(session.live.give, Order(status, index, board.revision))
            return ErrorCode.NONE, ""
        return ErrorCode.INVALID_REQUEST, text

    def _newest_session(self) -> Session | None:
        """Give the session that an order is for: the newest, once the requests before have begun."""
        if self._loop is not None and threading.current_thread() is not self._thread:
            begun = threading.Event()
            self._call(begun.set)
            begun.wait(1.0)
        return self._current()

    def _current(self) -> Session | None:
        """The session that has not ended yet, if any."""
        session = self._session
        return None if session is None or session.ticket.done else session

    # -- on the event loop

    def _start_session(self, ticket: Ticket, request: TaskRequest, on_phase: OnPhase | None) -> None:
        if not self._active or ticket.done:
            return
        if self._examining is not None:
            self._examining.cancel()
        previous, settings = self._session, self._settings
        preset = preset_of_task(settings, self._preset)
        board = first_board(request, ticket.id, self._saved_boards, self._names, settings, preset)
        board = replace(board, examination=self.examination)
        request = replace(request, task=board.task)
        camera = LiveCamera(self._newest, settings, self._explain_silence, self._clock)
        live = LiveTask(
            request, settings, preset, board, camera, self._listener, self._now, on_phase, self.cue
        )
        self._session = session = Session(ticket, live, self._models_of_task, self._describe_loading)
        if previous is not None and not previous.ticket.done:
            previous.stop(ErrorCode.PREEMPTED, "a newer task came")
        session.coroutine = asyncio.create_task(_run_after(previous, session), name="goalreel-task")
        session.coroutine.add_done_callback(lambda _: self._finish_session(session))

    async def _examine(self, caller: ModelCaller, examiner: Examiner) -> None:
        """Ask the control questions that are due, one by one, until a task comes."""
        self._controls += await asyncio.to_thread(examiner.due)
        while self._controls:
            try:
                answer = await caller.ask_aside(self._controls[0].candidate)
                if isinstance(answer, Failure) and answer.reply is None:
                    return  # it cannot be asked at present
                await asyncio.to_thread(examiner.record, self._controls[:1], [answer])
            except Exception as e:  # noqa: BLE001  (a control is no part of a task)
                log.info("a control question was not answered: %s", one_line(e))
            del self._controls[0]

    def _stop_session(self, ticket: Ticket | None, error: ErrorCode, message: str) -> None:
        if ticket is None and self._examining is not None:
            self._examining.cancel()
        if (session := self._current()) is not None and ticket in (None, session.ticket):
            session.stop(error, message)

    def _finish_session(self, session: Session) -> None:
        if session.coroutine.cancelled():  # before it started
            outcome = session.end(*session.reason)
        elif (error := session.coroutine.exception()) is not None:
            log.error("the task ended with an error", exc_info=error)
            outcome = session.end(ErrorCode.UNKNOWN, one_line(error))
        else:
            outcome = session.coroutine.result()
        if outcome.board.state == "ready":
            self._saved_boards[session.ticket.id] = outcome.board
            if len(self._saved_boards) > MAX_SAVED_BOARDS:
                self._saved_boards.popitem(last=False)
        self._settle(session.ticket, outcome)
        if session is self._session and self._active and self._caller is not None:
            examine = self._examine(self._caller, self._examiner)
            self._examining = asyncio.create_task(examine, name="goalreel-examination")

    def _settle(self, ticket: Ticket, outcome: TaskOutcome) -> None:
        self._tickets.discard(ticket)
        if not ticket.done:
            ticket.outcome.set_result(outcome)


async def _run_after(previous: Session | None, session: Session) -> TaskOutcome:
    if previous is not None:
        await asyncio.wait([previous.coroutine])
    return await session.run()
