"""`goalreel carry-over`. What it needs is imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import INTERRUPTED, Json

EPILOG = (
    "Examples:\n\n"
    "- `goalreel carry-over picked --from pusht-goals`\n\n"
    "- `goalreel carry-over merged --from droid-goals --from pusht-goals`"
)
Edited = Annotated[
    Path, typer.Argument(help="A dataset that lerobot-edit-dataset made from annotated datasets.")
]
Sources = Annotated[
    list[Path], typer.Option("--from", help="An annotated dataset it was made from. May be repeated.")
]


def carry_over(edited: Edited, sources: Sources, json_output: Json = False) -> None:
    """Copy the records of annotated datasets to an edited one, for `goalreel show`."""
    with one_line_errors(INTERRUPTED):
        from dataclasses import asdict

        from goalreel.cli.console import print_json
        from goalreel.datasets.carry_over import carry_over as carry_records_over

        result = carry_records_over(edited, sources)
        if json_output:
            print_json(asdict(result))
        else:
            without = f"; {len(result.unrecorded)} had none" if result.unrecorded else ""
            typer.echo(f"{result.recorded} episodes got their records{without}")
