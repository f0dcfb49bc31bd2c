"""`goalreel plan --prompts`: its options, and what it prints. What it needs is imported when it runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalreel.cli.errors import fail
from goalreel.errors import InputError

if TYPE_CHECKING:
    from goalreel.annotator.workers import Workers
    from goalreel.models.presets import Preset
    from goalreel.terms import OnUnverified

_MANY = "Many prompts"


@dataclass(frozen=True)
class PromptOptions:
    """The options of `plan` for a file of prompts."""

    prompts: Annotated[
        Path | None,
        typer.Option(help='Plan each row of this JSONL file: {"prompt": "..."}.', rich_help_panel=_MANY),
    ] = None
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of the files that rows name as `image`.", rich_help_panel=_MANY),
    ] = None
    mix: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SHARE=EDITOR",
            help="Have this editor draw this share of the rows.",
            rich_help_panel=_MANY,
        ),
    ] = None
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="i/n",
            help="Plan one of n parts; end with the command without it, which writes the report.",
            rich_help_panel=_MANY,
        ),
    ] = None
    batch_size: Annotated[
        int, typer.Option(min=1, help="Requests of one kind in one call.", rich_help_panel=_MANY)
    ] = 16


def plan_file(
    options: PromptOptions,
    preset: "Preset",
    out: Path,
    workers: "Workers | None" = None,
    *,
    seed: int,
    on_unverified: "OnUnverified",
    json_output: bool,
) -> None:
    """Plan each row of `options.prompts` and print what came of it; the exit status is 1 where one failed.

    Raises:
        InputError: there is no file of prompts, or an option does not fit.
    """
    from goalreel.annotator.plan_rows import PlanConfig, plan_rows, read_rows
    from goalreel.cli.console import print_json, progress_bars
    from goalreel.datasets.records import Shard
    from goalreel.drivers import Limits
    from goalreel.wording import status_counts

    if options.prompts is None:
        raise InputError("--images, --mix, --shard and --ray go with --prompts FILE.jsonl")
    shard = Shard.parse(options.shard) if options.shard else None
    rows, faults = read_rows(options.prompts, options.images)
    shares, presets = _mixed(options.mix or [], preset)
    limits = Limits(options.batch_size, in_flight=4 * options.batch_size)
    order = PlanConfig(rows, presets, shares, seed, on_unverified, limits, shard, faults)
    with progress_bars() as progress:
        summary = plan_rows(order, out, progress, workers)
    if json_output:
        print_json({"out": str(out), **vars(summary)})
    else:
        for line, reason in faults.items():
            typer.echo(f"line {line} left out: {reason}", err=True)
        for row, reason in summary.failures.items():
            typer.echo(f"{row}: {reason}", err=True)
        done = f"{summary.planned} storyboards, {summary.resumed} were there"
        typer.echo(f"{done}, {len(summary.failures)} failed, {len(faults)} lines left out")
        for editor, number in summary.editors.items():
            typer.echo(f"{number:8} drawn by {editor}")
        if shard is None:
            if summary.steps:
                typer.echo(f"Steps: {status_counts(summary.steps.elements())}")
            typer.echo(f"Look at {out / 'index.html'}")
    if summary.stopped:
        fail(summary.stopped)
    if summary.failures:
        raise typer.Exit(1)


def _mixed(mix: list[str], preset: "Preset") -> "tuple[list[float], list[Preset]]":
    """The shares, and for each the preset with its editor.

    Raises:
        InputError: a share is no number above 0, or an editor is missing.
    """
    if not mix:
        return [1.0], [preset]
    shares, presets = [], []
    for text in mix:
        share, _, editor = text.partition("=")
        try:
            shares.append(float(share))
        except ValueError:
            shares.append(0.0)
        if not 0 < shares[-1] < 1e9 or not editor.strip():
            raise InputError(f"--mix takes SHARE=EDITOR, such as 0.5=flux2-klein-9b, not {text!r}")
        presets.append(preset.model_copy(update={"editor": editor.strip()}))
    return shares, presets
