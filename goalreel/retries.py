"""Tells whoever waits for a model that its server is being asked again."""

from collections.abc import Callable
from contextvars import ContextVar, copy_context

# A model may call its server from any thread or event loop of its own: the listener travels in their context.
_listener: ContextVar[Callable[[int], None] | None] = ContextVar("goalreel_retries", default=None)


def hearing_retries[Result](call: Callable[[], Result], listener: Callable[[int], None]) -> Result:
    """Make a call; `listener` is told the number of each retry in it, from 1, in whatever thread that is."""
    context = copy_context()
    context.run(_listener.set, listener)
    return context.run(call)


def retrying(number: int) -> None:
    """Say that a server is asked again, for the `number`th time, if anybody listens."""
    if (listener := _listener.get()) is not None:
        listener(number)
