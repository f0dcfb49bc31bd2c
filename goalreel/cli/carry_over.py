"""`goalreel adopt`. What it needs is imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import INTERRUPTED, Json

EPILOG = (
    "Examples:\n\n"
    "- `goalreel adopt picked --from pusht-goals`\n\n"
    "- `goalreel adopt merged --from droid-goals --from pusht-goals`"
)


def adopt(
    edited: Annotated[Path, typer.Argument(help="What lerobot-edit-dataset made of annotated datasets.")],
    outs: Annotated[
        list[Path], typer.Option("--from", help="An annotated dataset it was made from. May be repeated.")
    ],
    json_output: Json = False,
) -> None:
    """Bring the records of annotated datasets along to an edited one, for `goalreel show`."""
    with one_line_errors(INTERRUPTED):
        import json
        from dataclasses import asdict

        from goalreel.datasets.carry_over import adopt as work

        adopted = work(edited, outs)
        if json_output:
            typer.echo(json.dumps(asdict(adopted)))
        else:
            without = f"; {len(adopted.unrecorded)} had none" if adopted.unrecorded else ""
            typer.echo(f"{adopted.recorded} episodes have their records again{without}")
