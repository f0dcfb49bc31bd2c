"""Errors that a person can mend end in one line on stderr and an exit status, bugs in a traceback."""

import errno
import json
import logging
import os
import re
import resource
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from typer._click.exceptions import ClickException  # Typer exports neither elsewhere
from typer._click.globals import get_current_context

from goalreel.errors import UserError, first_line

log = logging.getLogger(__name__)

MEMORY = "the memory is full: end other programs, raise `ulimit -v`, or give smaller batches"
LEAST_ADDRESSES = 1_200_000 * 1024
"""Bytes in which `goalreel check` ran through 9 of 9 times; in 1,000,000 kB 1 of 3 hung (OpenBLAS 0.3)."""
_MEMORY = re.compile("start new thread|map segment|Cannot allocate memory")
BUG = "this is a bug in goalreel: please report it with the lines above"


def check_address_space() -> None:
    """End a command that `ulimit -v` leaves too few addresses: OpenBLAS hangs without them, or crashes."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each thread takes a part of them
        if limit < LEAST_ADDRESSES:
            fail(f"`ulimit -v` is {limit // 1024} kB: raise it to {LEAST_ADDRESSES // 1024} or more")


@contextmanager
def one_line_errors(interrupted: str = "interrupted") -> Iterator[None]:
    """Wrap a command: bad input, a broken dataset, a dead server or a missing package ends it in one line.

    With --json stdout has it too, as `error`, and with --verbose the log its trace. Anything else is a bug,
    and shown with its trace.
    """
    try:
        yield
    except (UserError, OSError) as e:
        if isinstance(e, OSError) and e.errno == errno.ENOSPC and _is_stdout_full():
            raise  # as the group of commands says
        log.info("traceback of this error:", exc_info=e)
        _end(first_line(e))
    except ModuleNotFoundError as e:
        from goalreel.extras import absent

        log.info("traceback of this error:", exc_info=e)
        _end(absent(e) or _bug(e))
    except KeyboardInterrupt:
        _end(interrupted, status=130)
    except (typer.Exit, typer.Abort):
        raise
    except Exception as e:  # noqa: BLE001  (whatever it is, it is shown whole, with where to report it)
        is_memory = isinstance(e, MemoryError) or _MEMORY.search(str(e))
        _end(MEMORY if is_memory else _bug(e))


def _is_stdout_full() -> bool:
    try:
        sys.stdout.flush()  # what it could not write it still holds
    except OSError:
        return True
    return False


@contextmanager
def usage_errors(as_json: bool) -> Iterator[None]:
    """Print what is wrong with the words of a command as JSON too, before Typer shows it on stderr."""
    try:
        yield
    except ClickException as e:
        if as_json:
            typer.echo(json.dumps({"error": e.format_message()}))
        raise


def _end(message: str, status: int = 1) -> NoReturn:
    """End a command that has no result; with --json its JSON holds the error alone."""
    context = get_current_context(silent=True)
    if context is not None and context.params.get("json_output"):
        typer.echo(json.dumps({"error": message}))
    fail(message, status)


def _bug(error: Exception) -> str:
    typer.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    return BUG


def fail(message: str, status: int = 1) -> NoReturn:
    """End the command with one line on stderr."""
    typer.secho(f"goalreel: {message}", err=True, fg="red")
    raise typer.Exit(status)
