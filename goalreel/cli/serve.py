"""`goalreel serve`. What it needs is imported when it runs."""

import os
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.models import KEEP_HELP, KEEPS, MODE_HELP, MODES, THRESHOLD_HELP
from goalreel.errors import InputError

if TYPE_CHECKING:
    from goalreel.serving.settings import Models


EPILOG = (
    "Examples:\n\n"
    "- `goalreel serve --editor flux2-klein-4b`\n\n"
    "- `goalreel serve --planner hf:DIR --critic hf:DIR --editor diffusers:DIR --ray --replicas 3`"
)


def serve(
    planner: Annotated[str | None, typer.Option(help="<planner>.")] = None,
    critic: Annotated[str | None, typer.Option(help="<critic>.")] = None,
    editor: Annotated[str | None, typer.Option(help="<editor>.")] = None,
    critic_mode: Annotated[MODES, typer.Option(help=f"Of storyboards: {MODE_HELP}")] = "strict",
    critic_scores: Annotated[bool, typer.Option(help="Of storyboards: ask for scores too.")] = False,
    critic_threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help=f"Of storyboards: {THRESHOLD_HELP}")
    ] = None,
    max_steps: Annotated[int, typer.Option(min=1, max=1000, help="Of storyboards: no longer plans.")] = 50,
    keep: Annotated[KEEPS, typer.Option(help=f"Of storyboards: {KEEP_HELP}")] = "best",
    host: Annotated[
        str, typer.Option(help="Any but loopback needs a token in GOALREEL_TOKEN.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    batch_size: Annotated[int, typer.Option(min=1, help="Requests in one model call, at most.")] = 16,
    batch_wait_ms: Annotated[int, typer.Option(min=0, help="How long one waits for others.")] = 20,
    queue_size: Annotated[int, typer.Option(min=1, help="Requests that may wait for a model.")] = 64,
    drain_seconds: Annotated[int, typer.Option(min=0, help="For what is under way at SIGTERM.")] = 30,
    ray: Annotated[bool, typer.Option("--ray", help="Run as a Ray Serve deployment.")] = False,
    replicas: Annotated[int, typer.Option(min=1, help="With --ray.")] = 1,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs of a replica, with --ray.")] = 0.0,
) -> None:
    """Serve models over HTTP: OpenAI's chat and image API, /edit, whole storyboards. See /docs there."""
    with one_line_errors():
        from goalreel.http import TOKEN_VARIABLE
        from goalreel.serving.settings import ServeSettings

        if not (planner or critic or editor):
            raise InputError("nothing to serve: name --planner, --critic or --editor")
        if not ray and (replicas > 1 or gpus):
            raise InputError("--replicas and --gpus need --ray")
        settings = ServeSettings(
            host=host,
            port=port,
            token=os.environ.get(TOKEN_VARIABLE),
            batch_size=batch_size,
            batch_wait_ms=batch_wait_ms,
            queue_size=queue_size,
            drain_seconds=drain_seconds,
            max_steps=max_steps,
            keep=keep,
        )
        build = partial(_build, planner, critic, editor, critic_mode, critic_scores, critic_threshold)
        if ray:
            from goalreel.serving.cluster import serve_cluster

            serve_cluster(build, settings, replicas=replicas, gpus=gpus)
        else:
            from goalreel.serving.app import create_app
            from goalreel.serving.server import serve_app

            app = create_app(build(), settings)
            typer.echo(f"http://{host}:{port} serves {', '.join(app.state.service.names())}", err=True)
            serve_app(app)


def _build(
    planner: str | None,
    critic: str | None,
    editor: str | None,
    mode: MODES,
    scores: bool,
    threshold: float | None,
    *,
    behind: str | None = None,
) -> "Models":
    from goalreel.serving.build import build_models

    return build_models(
        planner,
        critic,
        editor,
        critic_mode=mode,
        critic_scores=scores,
        critic_threshold=threshold,
        behind=behind,
    )
