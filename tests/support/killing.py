"""Runs that are forked from a process with everything imported, so that a kill lands in their own work."""

import hashlib
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path


def start(work: Callable[[Path, Path], None], source: Path, out: Path) -> int:
    """Run `work(source, out)` in a child; its process id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(source, out)
            code = 0
        finally:
            os._exit(code)
    return child


def finish(work: Callable[[Path, Path], None], source: Path, out: Path) -> float:
    """Run to the end; seconds."""
    begin = time.monotonic()
    _, status = os.waitpid(start(work, source, out), 0)
    assert status == 0, f"the run failed: {status}"
    return time.monotonic() - begin


class Killer:
    """Kills runs at random moments of a work of `seconds` at first, and follows the machine's pace."""

    def __init__(self, work: Callable[[Path, Path], None], seconds: float, seed: int) -> None:
        self.work, self.seconds, self.chance = work, seconds, random.Random(seed)

    def kill(self, source: Path, out: Path) -> bool:
        """Start a run and kill it; whether that came before its end."""
        child = start(self.work, source, out)
        time.sleep(self.chance.uniform(0, self.seconds))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        return os.WIFSIGNALED(status)

    def kill_new(self, source: Path, out: Path) -> None:
        """Kill a run that begins with nothing, before its end."""
        while not self.kill(source, out):
            shutil.rmtree(out)
            self.seconds *= 0.8
        self.seconds *= 1.05


def tree(root: Path) -> dict[str, str]:
    """Every file below, by what is in it."""
    return {
        str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(root.rglob("*"))
        if p.is_file()
    }
