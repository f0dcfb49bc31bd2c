"""`goalreel train`: the trainers, one command each."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.extension import command_group
from goalreel.cli.options import Json
from goalreel.errors import InputError
from goalreel.extras import install_beside
from goalreel.models.names import ModelName

app = command_group("train", "Train Planner and Critic.")

Config = Annotated[
    str,
    typer.Option(
        "--config", help="A YAML file, or a preset by name; its paths are relative to the working directory."
    ),
]
Out = Annotated[
    Path,
    typer.Option("--out", help="Folder for the checkpoint, its card, logs, and what is needed to resume."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume from the last checkpoint in --out.")]
Corpus = Annotated[
    list[Path] | None, typer.Option("--corpus", help="ShareGPT file; again for more. [default: the config's]")
]
Model = Annotated[str | None, typer.Option("--model", help="Model to start from. [default: the config's]")]
Words = Annotated[
    list[Path] | None,
    typer.Option("--words", help="As --corpus, for a model from scratch to learn the words of, not more."),
]
Validation = Annotated[
    list[Path] | None, typer.Option("--validation", help="Like --corpus, but only to measure on.")
]
INTERRUPTED = "interrupted: run the same command with --resume to continue from the last checkpoint"


def _sft(role: str, config: str, out: Path, resume: bool, **overrides: object) -> dict[str, float]:
    """Fine-tune a language agent; return what training measured."""
    from goalreel.training.config import SftConfig, extension, read_config, read_settings

    kind, model = extension("agent"), overrides.get("model") or read_settings(config).get("model")
    if kind is None and (overrides.get("words") or model == "nano"):
        raise InputError(f"a model from scratch is made by goalreel-lab: {install_beside('lab')}")
    settings = read_config(config, kind or SftConfig, **{k: v or None for k, v in overrides.items()})
    if settings.role != role:
        raise InputError(f"{config} trains a {settings.role}, not a {role}")
    from goalreel.training.sft import train

    return train(settings, out, resume)


def _grpo(config: str, out: Path, resume: bool, **overrides: object) -> dict[str, float]:
    """Reinforce a Critic; return what training measured."""
    from goalreel.training.config import GrpoConfig, read_config

    settings = read_config(config, GrpoConfig, **{k: v or None for k, v in overrides.items()})
    if settings.editor is None or settings.scorer is None:
        raise InputError(f"{config} names no editor or no scorer: give --editor and --scorer")
    from goalreel.models.load import build_editor
    from goalreel.models.scorers import build_scorer
    from goalreel.tabletop.truth import held_out_split
    from goalreel.training.grpo import train
    from goalreel.training.rows import critique_shards

    for corpus in settings.corpus:
        critique_shards(corpus)  # refuses a folder without a corpus before a model is loaded
    local = _is_local(ModelName.parse(settings.editor))  # refuses an unknown editor before anything is loaded
    scorer, editor = build_scorer(settings.scorer), build_editor(settings.editor)
    return train(settings, out, resume, editor=editor, scorer=scorer, local=local, held_out=held_out_split)


@contextmanager
def _training(out: Path, json_output: bool) -> Iterator[dict[str, object]]:
    """Run a training command; with `json_output` print `out` and what is put into the yielded dict.

    Trainers print numbers as they go, each of several processes its own; one JSON object is the result.
    """
    with one_line_errors(INTERRUPTED):
        from goalreel.cli.console import print_json, results_alone

        results: dict[str, object] = {"out": str(out)}
        with results_alone(json_output):
            yield results
        if json_output and os.environ.get("RANK", "0") == "0":
            print_json(results)


def _is_local(editor: ModelName) -> bool:
    """Tell if no part of an editor is behind a server."""
    from goalreel.models.registry import is_remote

    if editor.parts:
        return all(_is_local(part) for part in editor.parts)
    return not is_remote("editor", editor)


@app.command(
    epilog="Examples:\n\n"
    "- `goalreel train planner --config nano-planner --corpus corpora/plans/sharegpt/plans.json --out runs/p`"
    "\n\n- `accelerate launch --num_processes 8 $(which goalreel) train planner --config planner-8b ...`"
)
def planner(
    config: Config,
    out: Out,
    resume: Resume = False,
    model: Model = None,
    corpus: Corpus = None,
    words: Words = None,
    validation: Validation = None,
    json_output: Json = False,
) -> None:
    """Fine-tune a Planner, or make the nano one."""
    with _training(out, json_output) as results:
        corpora = {"corpus": corpus, "words": words, "validation": validation}
        results |= _sft("planner", config, out, resume, model=model, **corpora)


@app.command(
    epilog="Examples:\n\n"
    "- `goalreel train critic --config nano-critic --corpus verdicts/sharegpt/verdicts.json --out critic`"
    "\n\n- `goalreel train critic --method grpo --config nano-critic-grpo --corpus rl --out runs/grpo`"
    "\n\n- `accelerate launch --num_processes 8 $(which goalreel) train critic --config critic-8b ...`"
)
def critic(
    config: Config,
    out: Out,
    method: Annotated[
        Literal["sft", "grpo"],
        typer.Option(help="Fine-tune on replies, or reinforce by what replies lead to."),
    ] = "sft",
    resume: Resume = False,
    model: Model = None,
    corpus: Annotated[
        list[Path] | None,
        typer.Option(
            help="ShareGPT file, for grpo a folder of critiques; again for more. [default: the config's]"
        ),
    ] = None,
    words: Words = None,
    validation: Validation = None,
    editor: Annotated[
        str | None,
        typer.Option(
            help="For grpo: the editor that draws what the Critic asks for, by name (docs/how-to/models.md)."
        ),
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option(help="For grpo: what scores its pictures: simulator, or a chat model as the judge."),
    ] = None,
    json_output: Json = False,
) -> None:
    """Fine-tune a Critic, make the nano one, or reinforce either."""
    with _training(out, json_output) as results:
        if method == "sft":
            if editor or scorer:
                raise InputError("--editor and --scorer are for --method grpo")
            corpora = {"corpus": corpus, "words": words, "validation": validation}
            results |= _sft("critic", config, out, resume, model=model, **corpora)
            return
        if words or validation:
            raise InputError("--words and --validation are for --method sft")
        results |= _grpo(config, out, resume, model=model, corpus=corpus, editor=editor, scorer=scorer)
