"""`goalreel train`: the trainers, one command each."""

from pathlib import Path
from typing import Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.errors import InputError

app = typer.Typer(
    name="train",
    help="Train the Planner, the Critic and the nano editor.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Config = Annotated[
    str,
    typer.Option(
        "--config", help="A YAML file, or a preset by name; its paths are relative to the working directory."
    ),
]
Out = Annotated[
    Path, typer.Option("--out", help="Folder for checkpoint, card, logs and what resuming needs.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in --out.")]
Corpus = Annotated[
    list[Path] | None, typer.Option("--corpus", help="ShareGPT file; again for more. [default: the config's]")
]
Model = Annotated[str | None, typer.Option("--model", help="Start from this one instead of the config's.")]
Words = Annotated[
    list[Path] | None,
    typer.Option("--words", help="As --corpus, for a model from scratch to learn the words of, not more."),
]
Validation = Annotated[list[Path] | None, typer.Option("--validation", help="As --corpus, only measured on.")]
INTERRUPTED = "interrupted: run the same command with --resume to go on from the last checkpoint"
EXAMPLES = (
    "Examples:\n\n"
    "- `goalreel train {0} --config nano-{0} --corpus corpora/{1}/sharegpt/{1}.json --out runs/{0}`\n\n"
    "- `accelerate launch --num_processes 8 $(which goalreel) train {0} --config {0}-8b ...`"
)


@app.callback()
def main() -> None:
    """Train the Planner, the Critic and the nano editor."""


def _language(role: str, rows: str) -> None:
    """Add the command that trains a language agent on a corpus of these rows."""

    @app.command(
        role,
        epilog=EXAMPLES.format(role, rows),
        help=f"Fine-tune a {role.capitalize()}, or make the nano one.",
    )
    def command(
        config: Config,
        out: Out,
        resume: Resume = False,
        model: Model = None,
        corpus: Corpus = None,
        words: Words = None,
        validation: Validation = None,
    ) -> None:
        given = {"model": model, "corpus": corpus, "words": words, "validation": validation}
        with one_line_errors(INTERRUPTED):
            from goalreel.training.config import read_config
            from goalreel.training.language_config import LanguageConfig

            settings = read_config(config, LanguageConfig, **{k: v or None for k, v in given.items()})
            if settings.role != role:
                raise InputError(f"{config} trains a {settings.role}, not a {role}")
            from goalreel.training.language import train

            train(settings, out, resume)


_language("planner", "plans")
_language("critic", "verdicts")


@app.command(
    epilog="Examples:\n\n"
    "- `goalreel train editor --config nano-editor --data corpora/edits --out runs/editor`\n\n"
    "- `goalreel train editor --config nano-editor --model nano-editor --data corpora/mine --out runs/mine`"
)
def editor(
    config: Config,
    out: Out,
    resume: Resume = False,
    model: Model = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the Hugging Face dataset. [default: the config's]")
    ] = None,
) -> None:
    """Train the nano image editor."""
    with one_line_errors(INTERRUPTED):
        from goalreel.cli.console import progress_bars
        from goalreel.training.config import read_config
        from goalreel.training.editor import train
        from goalreel.training.editor_config import EditorConfig

        settings = read_config(config, EditorConfig, data=data, model=model or None)
        with progress_bars() as told:
            train(settings, out, resume, progress=told)
