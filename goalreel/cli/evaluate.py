"""`goalreel eval`: measurements, as a table or, with `--json`, as one object on the last line.

The command `review` is goalreel's own; goalreel-lab adds the others.
"""

import typer

from goalreel.cli import eval_review
from goalreel.cli.extension import ExtensibleGroup

app = typer.Typer(
    name="eval",
    cls=ExtensibleGroup,
    help="Measure goalreel against people's corrections, and with goalreel-lab against ground truth.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
app.command(epilog=eval_review.EPILOG)(eval_review.review)


@app.callback()
def main() -> None:
    """Measure goalreel against people's corrections, and with goalreel-lab against ground truth."""
