"""Models in threads of their own: the loop never waits for one, and one that hangs or dies never stops it."""

import asyncio
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, overload, runtime_checkable

from goalreel.errors import BackendError
from goalreel.http import with_retry_listener
from goalreel.image import Image
from goalreel.loop import Answer, Request
from goalreel.models.load import Trio
from goalreel.planners.agents.planner import ReplanContext
from goalreel.streaming.board import ModelNames
from goalreel.types import Candidate, Edit, Failure, Plan, Stage, Task, Verdict

_ROLES: dict[Stage, str] = {"plan": "planner", "edit": "editor", "judge": "critic"}
LOOK = 0.2
"""Seconds between looks whether a call has begun, or has taken too long."""
COOL_DOWN = 10.0
"""Seconds for which a model that could not be called is not called again."""


@runtime_checkable
class Replanner(Protocol):
    """A Planner that can go on from a storyboard under way."""

    def continue_plan(self, progress: Sequence[ReplanContext]) -> Sequence[Plan | Failure]: ...


@dataclass
class Waiting:
    """A model call under way, `since` in seconds of `time.monotonic()`; `retries` are those of its server."""

    stage: Stage
    since: float = field(default_factory=time.monotonic)
    retries: int = 0

    def retry(self, number: int) -> None:
        """Take note of a retry; called in the model's thread."""
        self.retries = number

    def said(self, names: ModelNames) -> str:
        """Say what is waited for, of the models of those names."""
        role = _ROLES[self.stage]
        seconds = time.monotonic() - self.since
        again = f", retry {self.retries}" if self.retries else ""
        return f"waiting for the {role} ({getattr(names, role)}) for {seconds:.0f} s{again}"


@dataclass
class _Work:
    run: Callable[[], object]
    timeout: float | None
    answer: Future = field(default_factory=Future)
    began: float = math.inf

    def left(self) -> float:
        """Seconds until it has taken too long, counted from when it began."""
        return math.inf if self.timeout is None else self.began + self.timeout - time.monotonic()


class _Lane:
    """One thread and what is queued for it."""

    def __init__(self, name: str) -> None:
        self.queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self.busy_with: _Work | None = None
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while (work := self.queue.get()) is not None:
            if not work.answer.set_running_or_notify_cancel():
                continue
            work.began, self.busy_with = time.monotonic(), work
            try:
                result = work.run()
            except BaseException as e:  # noqa: BLE001  (whoever waits gets it, whatever it is)
                work.answer.set_exception(e)
            else:
                work.answer.set_result(result)
            self.busy_with = work = None


class ModelThread:
    """A thread that makes calls one after the other. A call that hangs does not hold up the exit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lane = _Lane(name)

    async def call[Result](self, run: Callable[[], Result], timeout: float | None = None) -> Result:
        """Run it and wait, without blocking the loop.

        A call may take `timeout` seconds from when it begins; what is queued waits for the one before it, as
        long as that one may take. One that takes too long (TimeoutError) keeps its thread, and another takes
        over with what is queued. When whoever waits is cancelled, a call under way goes on to its end and one
        that has not begun never does.
        """
        work = _Work(run, timeout)
        self._lane.queue.put(work)
        answer = asyncio.wrap_future(work.answer)
        try:
            while not answer.done():
                await asyncio.wait([answer], timeout=min(max(work.left(), 0.0), LOOK))
                before = self._lane.busy_with
                if before is not None and before.left() <= 0:
                    self._take_over()
                if work.left() <= 0 and not answer.done():
                    raise TimeoutError
            return answer.result()
        finally:
            answer.cancel()

    def close(self) -> None:
        """The thread ends after what it has begun."""
        self._lane.queue.put(None)

    def _take_over(self) -> None:
        """Another thread makes what is queued for one that hangs."""
        hung, self._lane = self._lane, _Lane(self._name)
        with suppress(queue.Empty):
            while True:
                self._lane.queue.put(hung.queue.get_nowait())
        hung.queue.put(None)


class Caller:
    """Asks the models one request at a time; whatever goes wrong with a model is a Failure."""

    def __init__(self, trio: Trio, timeout: float | None = None) -> None:
        self._trio = trio
        self.timeout = timeout
        """Seconds a call may take; None: any."""
        self._threads: dict[Stage, ModelThread] = {
            "plan": ModelThread("goalreel-plan"),
            "edit": ModelThread("goalreel-edit"),
            "judge": ModelThread("goalreel-judge"),
        }
        # A server answers several calls at once: a look at the robot need not hold up what is rendered ahead.
        remote = "judge" in trio.remote
        self._looks = ModelThread("goalreel-look") if remote else self._threads["judge"]
        self._down: dict[Stage, tuple[float, str]] = {}
        self._waiting: list[Waiting] = []

    @overload
    async def ask(self, request: Task) -> Plan | Failure: ...
    @overload
    async def ask(self, request: Edit) -> Image | Failure: ...
    @overload
    async def ask(self, request: Candidate) -> Verdict | Failure: ...
    async def ask(self, request: Request) -> Answer:
        """Ask the model that a request of the loop is for, and give its answer."""
        trio = self._trio
        match request:
            case Task():
                return await self._call("plan", lambda: trio.planner.plan([request]))
            case Edit():
                return await self._call("edit", lambda: trio.editor.edit([request]))
            case Candidate():
                return await self._call("judge", lambda: trio.critic.judge([request]))

    async def look(self, candidate: Candidate) -> Verdict | Failure:
        """Ask whether a live frame shows the sub-goal reached."""
        return await self._call("judge", lambda: self._trio.observer.judge([candidate]), self._looks)

    async def replan(self, progress: ReplanContext) -> Plan | Failure:
        """Ask for a plan for the rest. One that cannot go on plans anew, from the scene as it is now."""
        planner = self._trio.planner
        if isinstance(planner, Replanner):
            return await self._call("plan", lambda: planner.continue_plan([progress]))
        now = progress.storyboard.task.model_copy(update={"image": progress.image})
        return await self._call("plan", lambda: planner.plan([now]))

    def down(self, stage: Stage) -> str | None:
        """Say why a model cannot be called at present; None when it can."""
        since, reason = self._down.get(stage, (-COOL_DOWN, ""))
        return reason if time.monotonic() - since < COOL_DOWN else None

    def waiting(self) -> tuple[Waiting, ...]:
        """Give the calls whose answers are waited for. Any thread may ask."""
        return tuple(self._waiting)

    def close(self) -> None:
        for thread in (*self._threads.values(), self._looks):
            thread.close()

    async def _call[A](
        self, stage: Stage, run: Callable[[], Sequence[A | Failure]], thread: ModelThread | None = None
    ) -> A | Failure:
        if (reason := self.down(stage)) is not None:
            return Failure(stage=stage, message=reason)
        self._waiting.append(waiting := Waiting(stage))
        heard = partial(with_retry_listener, run, waiting.retry)
        try:
            answers = await (thread or self._threads[stage]).call(heard, self.timeout)
        except BackendError as e:
            reason = (str(e) or "the model cannot be called").splitlines()[0]
        except TimeoutError:
            reason = f"no answer within {self.timeout:g} s"
        else:
            self._down.pop(stage, None)
            return answers[0]
        finally:
            self._waiting.remove(waiting)
        self._down[stage] = time.monotonic(), reason
        return Failure(stage=stage, message=reason)
