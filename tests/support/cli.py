"""The command line, run in this process: a child for each command would import everything anew."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner, Result

from goalreel.cli.main import app


def invoke(*words: object) -> Result:
    """Run `goalreel WORDS...`, whatever comes of it; a bug in it is raised here."""
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def goalreel(*words: object) -> str:
    """What a command that succeeds prints."""
    result = invoke(*words)
    assert result.exit_code == 0, f"{words}\n{result.stderr}"
    return result.stdout


def fails(*words: object) -> str:
    """The one line that a command which fails prints on stderr."""
    result = invoke(*words)
    assert result.exit_code == 1, f"{words}\n{result.stderr}"
    lines = [line for line in result.stderr.splitlines() if line.startswith("goalreel: ")]
    assert len(lines) == 1, result.stderr
    return lines[0]


def results(*words: object) -> dict[str, Any]:
    """The JSON object that a command with --json prints, if it prints nothing else on stdout."""
    printed = goalreel(*words, "--json")
    assert printed.count("\n") == 1, printed
    return json.loads(printed)


def commands() -> dict[tuple[str, ...], Any]:
    """Every command and group of commands by its words; () is `goalreel` itself."""
    return dict(_below(typer.main.get_command(app)))


def _below(command: Any, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from _below(command.get_command(None, name), *words, name)


@contextmanager
def kept_signals() -> Iterator[None]:
    """Restore the handlers of signals: what is run in the block keeps its own."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def forget(monkeypatch: pytest.MonkeyPatch, loaded: tuple[str, ...]) -> None:
    """Let modules be imported anew; afterwards they are the old ones again, in their packages, too."""
    for name in [name for name in sys.modules if name.startswith(loaded)]:
        package, _, child = name.rpartition(".")
        if hasattr(parent := sys.modules.get(package), child):
            monkeypatch.setattr(parent, child, sys.modules[name])
        monkeypatch.delitem(sys.modules, name)
