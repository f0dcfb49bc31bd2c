"""Which tests start processes: those marked `process`. `make quick` leaves them out, so no other may."""

import multiprocessing.process
import os
import sys
from pathlib import Path

import pytest

EVENTS = ("subprocess.Popen", "os.forkpty", "os.posix_spawn", "os.system")
SHORT = {"git", "gcc", "ld", "ldconfig", "lscpu", "nproc", "uname"}
"""Programs that take no time: the files git tracks, and what libraries ask the machine when they load."""


class Started:
    """What was started since it was last cleared. There is one a session: Python keeps its hooks for good."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.forks = 0
        sys.addaudithook(self._heard)
        start = multiprocessing.process.BaseProcess.start

        def heard(process: multiprocessing.process.BaseProcess) -> None:
            if getattr(process, "_start_method", None) == "spawn":  # which is no event
                self.names.append(process.name)
            start(process)

        multiprocessing.process.BaseProcess.start = heard

    def _heard(self, event: str, arguments: tuple) -> None:
        self.forks += event == "os.fork"
        if event in EVENTS:
            name = Path(os.fsdecode(arguments[0])).name if event == "subprocess.Popen" else event
            if name not in SHORT:
                self.names.append(name)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> object:
        self.names.clear()
        self.forks = 0
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> object:
        """Fails after the test: an error raised in the hook would be handled as a failure to start.

        A fork of a test process copies its threads' locks without their threads, and may wait for ever.
        """
        result = yield
        if self.forks:
            pytest.fail("it forks the test process: start a new one instead", pytrace=False)
        if self.names and not item.get_closest_marker("process"):
            pytest.fail(f"it starts {', '.join(self.names)}: mark it with pytest.mark.process", pytrace=False)
        return result
