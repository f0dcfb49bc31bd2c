"""One running storyboard behind a thread-safe face: what a ROS node, or any robot's own loop, talks to."""

import asyncio
import concurrent.futures
import gc
import logging
import math
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal
from uuid import UUID, uuid4

from goalreel.models.load import Trio
from goalreel.models.presets import Preset
from goalreel.streaming.board import Board, BoardProgress, CodedText, ErrorCode, Frame, ModelNames, Phase
from goalreel.streaming.camera import LiveCamera
from goalreel.streaming.engine_loop import EngineLoop, one_line
from goalreel.streaming.execution import Execution
from goalreel.streaming.live_board import LiveBoard
from goalreel.streaming.operator_commands import Orders, Override
from goalreel.streaming.preset_settings import names_of, preset_of, preset_of_task
from goalreel.streaming.request import EXCERPT, BoardListener, TaskOutcome, TaskRequest, excerpt
from goalreel.streaming.session import Session
from goalreel.streaming.settings import EngineSettings
from goalreel.streaming.ticket import Ticket

log = logging.getLogger(__name__)

type TaskCommand = Literal["pause", "resume", "replan", "cancel"]
type OnPhase = Callable[[Phase], None]
type Loading = Literal["unloaded", "loading", "ready", "failed"]

KEPT = 8
"""Storyboards that can still be executed by their id."""
NOT_ACTIVE: CodedText = (ErrorCode.NOT_ACTIVE, "the node is not active")
STOPPED: CodedText = (ErrorCode.PREEMPTED, "the node was deactivated")


class Engine:
    """Carries out one task at a time; the newest request wins, and the one under way ends as PREEMPTED."""

    def __init__(
        self,
        settings: EngineSettings,
        newest: Callable[[], Frame | None],
        listener: BoardListener,
        now: Callable[[], int],
        build: Callable[[Preset], Trio],
    ) -> None:
        """`newest` gives the newest camera frame (ValueError: it cannot be read), `now` the clock in ns.

        `build` makes the models of the preset that the settings name; it is called in a thread of its own.

        Raises:
            InputError: the settings name no preset that predicts.
        """
        self._settings = settings
        self._preset = preset_of(settings)
        self._names = names_of(self._preset)
        self._newest, self._listener, self._now, self._build = newest, listener, now, build
        self._loop: EngineLoop | None = None
        self._last = BoardProgress(Board())
        self._kept: OrderedDict[UUID, Board] = OrderedDict()
        self._tickets: set[Ticket] = set()
        """Of the requests that have not ended."""

    # -- life

    def start(self) -> None:
        """Load the models in the background."""
        if self._loop is None:
            self._loop = EngineLoop(partial(self._build, self._preset))

    def stop(self) -> None:
        """End the task under way as PREEMPTED and let the models go. Takes a second at most."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        execution = loop.execution
        if execution is not None:
            loop.call(execution.stop, *STOPPED)
        concurrent.futures.wait([ticket.outcome for ticket in tuple(self._tickets)], timeout=0.4)
        loop.close()
        execution = loop.execution
        if execution is not None:
            self._last = execution.session.progress()
        for ticket in tuple(self._tickets):
            self._settle(ticket, TaskOutcome(self.board, *STOPPED))
        del loop, execution
        gc.collect()
        if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    def configure(self, settings: EngineSettings) -> None:
        """Take the settings that are not read-only, from the next request on."""
        self._settings = settings

    # -- what it is doing

    @property
    def loading(self) -> tuple[Loading, str]:
        """Whether the models are there, and if not which one is awaited, or why they cannot be."""
        if self._loop is None:
            return "unloaded", ""
        models = self._loop.models
        if not models.done():
            return "loading", self._loop.loading(self._names)
        error = models.exception() if not models.cancelled() else None
        return ("ready", "") if error is None else ("failed", one_line(error))

    @property
    def models(self) -> ModelNames:
        """The names of planner, editor and critic, as they are published."""
        return self._names

    @property
    def board(self) -> Board:
        """The storyboard under way, or the last one."""
        return self.progress().board

    def progress(self) -> BoardProgress:
        """How far the storyboard under way, or the last one, is."""
        loop = self._loop
        if loop is None:
            return self._last
        if loop.execution is None:
            return replace(self._last, message=loop.loading(self._names))
        self._last = loop.execution.session.progress()
        return self._last

    # -- what it is told

    def submit(self, request: TaskRequest, on_phase: OnPhase | None = None) -> Ticket:
        """Start a request; one that cannot be carried out ends with a TaskOutcome that says so.

        `on_phase` is called on the engine's thread.
        """
        ticket, loop = Ticket(request.storyboard_id or uuid4(), self._cancel), self._loop
        if loop is None:
            return _refused(ticket, request, NOT_ACTIVE)
        if (problem := self._problem(request)) is not None:
            return _refused(ticket, request, problem)
        self._tickets.add(ticket)
        loop.call(self._begin, loop, ticket, request, on_phase)
        if self._loop is not loop:  # stopped meanwhile: nobody is left to begin it
            self._settle(ticket, TaskOutcome(self.board, *STOPPED))
        return ticket

    def command(self, command: TaskCommand, reason: str = "") -> CodedText:
        """Pause, resume, re-plan or cancel the task under way."""
        if (problem := self._too_long("reason", reason)) is not None:
            return problem
        execution = self._underway()
        if execution is None:
            return ErrorCode.NO_TASK, f"there is no task to {command}"
        if command == "cancel":
            self._cancel(execution.ticket, ErrorCode.CANCELED, reason or "cancelled by an operator")
        elif command != "replan":
            if not execution.session.executes:
                return ErrorCode.INVALID_REQUEST, "a storyboard that is only generated has nothing to pause"
            self._order(execution.orders.pause, command == "pause")
        elif execution.live.board.active is None:
            return ErrorCode.INVALID_REQUEST, "nothing is being executed that could be re-planned"
        else:
            self._order(execution.orders.ask_replan, reason)
        return ErrorCode.NONE, ""

    def set_step(self, index: int, status: str) -> CodedText:
        """The override of SetActiveStep.srv: `active`, `completed`, `skipped` or `failed`."""
        execution = self._underway()
        board = execution.live.board if execution is not None else None
        if execution is None or board is None or board.active is None:
            return ErrorCode.NO_TASK, "no task is being executed"
        active, steps = board.active.index, len(board.steps)
        if not 0 <= index < steps:
            return ErrorCode.INVALID_REQUEST, f"there is no step {index}: there are 0 to {steps - 1}"
        if status != "active" and index != active:
            return ErrorCode.INVALID_REQUEST, f"step {active} is the active one, not {index}"
        if status == "failed":
            self._cancel(execution.ticket, ErrorCode.STEP_FAILED, f"step {index} was marked as failed")
        elif status not in ("active", "completed", "skipped"):
            return ErrorCode.INVALID_REQUEST, f"a step cannot be made {status}"
        elif board.state == "planning":
            return ErrorCode.INVALID_REQUEST, f"step {active} and what follows are being planned anew"
        else:
            self._order(execution.orders.ask_override, Override(index, status, board.revision))
        return ErrorCode.NONE, ""

    # -- inside

    def _problem(self, request: TaskRequest) -> CodedText | None:
        if not math.isfinite(request.timeout) or request.timeout < 0:
            return ErrorCode.INVALID_REQUEST, f"a timeout is 0 or more seconds, not {request.timeout}"
        for name, text in (("task", request.task), ("auxiliary text", request.auxiliary_text)):
            if (problem := self._too_long(name, text)) is not None:
                return problem
        if request.storyboard_id is None:
            return None if request.task.strip() else (ErrorCode.INVALID_REQUEST, "the task is empty")
        kept = self._kept.get(request.storyboard_id)
        if kept is None:
            return ErrorCode.INVALID_REQUEST, f"there is no storyboard {request.storyboard_id}"
        if request.task.strip() not in ("", kept.task):
            return ErrorCode.INVALID_REQUEST, f"that storyboard is for another task: {excerpt(kept.task)!r}"
        return None

    def _too_long(self, name: str, text: str) -> CodedText | None:
        limit = self._settings.max_instruction_length
        if len(text) <= limit:
            return None
        said = f"the {name} has {len(text)} characters, {limit} are allowed (max_instruction_length)"
        return ErrorCode.INVALID_REQUEST, said

    def _underway(self) -> Execution | None:
        loop = self._loop
        return None if loop is None else loop.underway

    def _order[*Arguments](self, give: Callable[[*Arguments], None], *arguments: *Arguments) -> None:
        loop = self._loop
        if loop is not None:
            loop.call(give, *arguments)

    def _cancel(self, ticket: Ticket, error: ErrorCode, message: str) -> None:
        loop = self._loop
        if loop is None:
            return

        def stop() -> None:
            execution = loop.underway
            if execution is not None and execution.ticket is ticket:
                execution.stop(error, message)

        loop.call(stop)

    def _begin(
        self, loop: EngineLoop, ticket: Ticket, request: TaskRequest, on_phase: OnPhase | None
    ) -> None:
        earlier, orders = loop.execution, Orders()
        settings = self._settings
        preset = preset_of_task(settings, self._preset)
        board = Board(id=ticket.id, task=request.task, models=self._names)
        if request.storyboard_id is not None:
            board = self._kept[request.storyboard_id]
        live = LiveBoard(board, self._listener, self._now, on_phase, orders.wake)
        camera = LiveCamera(self._newest, settings)
        loading = partial(loop.loading, self._names)
        asked = replace(request, task=board.task)
        session = Session(asked, settings, preset, live, camera, loop.loaded, loading, orders)
        loop.execution = execution = Execution(ticket, session, live, orders)
        if earlier is not None and not earlier.ticket.done:
            earlier.stop(ErrorCode.PREEMPTED, "a newer task came")
        execution.begin(earlier, self._ended)

    def _ended(self, execution: Execution, coroutine: asyncio.Task[TaskOutcome]) -> None:
        ticket, session = execution.ticket, execution.session
        if coroutine.cancelled():  # before it began
            self._settle(ticket, session.end(*session.reason))
        elif (error := coroutine.exception()) is not None:
            log.error("the task ended by an error", exc_info=error)
            self._settle(ticket, session.end(ErrorCode.UNKNOWN, one_line(error)))
        else:
            outcome = coroutine.result()
            if outcome.board.state == "ready":
                self._kept[ticket.id] = outcome.board
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._settle(ticket, outcome)

    def _settle(self, ticket: Ticket, outcome: TaskOutcome) -> None:
        self._tickets.discard(ticket)
        if not ticket.done:
            ticket.outcome.set_result(outcome)


def _refused(ticket: Ticket, request: TaskRequest, why: CodedText) -> Ticket:
    board = Board(id=ticket.id, task=request.task[:EXCERPT], state="failed")
    ticket.outcome.set_result(TaskOutcome(board, *why))
    return ticket
