"""What ROS tests share: a domain of their own, and other processes that end when the test does."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from support.wait import until

ENV = {
    "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
    # 1-100 keeps clear of ephemeral ports; workers and sessions on one machine must not hear one another.
    "ROS_DOMAIN_ID": str(os.getpid() % 100 + 1),
}


class Other:
    """A Python process that says READY on its standard output; `lines` is what it said."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **ENV, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def say(self, line: str) -> None:
        """Write a line to its standard input."""
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    def stop(self, how: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("it did not end:\n" + "\n".join(self.lines)) from None
        self._reader.join(10)
        return code


@contextmanager
def other(*command: str, ready: str = "READY") -> Iterator[Other]:
    """A process of `python COMMAND...`, once it said `ready`."""
    it = Other(*command)
    try:
        until(lambda: any(ready in line for line in it.lines) or it.process.poll() is not None, 60)
        assert it.process.poll() is None, "\n".join(it.lines)
        yield it
    finally:
        it.stop()
