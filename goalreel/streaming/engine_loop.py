"""The event loop, its thread and the models, which live from the engine's `start` to its `stop`."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from goalreel.extras import absent
from goalreel.models.trio import Trio
from goalreel.streaming.board import ErrorCode, ModelNames
from goalreel.streaming.execution import Execution
from goalreel.streaming.model_caller import ModelCaller, ModelThread
from goalreel.streaming.task_end import TaskEnded
from goalreel.types import Role


class EngineLoop:
    """Runs an event loop in a thread of its own, which loads the models and carries requests out."""

    def __init__(self, build: Callable[[], Trio]) -> None:
        self._ready, self._closing = threading.Event(), asyncio.Event()
        self._build = build
        self._loading: tuple[Role | None, float] = None, time.monotonic()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main()), name="goalreel-engine", daemon=True
        )
        self.loop: asyncio.AbstractEventLoop
        self.models: asyncio.Task[ModelCaller]
        self.execution: Execution | None = None
        """The newest execution, which may have ended."""
        self._thread.start()
        self._ready.wait()

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.models = asyncio.create_task(self._load(), name="goalreel-load")
        self._ready.set()
        await self._closing.wait()

    async def _load(self) -> ModelCaller:
        worker = ModelThread("goalreel-load")
        try:
            return ModelCaller(await worker.call(self._build_models))
        finally:
            worker.close()

    def _build_models(self) -> Trio:
        trio = self._build()
        trio.prepare(self._note_loading)
        return trio

    def _note_loading(self, role: Role) -> None:
        self._loading = role, time.monotonic()

    async def wait_for_models(self) -> ModelCaller:
        """Wait for the models.

        Raises:
            TaskEnded: they cannot be loaded.
        """
        await asyncio.wait([self.models])
        if (error := self.models.exception()) is not None:
            raise TaskEnded(ErrorCode.MODELS_NOT_LOADED, one_line(error))
        return self.models.result()

    def describe_loading(self, names: ModelNames) -> str:
        """Say which model of `names` is being loaded; empty once all are loaded or one has failed to load."""
        if self.models.done():
            return ""
        role, since = self._loading
        what = "the models" if role is None else f"the {role} ({getattr(names, role)})"
        return f"loading {what} for {time.monotonic() - since:.0f} s"

    @property
    def current(self) -> Execution | None:
        """The execution that has not ended yet, if any."""
        execution = self.execution
        return None if execution is None or execution.ticket.done else execution

    def call[*Arguments](self, function: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
        """Call a function on the loop, from any thread. Does nothing once the loop has ended."""
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(function, *arguments)

    def close(self) -> None:
        """End the loop and release the models. Takes half a second at most."""
        self.call(self._closing.set)
        self._thread.join(0.5)
        if self.models.done() and not self.models.cancelled() and self.models.exception() is None:
            self.models.result().close()


def one_line(error: BaseException) -> str:
    """Give an error's message in one line; for a missing package, how to install it."""
    if isinstance(error, ModuleNotFoundError) and (message := absent(error)) is not None:
        return message
    return (str(error) or type(error).__name__).splitlines()[0]
