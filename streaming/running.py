"""What lives from the engine's `start` to its `stop`: the event loop, its thread, the models, the task."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from uuid import UUID

from goalreel.installed import absent
from goalreel.models.load import Trio
from goalreel.streaming.board import ErrorCode
from goalreel.streaming.caller import Caller, Worker
from goalreel.streaming.ending import Ended
from goalreel.streaming.job import Outcome
from goalreel.streaming.live import LiveBoard
from goalreel.streaming.orders import Orders
from goalreel.streaming.session import Session


class Job:
    """A submitted request. `id` is that of the storyboard it makes or executes.

    `outcome` holds no exception: what goes wrong with a model or a camera is an Outcome.
    """

    def __init__(self, job_id: UUID, cancel: Callable[["Job", ErrorCode, str], None]) -> None:
        self.id = job_id
        self.outcome: Future[Outcome] = Future()
        self._cancel = cancel

    def cancel(self, reason: str = "cancelled") -> None:
        """Ask it to stop. The outcome (CANCELED) follows at once; the models are idle within one call."""
        self._cancel(self, ErrorCode.CANCELED, reason)


class Run:
    """A job with what carries it out."""

    def __init__(self, job: Job, session: Session, live: LiveBoard, orders: Orders) -> None:
        self.job, self.session, self.live, self.orders = job, session, live, orders
        self.task: asyncio.Task[Outcome]

    def stop(self, error: ErrorCode, message: str) -> None:
        """End the task, from the event loop."""
        self.session.reason = error, message
        self.task.cancel()


class Running:
    """The event loop in its thread, and the models."""

    def __init__(self, build: Callable[[], Trio]) -> None:
        self._ready = threading.Event()
        self._build = build
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main()), name="goalreel-engine", daemon=True
        )
        self.loop: asyncio.AbstractEventLoop
        self.models: asyncio.Task[Caller]
        self.run: Run | None = None
        self._thread.start()
        self._ready.wait()

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self.models = asyncio.create_task(self._load(), name="goalreel-load")
        self._ready.set()
        await self._closing.wait()

    async def _load(self) -> Caller:
        worker = Worker("goalreel-load")
        try:
            trio = await worker.call(self._build)
        finally:
            worker.close()
        return Caller(trio)

    async def loaded(self) -> Caller:
        """Wait for the models.

        Raises:
            Ended: they cannot be loaded.
        """
        await asyncio.wait([self.models])
        if (error := self.models.exception()) is not None:
            raise Ended(ErrorCode.MODELS_NOT_LOADED, one_line(error))
        return self.models.result()

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """From any thread. What a loop that has ended is told is lost."""
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(function, *arguments)

    def close(self) -> None:
        """End everything; takes half a second at most."""
        self.call(self._closing.set)
        self._thread.join(0.5)
        if self.models.done() and not self.models.cancelled() and self.models.exception() is None:
            self.models.result().close()


async def after(earlier: asyncio.Task[Outcome] | None, session: Session) -> Outcome:
    """Run a session once the task before it has ended."""
    if earlier is not None:
        await asyncio.wait([earlier])
    return await session.run()


def one_line(error: BaseException) -> str:
    """What an error says, without its trace; for a package that is missing, what brings it."""
    if isinstance(error, ModuleNotFoundError) and (said := absent(error)) is not None:
        return said
    return (str(error) or type(error).__name__).splitlines()[0]
