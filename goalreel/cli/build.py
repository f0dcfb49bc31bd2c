"""`goalreel build`. What it needs is imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import INTERRUPTED, Json, format_episodes

EPILOG = (
    "Examples:\n\n"
    "- `goalreel build droid-goals`\n\n"
    "- `goalreel build droid-goals --source droid --records node1/goals --records node2/goals`"
)


def build(
    out: Annotated[Path, typer.Argument(help="What `goalreel annotate` was given as --out.")],
    source: Annotated[
        Path | None, typer.Option(help="The dataset that was annotated. [default: remembered]")
    ] = None,
    records: Annotated[
        list[Path] | None,
        typer.Option(help="Folders of other shards; their records are copied into OUT first."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also write files again that somebody changed in OUT by hand.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Write the annotated dataset again, with people's corrections or from several shards."""
    with one_line_errors(INTERRUPTED):
        from goalreel.annotator.shards import build_records
        from goalreel.cli.console import print_json, progress_bars

        with progress_bars() as progress:
            missing = build_records(out, source, records or (), progress, overwrite=overwrite)
        if missing:
            typer.echo(
                f"not annotated, so without goal images: episodes {format_episodes(missing)}", err=True
            )
        if json_output:
            print_json({"out": str(out), "missing": missing})
        else:
            typer.echo(f"Look at it:  goalreel show {out}")
        if missing:
            raise typer.Exit(1)
