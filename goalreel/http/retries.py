"""Which HTTP requests are worth another try, after which pause, and who hears of it."""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_BUSY = frozenset({408, 409, 429})

# A model may call its server from any thread or event loop of its own: the listener travels in their context.
_listener: ContextVar[Callable[[int], None] | None] = ContextVar("goalreel_retries", default=None)


def is_transient(status: int) -> bool:
    """Whether the same request may be answered soon: any 5xx, Cloudflare's 520 to 524 too, but not 501."""
    return status in _BUSY or (status >= 500 and status != 501)


def retry_after_s(headers: Mapping[str, str]) -> float:
    """The pause in seconds that a reply asks for, 0 without one: a number or a date (RFC 9110, 10.2.3).

    OpenAI's and Azure's servers may ask for milliseconds.
    """
    for name, unit in (("Retry-After-Ms", 1000), ("Retry-After", 1)):
        with suppress(ValueError):
            return _pause(float(headers.get(name, "")) / unit)
    try:
        date = parsedate_to_datetime(headers.get("Retry-After", ""))
    except ValueError:
        return 0.0
    return _pause((date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _pause(seconds: float) -> float:
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def with_retry_listener[Result](call: Callable[[], Result], listener: Callable[[int], None]) -> Result:
    """Make a call and pass the number of each retry in it, from 1, to `listener`, in the retrying thread."""
    context = copy_context()
    context.run(_listener.set, listener)
    return context.run(call)


def report_retry(number: int) -> None:
    """Tell the listener, if there is one, that a request is sent for another time, the `number`th retry."""
    if (listener := _listener.get()) is not None:
        listener(number)
