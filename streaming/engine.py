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

from goalreel.models.load import Trio, build_trio
from goalreel.models.presets import Preset
from goalreel.streaming.board import Board, ErrorCode, Frame, Models, Phase, Progress
from goalreel.streaming.camera import Camera
from goalreel.streaming.job import Listener, Outcome, Request
from goalreel.streaming.live import LiveBoard
from goalreel.streaming.loading import names_of, preset_of
from goalreel.streaming.orders import Orders
from goalreel.streaming.running import Job, Run, Running, after, one_line
from goalreel.streaming.session import Session
from goalreel.streaming.settings import Settings

log = logging.getLogger(__name__)

type Command = Literal["pause", "resume", "replan", "cancel"]
type Loading = Literal["unloaded", "loading", "ready", "failed"]

KEPT = 8
"""Storyboards that can still be executed by their id."""
STOPPED = ErrorCode.PREEMPTED, "the node was deactivated"


class Engine:
    """One task at a time; the newest request wins, and the one under way ends as PREEMPTED."""

    def __init__(
        self,
        settings: Settings,
        newest: Callable[[], Frame | None],
        listener: Listener,
        now: Callable[[], int],
        build: Callable[[Preset], Trio] = build_trio,
    ) -> None:
        """`newest` gives the newest camera frame (ValueError: it cannot be read), `now` the clock in ns.

        Raises:
            ValueError: the settings name no preset that predicts.
        """
        self._settings = settings
        self._preset = preset_of(settings)
        self._names = names_of(self._preset)
        self._newest, self._listener, self._now, self._build = newest, listener, now, build
        self._running: Running | None = None
        self._last = Progress(Board())
        self._kept: OrderedDict[UUID, Board] = OrderedDict()
        self._open: set[Job] = set()

    # -- life

    def start(self) -> None:
        """Load the models in the background."""
        if self._running is None:
            self._running = Running(partial(self._build, self._preset))

    def stop(self) -> None:
        """End the task under way as PREEMPTED and let the models go. Takes a second at most."""
        running, self._running = self._running, None
        if running is None:
            return
        if running.run is not None:
            running.call(running.run.stop, *STOPPED)
        concurrent.futures.wait([job.outcome for job in tuple(self._open)], timeout=0.4)
        running.close()
        if running.run is not None:
            self._last = running.run.session.progress()
        for job in tuple(self._open):
            self._settle(job, Outcome(self.board, *STOPPED))
        del running
        gc.collect()
        if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    def configure(self, settings: Settings) -> None:
        """Settings that are not read-only, from the next request on."""
        self._settings = settings

    # -- what it is doing

    @property
    def loading(self) -> tuple[Loading, str]:
        """Whether the models are there, and if not why not."""
        if self._running is None:
            return "unloaded", ""
        models = self._running.models
        if not models.done():
            return "loading", ""
        error = models.exception() if not models.cancelled() else None
        return ("ready", "") if error is None else ("failed", one_line(error))

    @property
    def models(self) -> Models:
        """Their names."""
        return self._names

    @property
    def board(self) -> Board:
        """The storyboard under way, or the last one."""
        return self.progress().board

    def progress(self) -> Progress:
        """How far it is."""
        running = self._running
        if running is not None and running.run is not None:
            self._last = running.run.session.progress()
        return self._last

    # -- what it is told

    def submit(self, request: Request, on_phase: Callable[[Phase], None] | None = None) -> Job:
        """Start a request; one that cannot be carried out ends with an Outcome that says so.

        `on_phase` is called on the engine's thread.
        """
        job = Job(request.storyboard_id or uuid4(), self._cancel)
        running, problem = self._running, self._problem(request)
        if running is None:
            problem = ErrorCode.NOT_ACTIVE, "the node is not active"
        if problem is not None or running is None:
            job.outcome.set_result(Outcome(Board(id=job.id, task=request.task, state="failed"), *problem))
            return job
        self._open.add(job)
        running.call(self._begin, running, job, request, on_phase)
        if self._running is not running:  # stopped meanwhile: nobody is left to begin it
            self._settle(job, Outcome(self.board, *STOPPED))
        return job

    def command(self, command: Command, reason: str = "") -> tuple[ErrorCode, str]:
        """Pause, resume, re-plan or cancel the task under way."""
        run = self._current()
        if run is None:
            return ErrorCode.NO_TASK, f"there is no task to {command}"
        if command == "cancel":
            self._cancel(run.job, ErrorCode.CANCELED, reason or "cancelled by an operator")
        elif command == "replan" and run.live.board.active is None:
            return ErrorCode.INVALID_REQUEST, "nothing is being executed that could be re-planned"
        else:
            self._order(run.orders, command, reason)
        return ErrorCode.NONE, ""

    def set_step(self, index: int, status: str) -> tuple[ErrorCode, str]:
        """The override of SetActiveStep.srv: `active`, `completed`, `skipped` or `failed`."""
        run = self._current()
        active = run.live.board.active if run is not None else None
        if run is None or active is None:
            return ErrorCode.NO_TASK, "no task is being executed"
        steps = len(run.live.board.steps)
        if not 0 <= index < steps:
            return ErrorCode.INVALID_REQUEST, f"there is no step {index}: there are 0 to {steps - 1}"
        if status == "active":
            self._order(run.orders, "override", (index, status))
        elif index != active.index:
            return ErrorCode.INVALID_REQUEST, f"step {active.index} is the active one, not {index}"
        elif status == "failed":
            self._cancel(run.job, ErrorCode.STEP_FAILED, f"step {index} was marked as failed")
        elif status in ("completed", "skipped"):
            self._order(run.orders, "override", (index, status))
        else:
            return ErrorCode.INVALID_REQUEST, f"a step cannot be made {status}"
        return ErrorCode.NONE, ""

    # -- inside

    def _problem(self, request: Request) -> tuple[ErrorCode, str] | None:
        if not math.isfinite(request.timeout) or request.timeout < 0:
            return ErrorCode.INVALID_REQUEST, f"a timeout is 0 or more seconds, not {request.timeout}"
        if request.storyboard_id is None:
            return None if request.task.strip() else (ErrorCode.INVALID_REQUEST, "the task is empty")
        kept = self._kept.get(request.storyboard_id)
        if kept is None:
            return ErrorCode.INVALID_REQUEST, f"there is no storyboard {request.storyboard_id}"
        if request.task.strip() not in ("", kept.task):
            return ErrorCode.INVALID_REQUEST, f"that storyboard is for another task: {kept.task!r}"
        return None

    def _current(self) -> Run | None:
        run = self._running.run if self._running is not None else None
        return run if run is not None and not run.job.outcome.done() else None

    def _order(self, orders: Orders, name: str, value: object) -> None:
        running = self._running
        if running is not None:
            running.call(orders.give, name, value)

    def _cancel(self, job: Job, error: ErrorCode, message: str) -> None:
        running = self._running
        if running is None:
            return

        def stop() -> None:
            if running.run is not None and running.run.job is job and not job.outcome.done():
                running.run.stop(error, message)

        running.call(stop)

    def _begin(
        self, running: Running, job: Job, request: Request, on_phase: Callable[[Phase], None] | None
    ) -> None:
        previous, orders = running.run, Orders()
        attempts = self._settings.max_attempts or self._preset.max_attempts
        settings = self._settings.model_copy(update={"max_attempts": attempts})
        board = Board(id=job.id, task=request.task, models=self._names)
        if request.storyboard_id is not None:
            board = self._kept[request.storyboard_id]
        live = LiveBoard(board, self._listener, self._now, on_phase, orders.wake)
        camera = Camera(self._newest, settings)
        session = Session(replace(request, task=board.task), settings, live, camera, running.loaded, orders)
        run = running.run = Run(job, session, live, orders)
        earlier = previous.task if previous is not None else None
        if previous is not None and not previous.job.outcome.done():
            previous.stop(ErrorCode.PREEMPTED, "a newer task came")
        run.task = asyncio.create_task(after(earlier, session), name="goalreel-task")
        run.task.add_done_callback(lambda task: self._ended(run, task))

    def _ended(self, run: Run, task: asyncio.Task[Outcome]) -> None:
        if task.cancelled():  # before it began
            self._settle(run.job, run.session.end(*run.session.reason))
        elif (error := task.exception()) is not None:
            log.error("the task ended by an error", exc_info=error)
            self._settle(run.job, run.session.end(ErrorCode.UNKNOWN, one_line(error)))
        else:
            outcome = task.result()
            if outcome.board.state == "ready":
                self._kept[run.job.id] = outcome.board
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._settle(run.job, outcome)

    def _settle(self, job: Job, outcome: Outcome) -> None:
        self._open.discard(job)
        if not job.outcome.done():
            job.outcome.set_result(outcome)
