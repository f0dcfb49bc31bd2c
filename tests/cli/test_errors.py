"""What a command shows of an error: one line of what a person can mend, and a bug whole."""

import contextlib
import errno
import logging
from pathlib import Path

import pytest
import typer
from support.cli import fails

from goalreel.cli.errors import BUG, one_line_errors
from goalreel.errors import BackendError, DatasetError, InputError


def shown(error: BaseException, capsys) -> tuple[int, list[str]]:
    with pytest.raises(typer.Exit) as caught, one_line_errors("stopped"):
        raise error
    return caught.value.exit_code, capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        *((kind("mend it\nlike so"), 1, "mend it") for kind in (InputError, DatasetError, BackendError)),
        (OSError(" \n"), 1, "OSError"),
        (ModuleNotFoundError(name="torch"), 1, "torch is not installed: pip install 'goalreel[gpu]'"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_what_a_person_can_mend_is_one_line(error, status, line, capsys):
    assert shown(error, capsys) == (status, [f"goalreel: {line}"])


def test_a_full_disk_of_no_known_file_is_not_taken_for_that_of_what_is_printed(capsys):
    full = OSError(errno.ENOSPC, "No space left on device")
    assert shown(full, capsys) == (1, ["goalreel: No space left on device"])
    with Path("/dev/full").open("w") as stdout, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stdout)
        stdout.write("result")
        with pytest.raises(OSError, match="No space left"), one_line_errors():
            stdout.flush()
        with contextlib.suppress(OSError):
            stdout.close()


def test_what_would_hang_for_want_of_addresses_is_not_begun(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setattr("resource.getrlimit", lambda which: (700_000 * 1024, 700_000 * 1024))
    assert fails("check", "nothing") == "goalreel: `ulimit -v` is 700000 kB: raise it to 1200000 or more"


@pytest.mark.parametrize("error", [ValueError("shapes (3,2) (4,5)"), ModuleNotFoundError("no x", name="x")])
def test_a_bug_shows_its_trace_and_where_it_goes(error, capsys):
    status, lines = shown(error, capsys)
    assert status == 1
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-2] == f"{type(error).__name__}: {error}"
    assert lines[-1] == f"goalreel: {BUG}"


def test_verbose_logs_the_trace_of_a_line(capsys, caplog):
    with caplog.at_level(logging.INFO):
        shown(InputError("mend it"), capsys)
    assert "Traceback" in caplog.text


def test_a_command_may_end_itself():
    with pytest.raises(typer.Exit) as caught, one_line_errors():
        raise typer.Exit(3)
    assert caught.value.exit_code == 3
