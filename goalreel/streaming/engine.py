"""The engine: a thread-safe interface to one running storyboard, for a ROS node or a robot's control loop."""

import asyncio
import concurrent.futures
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal
from uuid import UUID, uuid4

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
    ModelNames,
    Phase,
)
from goalreel.streaming.camera import SILENCE, LiveCamera
from goalreel.streaming.live_task import LiveTask, Order
from goalreel.streaming.loading import EngineLoop, Loading, Probes, one_line
from goalreel.streaming.request import (
    BoardListener,
    TaskOutcome,
    TaskRequest,
    Ticket,
    first_board,
    names_of,
    preset_of,
    preset_of_task,
    problem_of,
    too_long,
)
from goalreel.streaming.session import Session
from goalreel.streaming.settings import EngineSettings
from goalreel.torch_support import free_memory

log = logging.getLogger(__name__)

MAX_SAVED_BOARDS = 8
"""Storyboards that can still be executed by their id."""

type OnPhase = Callable[[Phase], None]
type TaskCommand = Literal["pause", "resume", "replan", "cancel"]

NOT_ACTIVE: CodedText = (ErrorCode.NOT_ACTIVE, "the node is not active")
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
    ) -> None:
        """Make an engine without models; `load` or `start` loads them.

        Args:
            settings: the settings of the tasks, and the preset.
            newest: gives the newest camera frame, or None; raises ValueError where it cannot be read.
            listener: is notified of every change.
            now: the clock, in ns.
            build: makes the models of a preset; called in a thread of its own.
            explain_silence: says why no camera frame has arrived, where a task ends for that.
            report: is told which model is being loaded.

        Raises:
            InputError: the preset does not exist, or predicts no goal images.
        """
        self._settings = settings
        self._preset = preset_of(settings)
        self._names = names_of(self._preset)
        self._newest, self._listener, self._now, self._build = newest, listener, now, build
        self._explain_silence, self._report = explain_silence, report
        self._loop: EngineLoop | None = None
        self._active = False
        self._last_progress = BoardProgress(Board())
        self._saved_boards: OrderedDict[UUID, Board] = OrderedDict()
        """The last storyboards that were generated, by the ids of their requests."""
        self._tickets: set[Ticket] = set()
        """The tickets of requests that have not ended."""

    # -- start and stop

    def load(self) -> bool:
        """Load the models, and wait for them. False if the engine is stopped meanwhile.

        Raises:
            UserError: one cannot be loaded.
        """
        loop = self._running_loop()
        return loop.wait(loop.require_models())

    def probe(self, timeout: float) -> bool:
        """Ask the models' servers whether they are there, for `timeout` seconds at most, once all are loaded.

        False if the engine is stopped meanwhile.

        Raises:
            UserError: one does not answer, or the address, the key or the model's name is wrong.
        """
        loop = self._running_loop()
        return loop.wait(loop.probe(timeout))

    def start(self) -> None:
        """Take requests. Models that are not loaded are loaded in the background."""
        self._running_loop()
        if not self._active:
            self._active = True
            self._publish_no_goal("no_task")

    def end_task(self) -> None:
        """Take no more requests, and end the task under way as PREEMPTED. The models stay."""
        loop = self._loop
        if loop is None or not self._active:
            return
        self._active = False
        # On the loop, so that none is being started meanwhile.
        loop.call(self._stop_session, loop, None, *DEACTIVATED)
        concurrent.futures.wait([ticket.outcome for ticket in tuple(self._tickets)], timeout=0.4)
        self._publish_no_goal("not_active")

    def stop(self) -> None:
        """End the task under way as PREEMPTED and release the models. Takes a second at most."""
        self.end_task()
        loop, self._loop = self._loop, None
        if loop is None:
            return
        loop.close()
        if loop.session is not None:
            self._last_progress = loop.session.progress()
        for ticket in tuple(self._tickets):
            self._settle(ticket, TaskOutcome(self.board, *DEACTIVATED))
        del loop
        free_memory()

    def _publish_no_goal(self, reason: GoalReason) -> None:
        self._listener.on_goal(Goal(self.board, None, reason, self._now()))

    def _running_loop(self) -> EngineLoop:
        if self._loop is None:
            self._loop = EngineLoop(partial(self._build, self._preset), self._names, self._report)
        return self._loop

    def configure(self, settings: EngineSettings) -> None:
        """Use the settings that are not read-only from the next request on."""
        self._settings = settings

    # -- state

    @property
    def loading(self) -> tuple[Loading, str]:
        """The state of the models; while they load, which one; where they failed, the reason."""
        return ("unloaded", "") if self._loop is None else self._loop.loading

    @property
    def probes(self) -> Probes | None:
        """The last probes of the models' servers."""
        return self._loop.probes if self._loop is not None else None

    @property
    def models(self) -> ModelNames:
        """The published names of planner, editor and critic."""
        return self._names

    @property
    def board(self) -> Board:
        """The storyboard under way, or the last one."""
        return self.progress().board

    def progress(self) -> BoardProgress:
        """Give the progress of the storyboard under way, or of the last one."""
        loop = self._loop
        if loop is None:
            return self._last_progress
        if loop.session is None:
            return replace(self._last_progress, message=loop.describe_loading())
        self._last_progress = loop.session.progress()
        return self._last_progress

    @property
    def waits(self) -> Sequence[str]:
        """The things that are waited for, in words: model calls under way, and models that failed."""
        session = self._current()
        return () if session is None else session.waits()

    @property
    def waiting_requests(self) -> int:
        """Number of requests that wait for the one before them to end."""
        return max(0, len(self._tickets) - 1)

    # -- requests and commands

    def submit(self, request: TaskRequest, on_phase: OnPhase | None = None) -> Ticket:
        """Start a request. One that cannot be carried out ends with a TaskOutcome that says why.

        `on_phase` is called on the engine's thread.
        """
        sent = None if request.storyboard is None else request.storyboard.id
        ticket, loop = Ticket(request.storyboard_id or sent or uuid4(), self._cancel), self._loop
        if loop is None or not self._active:
            return ticket.refuse(request, NOT_ACTIVE)
        if (problem := problem_of(request, self._settings, self._preset, self._saved_boards)) is not None:
            return ticket.refuse(request, problem)
        self._tickets.add(ticket)
        loop.call(self._start_session, loop, ticket, request, on_phase)
        if not self._active:  # stopped meanwhile, so that the request will not be started
            self._settle(ticket, TaskOutcome(self.board, *DEACTIVATED))
        return ticket

    def command(self, command: TaskCommand, reason: str = "") -> CodedText:
        """Pause, resume, re-plan or cancel the task under way."""
        if (problem := too_long("reason", reason, self._settings)) is not None:
            return problem
        loop, session = self._loop, self._current()
        if loop is None or session is None:
            return ErrorCode.NO_TASK, f"there is no task to {command}"
        live = session.live
        if command == "cancel":
            session.ticket.cancel(reason or "cancelled by an operator")
        elif command == "replan":
            if live.board.active is None and not session.confirms:
                return ErrorCode.INVALID_REQUEST, "nothing is being executed that could be re-planned"
            loop.call(live.give, Order("replan", reason=reason or "ordered"))
        elif not live.executes:
            return ErrorCode.INVALID_REQUEST, "a storyboard that is only generated has nothing to pause"
        else:
            loop.call(live.pause, command == "pause")
        return ErrorCode.NONE, ""

    def set_step(self, index: int, status: str) -> CodedText:
        """Go to a step, or mark the active one; `status` is active, completed, skipped or failed."""
        loop, session = self._loop, self._current()
        board = session.live.board if session is not None else Board()
        active = board.active
        if loop is None or session is None or (active is None and not session.confirms):
            return ErrorCode.NO_TASK, "no task is being executed"
        if not 0 <= index < len(board.steps):
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
            loop.call(session.live.give, Order(status, index, board.revision))
            return ErrorCode.NONE, ""
        return ErrorCode.INVALID_REQUEST, text

    def _current(self) -> Session | None:
        loop = self._loop
        return None if loop is None else loop.current

    def _cancel(self, ticket: Ticket, error: ErrorCode, message: str) -> None:
        if (loop := self._loop) is not None:
            loop.call(self._stop_session, loop, ticket, error, message)

    # -- on the event loop

    def _start_session(
        self, loop: EngineLoop, ticket: Ticket, request: TaskRequest, on_phase: OnPhase | None
    ) -> None:
        if not self._active or ticket.done:
            return
        previous, settings = loop.session, self._settings
        preset = preset_of_task(settings, self._preset)
        board = first_board(request, ticket.id, self._saved_boards, self._names, settings, preset)
        camera = LiveCamera(self._newest, settings, self._explain_silence)
        request = replace(request, task=board.task)
        live = LiveTask(request, settings, preset, board, camera, self._listener, self._now, on_phase)
        loop.session = session = Session(ticket, live, loop.wait_for_models, loop.describe_loading)
        if previous is not None and not previous.ticket.done:
            previous.stop(ErrorCode.PREEMPTED, "a newer task came")
        session.coroutine = asyncio.create_task(_run_after(previous, session), name="goalreel-task")
        session.coroutine.add_done_callback(lambda _: self._finish_session(session))

    def _stop_session(self, loop: EngineLoop, ticket: Ticket | None, error: ErrorCode, message: str) -> None:
        session = loop.current
        if session is not None and ticket in (None, session.ticket):
            session.stop(error, message)

    def _finish_session(self, session: Session) -> None:
        ticket, coroutine = session.ticket, session.coroutine
        if coroutine.cancelled():  # before it started
            outcome = session.end(*session.reason)
        elif (error := coroutine.exception()) is not None:
            log.error("the task ended with an error", exc_info=error)
            outcome = session.end(ErrorCode.UNKNOWN, one_line(error))
        else:
            outcome = coroutine.result()
        if outcome.board.state == "ready":
            self._saved_boards[ticket.id] = outcome.board
            if len(self._saved_boards) > MAX_SAVED_BOARDS:
                self._saved_boards.popitem(last=False)
        self._settle(ticket, outcome)

    def _settle(self, ticket: Ticket, outcome: TaskOutcome) -> None:
        self._tickets.discard(ticket)
        if not ticket.done:
            ticket.outcome.set_result(outcome)


async def _run_after(previous: Session | None, session: Session) -> TaskOutcome:
    if previous is not None:
        await asyncio.wait([previous.coroutine])
    return await session.run()
