"""`goalreel export`. What it needs is imported when it runs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import INTERRUPTED, Json

EPILOG = (
    "Examples:\n\n"
    "- `goalreel export pusht-goals --to table --out steps.csv`\n\n"
    "- `goalreel export pusht-goals --to table --out steps.parquet`"
)


def export(
    dataset: Annotated[Path, typer.Argument(help="A dataset that `goalreel annotate` wrote or is writing.")],
    to: Annotated[
        Literal["table"], typer.Option(help="table: a row a step, with its words, times, status and verdict.")
    ],
    out: Annotated[Path, typer.Option(help="The file: NAME.csv or NAME.parquet.")],
    source: Annotated[
        Path | None,
        typer.Option(help="What DATASET is made from, while it is not written. [default: as its run knows]"),
    ] = None,
    json_output: Json = False,
) -> None:
    """Write what an annotated dataset holds in a shape that others read."""
    with one_line_errors(INTERRUPTED):
        import json

        from goalreel.annotator.exports.table import export_table
        from goalreel.cli.console import progress_bars

        with progress_bars() as progress:
            rows = export_table(dataset, out, source=source, progress=progress)
        if json_output:
            typer.echo(json.dumps({"to": to, "out": str(out), "rows": rows}))
        else:
            typer.echo(f"{rows} rows: {out}")
