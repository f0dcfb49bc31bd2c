"""The engine's event loop and thread, in which the models are loaded and their servers probed."""

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Literal

from goalreel.errors import BackendError, UserError, first_line
from goalreel.extras import absent
from goalreel.http.probe import probe
from goalreel.models.model_set import ModelSet
from goalreel.streaming.board import ErrorCode, ModelNames
from goalreel.streaming.model_caller import ModelCaller, ModelQueue
from goalreel.streaming.request import TaskEnded
from goalreel.streaming.session import Session
from goalreel.types import ROLES, Role

log = logging.getLogger(__name__)

PAUSE_S = 0.5
"""Seconds between two probes of a server that does not answer yet."""

type Loading = Literal["unloaded", "loading", "ready", "failed"]


class Probes:
    """One probe a role. `names` are the published names of the models."""

    def __init__(self, model_set: ModelSet, names: ModelNames) -> None:
        self._model_set, self._names = model_set, names
        self.answers: dict[Role, str] = {}
        """The answer of each server; without those of models that ask no server."""
        self._remarks: dict[Role, str] = {}
        self._problems: dict[Role, str] = {}

    async def run(self, timeout: float) -> None:
        """Probe all servers, for `timeout` seconds at most where one does not answer.

        Raises:
            UserError: one does not answer, or the address, the key or the model's name is wrong.
        """
        late = time.monotonic() + timeout
        tasks = [asyncio.create_task(self._probe(role, timeout, late)) for role in ROLES]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        if problem := self.describe():
            raise BackendError(problem)

    def describe(self) -> str:
        """Say which servers do not answer, in one line."""
        names: dict[str, list[str]] = {}
        for role in ROLES:
            if problem := self._problems.get(role):
                names.setdefault(problem, []).append(f"{role} ({getattr(self._names, role)})")
        return "; ".join(f"{', '.join(each)}: {problem}" for problem, each in names.items())

    @property
    def remarks(self) -> list[str]:
        """Things to look at although all servers answered."""
        return [f"the {role}: {self._remarks[role]}" for role in ROLES if role in self._remarks]

    async def _probe(self, role: Role, timeout: float, late: float) -> None:
        queue, ask = ModelQueue(f"goalreel-probe-{role}"), partial(probe, getattr(self._model_set, role))
        while True:
            began = time.monotonic()
            try:
                remark = await queue.call(ask, max(PAUSE_S, late - began))
                break
            except (BackendError, TimeoutError) as e:
                self._problems[role] = str(e) or f"no answer within {timeout:g} s"
                if time.monotonic() + PAUSE_S > late:
                    return
            await asyncio.sleep(PAUSE_S)
        self._problems.pop(role, None)
        if remark is not None:
            self.answers[role] = f"answered in {time.monotonic() - began:.3f} s"
        if remark:
            self._remarks[role] = remark


class EngineLoop:
    """Runs an event loop in a thread of its own, which loads the models and carries requests out."""

    def __init__(
        self, build: Callable[[], ModelSet], names: ModelNames, report: Callable[[str], object] = log.info
    ) -> None:
        """`names` are the published names of the models. `report` is called with what is being loaded."""
        self._build, self._names, self._report = build, names, report
        self._model_set: ModelSet
        self.probes: Probes | None = None
        """The last probes of the models' servers."""
        self._loading: tuple[Role | None, float] = None, time.monotonic()
        self.session: Session | None = None
        """The newest session, which may have ended."""
        self._models: asyncio.Task[ModelCaller]
        self._loop: asyncio.AbstractEventLoop
        self._ready, self._closing = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main()), name="goalreel-engine", daemon=True
        )
        self._thread.start()
        self._ready.wait()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._models = asyncio.create_task(self._load(), name="goalreel-load")
        self._ready.set()
        await self._closing.wait()

    async def _load(self) -> ModelCaller:
        def build() -> ModelSet:
            model_set = self._build()
            model_set.prepare(self._note_loading)
            return model_set

        self._model_set = await ModelQueue("goalreel-load").call(build)
        return ModelCaller(self._model_set)

    def _note_loading(self, role: Role) -> None:
        self._loading = role, time.monotonic()
        self._report(f"loading {self._loaded}")

    @property
    def _loaded(self) -> str:
        """The model that is being loaded, or was when that failed."""
        role = self._loading[0]
        return "the models" if role is None else f"the {role} ({getattr(self._names, role)})"

    def wait[Result](self, coroutine: Coroutine[object, object, Result]) -> bool:
        """Run a coroutine on the loop and wait for it, in another thread. False if the loop ends before."""
        try:
            asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
        except concurrent.futures.CancelledError:
            return False
        except RuntimeError:  # the loop is closed
            coroutine.close()
            return False
        return True

    async def require_models(self) -> None:
        """Wait for the models.

        Raises:
            UserError: they cannot be loaded. One line says which one, and why.
        """
        await asyncio.wait([self._models])
        if (error := self._models.exception()) is not None:
            log.info("traceback of this error:", exc_info=error)
            if isinstance(error, UserError) and self._loading[0] is None:
                raise error  # a name, before anything was loaded
            raise BackendError(f"{self._loaded} cannot be loaded: {one_line(error)}")

    async def probe(self, timeout: float) -> None:
        """Probe the models' servers.

        Raises:
            UserError: as `require_models` and `Probes.run`.
        """
        await self.require_models()
        self.probes = Probes(self._model_set, self._names)
        await self.probes.run(timeout)

    async def wait_for_models(self) -> ModelCaller:
        """Wait for the models.

        Raises:
            TaskEnded: they cannot be loaded.
        """
        await asyncio.wait([self._models])
        if (error := self._models.exception()) is not None:
            raise TaskEnded(ErrorCode.MODELS_NOT_LOADED, one_line(error))
        return self._models.result()

    def describe_loading(self) -> str:
        """Say which model is being loaded, or which server does not answer. Empty once all are ready, or one
        cannot be loaded."""
        if self._models.done():
            return self.probes.describe() if self.probes else ""
        return f"loading {self._loaded} for {time.monotonic() - self._loading[1]:.0f} s"

    @property
    def loading(self) -> tuple[Loading, str]:
        """The state of the models; while they load, which one; where they failed, the reason."""
        if not self._models.done():
            return "loading", self.describe_loading()
        error = None if self._models.cancelled() else self._models.exception()
        return ("ready", "") if error is None else ("failed", one_line(error))

    @property
    def current(self) -> Session | None:
        """The session that has not ended yet, if any."""
        session = self.session
        return None if session is None or session.ticket.done else session

    def call[*Arguments](self, function: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
        """Call a function on the loop, from any thread. Does nothing once the loop has ended."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)

    def close(self) -> None:
        """End the loop. Takes half a second at most."""
        self.call(self._closing.set)
        self._thread.join(0.5)


def one_line(error: BaseException) -> str:
    """Give an error's message in one line; for a missing package, how to install it."""
    if isinstance(error, ModuleNotFoundError) and (message := absent(error)) is not None:
        return message
    return first_line(error)
