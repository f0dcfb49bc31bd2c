"""Helpers of the ROS tests: a domain of their own, and other processes that end when the test does."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from goalreel.errors import DatasetError
from goalreel.files import file_lock
from support.wait import until


def own_domain() -> int:
    """Hold a number that no other run of the tests on this machine has, for as long as this process lives.

    1 to 100 keeps clear of ephemeral ports. With the process's number alone two runs met, a hundred apart,
    and the nodes of one took the tasks of the other.
    """
    for place in range(100):
        domain = (os.getpid() + place) % 100 + 1
        with suppress(DatasetError, PermissionError):  # taken, or another user's
            _DOMAINS.enter_context(
                file_lock(Path(tempfile.gettempdir(), f"goalreel_tests_domain_{domain}"), "taken")
            )
            return domain
    raise RuntimeError("a hundred runs of the tests hold a domain each")


_DOMAINS = ExitStack()
ENV = {
    "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET",
    "FASTDDS_DEFAULT_PROFILES_FILE": str(Path(__file__).with_name("fastdds_udp.xml")),
    "ROS_DOMAIN_ID": str(own_domain()),
}
"""The environment in which the processes of these tests hear one another and nobody else."""


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
        until(lambda: any(ready in line for line in it.lines) or it.process.poll() is not None, 300)
        assert it.process.poll() is None, "\n".join(it.lines)
        yield it
    finally:
        it.stop()
