"""The caller of a model that runs elsewhere: it may stop waiting, and it hears of retries.

A model may call its server from any thread: both travel in the context of the call.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any


class CallAbortedError(Exception):
    """Nobody waits for the answer of this call any more."""


class Abort:
    """Ends the requests of one call, from any thread."""

    def __init__(self) -> None:
        self.retries = 0
        """Retries of the requests so far."""
        self.problem = ""
        """The reason of the last retry, in one line."""
        self._requested = False
        self._lock = threading.Lock()
        self._closers: list[Callable[[], object]] = []

    def request(self) -> None:
        """End the requests under way, and let no further one begin."""
        with self._lock:
            self._requested = True
            closers = tuple(self._closers)
        for close in closers:
            close()

    def run[Result](self, call: Callable[[], Result]) -> Result:
        """Make a call whose requests `request` ends; they may be in threads of their own."""
        context = copy_context()
        context.run(_abort.set, self)
        return context.run(call)

    @contextmanager
    def closing(self, close: Callable[[], object]) -> Iterator[None]:
        """While in here, `close` ends a request; raises CallAbortedError where nobody waits any more."""
        with self._lock:
            self._closers.append(close)
            requested = self._requested
        try:
            if requested:
                raise CallAbortedError
            yield
        finally:
            with self._lock:
                self._closers.remove(close)


_abort: ContextVar[Abort | None] = ContextVar("goalreel_abort", default=None)


def current_abort() -> Abort:
    """Return the object that ends the requests of the present call."""
    return _abort.get() or Abort()


def report_retry(number: int, problem: str) -> None:
    """Tell the caller that a request is sent for another time, the `number`th retry, and why."""
    abort = current_abort()
    abort.retries, abort.problem = number, problem


def probe(model: Any) -> str | None:
    """Ask the server of a model by the model's own `probe`; None where it has none, and so no server."""
    return model.probe() if hasattr(model, "probe") else None
