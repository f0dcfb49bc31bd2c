"""`goalreel serve`. What it needs is imported when it runs."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import FieldOptions, Host, with_options
from goalreel.errors import InputError
from goalreel.models.presets import LoopOptions
from goalreel.serving.settings import ServeSettings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from goalreel.serving.settings import Models

_RAY = "With Ray"

EPILOG = (
    "Examples:\n\n"
    "- `goalreel serve --editor flux2-klein-4b`\n\n"
    "- `goalreel serve --planner hf:DIR --critic hf:DIR --editor diffusers:DIR --ray --replicas 3`\n\n"
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
    settings=FieldOptions(
        ServeSettings,
        only=("port", "batch_size", "batch_wait_ms", "queue_size", "stuck_seconds", "drain_seconds"),
    ),
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
        list[str] | None, typer.Option(help="Editor to serve, by name (docs/how-to/models.md).")
    ] = None,
    boards: Annotated[
        Path | None,
        typer.Option(
            "--storyboards",
            help="Keep storyboards in this folder, and let people change them; made if need be.",
            file_okay=False,
            rich_help_panel="Storyboards",
        ),
    ] = None,
    host: Host = "127.0.0.1",
    ray: Annotated[
        bool, typer.Option("--ray", help="Serve from a Ray cluster.", rich_help_panel=_RAY)
    ] = False,
    replicas: Annotated[
        int, typer.Option(min=1, help="With --ray: number of replicas.", rich_help_panel=_RAY)
    ] = 1,
    gpus: Annotated[
        float, typer.Option(min=0, help="With --ray: GPUs of each replica.", rich_help_panel=_RAY)
    ] = 0.0,
) -> None:
    """Serve models over HTTP: OpenAI's chat and image API, and whole storyboards (see /docs there)."""
    with one_line_errors():
        from goalreel.http.access import TOKEN_VARIABLE, listen
        from goalreel.models.load import check_references
        from goalreel.models.names import ELSE, ModelName
        from goalreel.serving.loading import check_names

        editor_name = ELSE.join(editor or ()) or None
        check_names(planner, critic, editor_name)  # before the server's own packages are imported
        if editor_name:
            check_references(loop.references, ModelName.parse(editor_name))
        if not ray and (replicas > 1 or gpus):
            raise InputError("--replicas and --gpus need --ray")
        if ray and boards is not None:
            raise InputError("--storyboards is for one process: leave out --ray")
        settings = settings.but(host=host, token=os.environ.get(TOKEN_VARIABLE), loop=loop)
        build = partial(_build, planner, critic, editor_name)
        with listen(host, settings.port) as socket:
            if ray:
                from goalreel.serving.cluster import serve_cluster

                serve_cluster(build, settings, socket, replicas=replicas, gpus=gpus)
            else:
                from goalreel.serving.app import serve_app

                app = _app(build(), settings, boards)
                address = f"http://{f'[{host}]' if ':' in host else host}:{socket.getsockname()[1]}"
                typer.echo(f"{address} serves {', '.join(app.state.service.names())}", err=True)
                serve_app(app, socket)
                typer.echo("goalreel: ended", err=True)


def _app(models: "Models", settings: "ServeSettings", boards: Path | None) -> "FastAPI":
    """The application, with storyboards in memory or in a folder.

    Raises:
        DatasetError: another server serves the folder, or it cannot be written.
    """
    if boards is None:
        from goalreel.serving.app import create_app

        return create_app(models, settings)
    from goalreel.studio.app import create_board_app

    return create_board_app(models, settings, boards)


def _build(
    planner: str | None, critic: str | None, editor: str | None, *, server: str | None = None
) -> "Models":
    from goalreel.serving.loading import build_models

    return build_models(planner, critic, editor, server=server)
