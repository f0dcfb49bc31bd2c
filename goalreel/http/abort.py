"""Ends HTTP requests that nobody waits for any more, so that their server stops work on them."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context


class CallAbortedError(Exception):
    """Nobody waits for the answer of this call any more."""


class Abort:
    """Ends the requests of one call, from any thread."""

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._lock = threading.Lock()
        self._closers: list[Callable[[], object]] = []

    def request(self) -> None:
        """End the requests under way, and let no further one begin."""
        with self._lock:
            self._requested.set()
            closers = tuple(self._closers)
        for close in closers:
            close()

    def run[Result](self, call: Callable[[], Result]) -> Result:
        """Make a call whose requests `request` ends; they may be in threads of their own."""
        context = copy_context()
        context.run(_current.set, self)
        return context.run(call)

    @contextmanager
    def closing(self, close: Callable[[], object]) -> Iterator[None]:
        """While in here, `close` ends a request; it may be called late.

        Raises:
            CallAbortedError: nobody waits any more.
        """
        with self._lock:
            self._closers.append(close)
            requested = self._requested.is_set()
        try:
            if requested:
                raise CallAbortedError
            yield
        finally:
            with self._lock:
                self._closers.remove(close)

    def sleep(self, seconds: float) -> None:
        """Sleep, as long as somebody waits.

        Raises:
            CallAbortedError: nobody waits any more.
        """
        if self._requested.wait(seconds):
            raise CallAbortedError


# A model may call its server from any thread or event loop of its own: the abort travels in their context.
_current: ContextVar[Abort | None] = ContextVar("goalreel_abort", default=None)


def current_abort() -> Abort:
    """Give what ends the requests of the present call."""
    return _current.get() or Abort()


async def run_abortable[Result](call: Callable[[], Awaitable[Result]]) -> Result:
    """Make the present call in an event loop of its own, where aborting cancels it.

    Raises:
        CallAbortedError: nobody waits any more.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def cancel() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(task.cancel)

    with current_abort().closing(cancel):
        return await call()
