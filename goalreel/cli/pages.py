"""`goalreel review`. What it needs is imported when it runs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import Host, PresetOptions, RecordedSource, with_options
from goalreel.errors import InputError
from goalreel.models.presets import ModelChoice

if TYPE_CHECKING:
    from goalreel.annotator.web.auth import Access

REVIEW_EPILOG = (
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
        import getpass

        from goalreel.annotator.web.auth import Access
        from goalreel.boards.step import one_line
        from goalreel.cli.console import progress_bars
        from goalreel.datasets.hub import local_folder
        from goalreel.http.access import TOKEN_VARIABLE, address_of, listen

        dataset = local_folder(dataset, own=True)
        try:
            reviewer = one_line(by or getpass.getuser())
        except ValueError as e:
            raise InputError(f"--by: {e}") from e
        except (OSError, KeyError):  # a user without a name, as in some containers
            reviewer = "reviewer"
        access = Access(host, os.environ.get(TOKEN_VARIABLE) or None)
        with listen(host, port) as socket:
            from goalreel.annotator.review.app import create_review, serve_review
            from goalreel.annotator.review.session import ReviewSession

            with progress_bars() as progress:
                session = ReviewSession(dataset, source=source, reviewer=reviewer, progress=progress)
            app = create_review(session, access)
            _show_address(address_of(host, socket.getsockname()[1]), access)
            serve_review(app, socket)
            typer.echo("goalreel: ended; every change is saved", err=True)


def _show_address(address: str, access: "Access") -> None:
    ending = "?token=... (what GOALREEL_TOKEN holds)" if access.token else ""
    typer.echo(f"Look at {address}/{ending}   Ctrl-C ends it; everything is saved as you go.", err=True)


STUDIO_EPILOG = (
    "Examples:\n\n"
    "- `goalreel studio boards`\n\n"
    "- `goalreel studio boards --preset klein`\n\n"
    "- `GOALREEL_TOKEN=... goalreel studio boards --host 0.0.0.0`"
)


@with_options(config_file=True, models=PresetOptions("nano"))
def studio(
    models: ModelChoice,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="[DIR]", help="Folder of the storyboards; it is made if need be.", file_okay=False
        ),
    ] = Path("storyboards"),
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8095,
) -> None:
    """Write a task, drop a picture, and steer the storyboard while it grows, in your browser."""
    with one_line_errors():
        from goalreel.annotator.web.auth import Access
        from goalreel.http.access import TOKEN_VARIABLE, address_of, listen
        from goalreel.models.load import check_references, kinds_of
        from goalreel.serving.loading import build_models, load_in_background
        from goalreel.serving.settings import ServeSettings

        preset = models.load()
        kinds_of(preset, recordings=False)
        check_references(preset.references, preset.model_name("editor"))
        access = Access(host, os.environ.get(TOKEN_VARIABLE) or None, "studio")
        # What is under way at the end is stored, and goes on when somebody says so.
        settings = ServeSettings(host=host, port=port, token=access.token, loop=preset, drain_seconds=0)
        with listen(host, port) as socket:
            from goalreel.serving.app import serve_app
            from goalreel.studio.app import create_board_app

            served = build_models(preset.planner, preset.critic, preset.editor, loading=True)
            app = create_board_app(served, settings, folder, page_access=access)
            _show_address(address_of(host, socket.getsockname()[1]), access)
            load_in_background((served.planner, served.editor, served.critic))
            serve_app(app, socket)
            typer.echo("goalreel: ended; every change is saved", err=True)
