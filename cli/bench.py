"""`goalreel eval tabletop`: TabletopBench. Imports mujoco and the models when it runs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.errors import InputError

INTERRUPTED = "interrupted; the answers are kept: run the same command again to go on"


class Split(StrEnum):
    """The names in datasets/tabletop/splits.py."""

    train = "train"
    validation = "validation"
    test = "test"


class Part(StrEnum):
    """The names in bench.PARTS."""

    plan = "plan"
    edit = "edit"
    critic = "critic"
    loop = "loop"
    closed_loop = "closed_loop"
    annotate = "annotate"


def tabletop(
    preset: Annotated[str, typer.Option(help="The models under test.")] = "nano",
    planner: Annotated[str | None, typer.Option(help="Instead of the preset's.")] = None,
    editor: Annotated[str | None, typer.Option(help="Instead of the preset's.")] = None,
    critic: Annotated[str | None, typer.Option(help="Instead of the preset's.")] = None,
    split: Annotated[
        Split, typer.Option(help="Tune on validation; test is for numbers that get written down.")
    ] = Split.validation,
    episodes: Annotated[int, typer.Option(min=1, help="How many; each has its own seed.")] = 100,
    first: Annotated[int, typer.Option(min=0, help="First seed, counted from the split's start.")] = 0,
    parts: Annotated[str, typer.Option(help=f"Of {', '.join(Part)}; comma-separated.")] = ",".join(Part),
    out: Annotated[
        Path, typer.Option(help="Answers and recordings are kept here, to go on after a kill.")
    ] = Path("tabletop-bench"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on the last line.")] = False,
) -> None:
    """Score planner, editor, critic and the loop of them by the simulated tabletop's predicates."""
    with one_line_errors(INTERRUPTED):
        chosen = _parts(parts)
        from rich.console import Console

        from goalreel.annotator.annotate import Settings
        from goalreel.cli.console import progress_bars
        from goalreel.evaluation.tabletop.bench import BenchOrder, evaluate

        settings = Settings(preset=preset, planner=planner, editor=editor, critic=critic)
        order = BenchOrder(settings, split.value, episodes, first, chosen, out)
        with progress_bars() as progress:
            report = evaluate(order, progress)
        if as_json:
            typer.echo(report.as_json())
        else:
            Console().print(report.table())


def _parts(text: str) -> list[str]:
    """The parts named in a comma-separated list.

    Raises:
        InputError: there is no such part.
    """
    chosen = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [part for part in chosen if part not in list(Part)]
    if unknown or not chosen:
        raise InputError(f"no part {', '.join(unknown) or text!r}: choose from {', '.join(Part)}")
    return chosen
