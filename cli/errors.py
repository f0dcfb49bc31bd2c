"""What a person can mend becomes one line on stderr and an exit status; a bug still shows itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from goalreel.errors import UserError


@contextmanager
def one_line_errors(interrupted: str = "interrupted") -> Iterator[None]:
    """Wrap a command: bad input, a broken dataset, a dead server or a missing package ends it in one line."""

    try:
        yield
    except (UserError, ValueError, OSError) as e:
        fail((str(e) or type(e).__name__).splitlines()[0])
    except ModuleNotFoundError as e:
        from goalreel.installed import absent

        said = absent(e)
        if said is None:
            raise
        fail(said)
    except KeyboardInterrupt:
        fail(interrupted, status=130)


def fail(message: str, status: int = 1) -> NoReturn:
    """End the command."""
    typer.secho(f"goalreel: {message}", err=True, fg="red")
    raise typer.Exit(status)
