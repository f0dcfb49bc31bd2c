"""`goalreel serve`. What it needs is imported when it runs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import FieldOptions, Host, with_options
from goalreel.models.presets import LoopOptions
from goalreel.serving.settings import Models, ServeSettings

if TYPE_CHECKING:
    from fastapi import FastAPI


EPILOG = (
    "Examples:\n\n"
    "- `goalreel serve --editor flux2-klein-4b`\n\n"
    "- `goalreel serve --planner hf:DIR --critic hf:DIR --editor flux2-klein-4b --storyboards boards`\n\n"
    "- `goalreel serve --config server.yaml`, with `planner: hf:DIR` and the like in the file"
)


@with_options(
    config_file=True,
    loop=FieldOptions(
        LoopOptions,
        without=("max_attempts", "critic_live", "confirm", "confirm_steps"),
        defaults={"max_attempts": 3},
        panel="Storyboards",
    ),
    settings=FieldOptions(ServeSettings),
)
def serve(
    loop: LoopOptions,
    settings: ServeSettings,
    planner: Annotated[
        str | None, typer.Option(help="Planner to serve, by name (docs/how-to/models.md).")
    ] = None,
    critic: Annotated[
        str | None, typer.Option(help="Critic to serve, by name (docs/how-to/models.md).")
    ] = None,
    editor: Annotated[
        str | None, typer.Option(help="Editor to serve, by name (docs/how-to/models.md).")
    ] = None,
    boards: Annotated[
        Path | None,
        typer.Option(
            "--storyboards",
            help="Also make whole storyboards, and keep them in this folder; made if need be.",
            file_okay=False,
            rich_help_panel="Storyboards",
        ),
    ] = None,
    host: Host = "127.0.0.1",
) -> None:
    """Serve models over HTTP: OpenAI's chat and image API, and whole storyboards (see /docs there)."""
    with one_line_errors():
        from goalreel.http.access import TOKEN_VARIABLE, address_of, listen
        from goalreel.models.load import check_references
        from goalreel.models.names import ModelName
        from goalreel.serving.loading import check_names

        check_names(planner, critic, editor)  # before the server's own packages are imported
        if editor:
            check_references(loop.references, ModelName.parse(editor))
        settings = settings.but(host=host, token=os.environ.get(TOKEN_VARIABLE), loop=loop)
        with listen(host, settings.port) as socket:
            from goalreel.serving.app import serve_app
            from goalreel.serving.loading import build_models

            app = _app(build_models(planner, critic, editor), settings, boards)
            address = address_of(host, socket.getsockname()[1])
            typer.echo(f"{address} serves {', '.join(app.state.service.names())}", err=True)
            serve_app(app, socket)
            typer.echo("goalreel: ended", err=True)


def _app(models: "Models", settings: "ServeSettings", boards: Path | None) -> "FastAPI":
    if boards is None:
        from goalreel.serving.app import create_app

        return create_app(models, settings)
    from goalreel.studio.app import create_board_app

    return create_board_app(models, settings, boards)
