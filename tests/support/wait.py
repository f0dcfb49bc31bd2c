"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable


def until[Value](there: Callable[[], Value], timeout: float = 300.0) -> Value:
    """Wait for a condition and give its value; the limit only ends a test that hangs.

    It looks ever less often, down to 20 times a second: who is asked, a browser for one, is busy with that.
    """
    end, pause = time.monotonic() + timeout, 0.005
    while not (value := there()):
        assert time.monotonic() < end, f"nothing after {timeout:g} s"
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return value
