"""Runs in a child that has everything imported, killed at a chosen event of their own work."""

import hashlib
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from itertools import cycle, pairwise
from pathlib import Path

EVENTS = {"open", "os.link", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}
"""What Python reports when it touches a file: every step of a run lies between two of them."""

type Work = Callable[[Path, Path], None]


def run(work: Work, source: Path, out: Path, kill_at: int | None = None) -> tuple[int, int]:
    """Run `work(source, out)` in a child; its wait status, and how many events it had to its end.

    With `kill_at` it is killed at that event, before what the event announces.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        count = 0

        def hook(event: str, _: tuple) -> None:
            nonlocal count
            if event in EVENTS:
                count += 1
                if count == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        code = 1
        try:
            work(source, out)
            code = 0
        finally:
            os.write(writer, str(count).encode())
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        count = int(pipe.read() or 0)
    _, status = os.waitpid(child, 0)
    return status, count


def finish(work: Work, source: Path, out: Path) -> int:
    """Run to the end; the number of events."""
    status, count = run(work, source, out)
    assert status == 0, f"the run failed: {status}"
    return count


class Killer:
    """Kills runs at random ones of their events, of which there are `events` in a whole run.

    They are in `parts` equal parts, and each new run is killed in the next: few kills meet every stage.
    """

    def __init__(self, work: Work, events: int, parts: int, seed: int) -> None:
        self.work, self.events, self.random = work, events, random.Random(seed)
        self.parts = cycle(pairwise(1 + events * part // parts for part in range(parts + 1)))

    def kill(self, source: Path, out: Path, part: tuple[int, int] | None = None) -> bool:
        """Start a run and kill it; whether that came before its end."""
        status, _ = run(self.work, source, out, self.random.randrange(*part or (1, self.events + 1)))
        return os.WIFSIGNALED(status)

    def kill_new(self, source: Path, out: Path) -> None:
        """Kill a run that begins with nothing, before its end."""
        part = next(self.parts)
        while not self.kill(source, out, part):
            shutil.rmtree(out)


def tree(root: Path) -> dict[str, str]:
    """Every file below, by what is in it."""
    return {
        str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(root.rglob("*"))
        if p.is_file()
    }
