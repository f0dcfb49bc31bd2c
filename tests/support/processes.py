"""Which tests start processes: those marked `process`. `make quick` leaves them out, so no other may."""

import multiprocessing.process
import os
import subprocess
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

FORKS = ("fork", "forkpty")
SPAWNS = ("posix_spawn", "posix_spawnp", "system")
SHORT = {"git", "gcc", "ld", "ldconfig", "lscpu", "nproc", "uname"}
"""Programs that take no time: the files git tracks, and what libraries ask the machine when they load."""


class Started:
    """What was started since it was last cleared. There is one a session.

    An audit hook would hear of it too, and of each import, file and frame as well.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.forks = 0
        self._watch(subprocess.Popen, "__init__", self._opened)
        self._watch(multiprocessing.process.BaseProcess, "start", self._begun)
        for name in FORKS:
            self._watch(os, name, self._forked)
        for name in SPAWNS:
            self._watch(os, name, lambda *_, name=name, **__: self.names.append(f"os.{name}"))

    def _watch(self, owner: object, name: str, heard: Callable[..., object]) -> None:
        """Call `heard` with what the function of that name is called with, first."""
        function = getattr(owner, name)

        @wraps(function)
        def watched(*arguments: Any, **keywords: Any) -> Any:
            heard(*arguments, **keywords)
            return function(*arguments, **keywords)

        setattr(owner, name, watched)

    def _opened(self, process: object, args: Any, *_: object, **__: object) -> None:
        program = args if isinstance(args, str | bytes | os.PathLike) else args[0]
        name = Path(os.fsdecode(program)).name
        if name not in SHORT:
            self.names.append(name)

    def _begun(self, process: multiprocessing.process.BaseProcess) -> None:
        if getattr(process, "_start_method", None) == "spawn":  # which calls none of the others
            self.names.append(process.name)

    def _forked(self) -> None:
        self.forks += 1

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
