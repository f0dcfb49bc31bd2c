"""A process that stops at a gate in its own code and is killed there: how far it had come is known, however
fast the machine is."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

_WORDS = "at the gate"
GATE = f"""
def gate():
    import sys
    print({_WORDS!r}, flush=True)
    sys.stdin.read()
"""
"""Source that defines `gate()`: it tells, and goes no further while the test lives."""


def kill_at_gate(command: Sequence[str | Path]) -> None:
    """Run a command that calls `gate()`, and kill it there; one that ends without is an AssertionError."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        assert process.stdout is not None
        came = any(line == f"{_WORDS}\n" for line in process.stdout)
        process.kill()
    assert came, f"it ended with {process.returncode} before the gate"
