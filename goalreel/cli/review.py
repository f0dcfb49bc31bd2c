"""`goalreel review`. What it needs is imported when it runs."""

import os
from pathlib import Path
from typing import Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import Host, RecordedSource
from goalreel.errors import InputError

EPILOG = (
    "Examples:\n\n"
    "- `goalreel review droid-goals`\n\n"
    "- `GOALREEL_TOKEN=... goalreel review droid-goals --host 0.0.0.0`"
)


def review(
    dataset: Annotated[Path, typer.Argument(help="A dataset that `goalreel annotate` wrote.")],
    source: RecordedSource = None,
    by: Annotated[
        str | None,
        typer.Option(help="Name of the reviewer; it can be changed on the page. [default: your login]"),
    ] = None,
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8090,
) -> None:
    """Look at the steps of a dataset in your browser, correct them, and accept or reject them."""
    with one_line_errors():
        from goalreel.annotator.web.auth import Access
        from goalreel.cli.console import progress_bars
        from goalreel.http.access import TOKEN_VARIABLE, listen

        reviewer = _reviewer(by or _login())
        access = Access(host, os.environ.get(TOKEN_VARIABLE) or None)
        with listen(host, port) as socket:
            from goalreel.annotator.review.app import create_review, serve_review
            from goalreel.annotator.review.session import ReviewSession

            with progress_bars() as progress:
                session = ReviewSession.open(dataset, source=source, reviewer=reviewer, progress=progress)
            app = create_review(session, access)
            address = f"http://{f'[{host}]' if ':' in host else host}:{socket.getsockname()[1]}/"
            ending = "?token=... (what GOALREEL_TOKEN holds)" if access.token else ""
            typer.echo(
                f"Look at {address}{ending}   Ctrl-C ends it; everything is saved as you go.", err=True
            )
            serve_review(app, socket)
            typer.echo("goalreel: ended; every change is saved", err=True)


def _reviewer(name: str) -> str:
    from goalreel.boards.words import one_line

    try:
        return one_line(name)
    except ValueError as e:
        raise InputError(f"--by: {e}") from e


def _login() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "reviewer"
