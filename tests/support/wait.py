"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable


def until[Value](there: Callable[[], Value], timeout: float = 60.0) -> Value:
    """Wait for a condition and give its value; the limit only ends a test that hangs."""
    end = time.monotonic() + timeout
    while not (value := there()):
        assert time.monotonic() < end, f"nothing after {timeout:g} s"
        time.sleep(0.005)
    return value
