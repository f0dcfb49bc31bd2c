"""What lives from the engine's `start` to its `stop`: the event loop, its thread, the models."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from goalreel.extras import absent
from goalreel.models.load import Trio
from goalreel.models.registry import Role
from goalreel.streaming.board import ErrorCode, ModelNames
from goalreel.streaming.execution import Execution
from goalreel.streaming.model_caller import Caller, ModelThread
from goalreel.streaming.task_end import TaskEnded


class EngineLoop:
    """Runs an event loop in a thread of its own, on which the models load and requests are carried out."""

    def __init__(self, build: Callable[[], Trio]) -> None:
        self._ready, self._closing = threading.Event(), asyncio.Event()
        self._build = build
        self._loading: tuple[Role | None, float] = None, time.monotonic()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main()), name="goalreel-engine", daemon=True
        )
        self.loop: asyncio.AbstractEventLoop
        self.models: asyncio.Task[Caller]
        self.execution: Execution | None = None
        """The newest, which may have ended."""
        self._thread.start()
        self._ready.wait()

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.models = asyncio.create_task(self._load(), name="goalreel-load")
        self._ready.set()
        await self._closing.wait()

    async def _load(self) -> Caller:
        worker = ModelThread("goalreel-load")
        try:
            return Caller(await worker.call(self._built))
        finally:
            worker.close()

    def _built(self) -> Trio:
        trio = self._build()
        trio.prepare(self._load_next)
        return trio

    def _load_next(self, role: Role) -> None:
        self._loading = role, time.monotonic()

    async def loaded(self) -> Caller:
        """Wait for the models.

        Raises:
            Ended: they cannot be loaded.
        """
        await asyncio.wait([self.models])
        if (error := self.models.exception()) is not None:
            raise TaskEnded(ErrorCode.MODELS_NOT_LOADED, one_line(error))
        return self.models.result()

    def loading(self, names: ModelNames) -> str:
        """Say which model of `names` is being loaded; nothing once all are there, or one cannot be."""
        if self.models.done():
            return ""
        role, since = self._loading
        what = "the models" if role is None else f"the {role} ({getattr(names, role)})"
        return f"loading {what} for {time.monotonic() - since:.0f} s"

    @property
    def underway(self) -> Execution | None:
        """The execution that has not ended yet, if any."""
        execution = self.execution
        return None if execution is None or execution.ticket.done else execution

    def call[*Arguments](self, function: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
        """Call a function on the loop, from any thread; once the loop has ended the call is lost."""
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(function, *arguments)

    def close(self) -> None:
        """End the loop and let go of the models; takes half a second at most."""
        self.call(self._closing.set)
        self._thread.join(0.5)
        if self.models.done() and not self.models.cancelled() and self.models.exception() is None:
            self.models.result().close()


def one_line(error: BaseException) -> str:
    """Give what an error says, without its trace; for a package that is missing, what brings it."""
    if isinstance(error, ModuleNotFoundError) and (said := absent(error)) is not None:
        return said
    return (str(error) or type(error).__name__).splitlines()[0]
