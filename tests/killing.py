"""Runs that are forked from a process with everything imported, so that a kill lands in their own work."""

import hashlib
import os
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


def tree(root: Path) -> dict[str, str]:
    """Every file below, by what is in it."""
    return {
        str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(root.rglob("*"))
        if p.is_file()
    }
