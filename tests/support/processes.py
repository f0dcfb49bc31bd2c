"""Which tests start processes: those marked `process`. `make quick` leaves them out, so no other may."""

import multiprocessing.process
import os
import sys
from pathlib import Path

import pytest

EVENTS = ("subprocess.Popen", "os.forkpty", "os.posix_spawn", "os.system")
"""A fork is none: it imports nothing anew, and lerobot encodes the videos of an episode in some."""
SHORT = {"git", "gcc", "ld", "ldconfig", "lscpu", "nproc", "uname"}
"""Programs that take no time: the files git tracks, and what libraries ask the machine when they load."""


class Started:
    """What was started since it was last cleared. There is one a session: Python keeps its hooks for good."""

    def __init__(self) -> None:
        self.names: list[str] = []
        sys.addaudithook(self._heard)
        start = multiprocessing.process.BaseProcess.start

        def heard(process: multiprocessing.process.BaseProcess) -> None:
            if getattr(process, "_start_method", None) == "spawn":  # which is no event
                self.names.append(process.name)
            start(process)

        multiprocessing.process.BaseProcess.start = heard

    def _heard(self, event: str, arguments: tuple) -> None:
        if event in EVENTS:
            name = Path(os.fsdecode(arguments[0])).name if event == "subprocess.Popen" else event
            if name not in SHORT:
                self.names.append(name)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> object:
        self.names.clear()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> object:
        """Fails after the test: an error raised in the hook would be handled as a failure to start."""
        result = yield
        if self.names and not item.get_closest_marker("process"):
            pytest.fail(f"it starts {', '.join(self.names)}: mark it with pytest.mark.process", pytrace=False)
        return result
