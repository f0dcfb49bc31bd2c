"""`goalreel corpus`: training data from the simulated tabletop. Imports mujoco when run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.models import ModelCommand
from goalreel.cli.options import Split
from goalreel.errors import InputError

app = typer.Typer(
    name="corpus", help="Make training data for planner, editor and critic.", no_args_is_help=True
)


if TYPE_CHECKING:
    from goalreel.datasets.tabletop.lessons.corpus import CorpusOrder, Maker


@app.callback()
def main() -> None:
    """Make training data for planner, editor and critic."""


@app.command(
    cls=ModelCommand,
    epilog="Examples:\n\n"
    "- `goalreel corpus make --kind plans --episodes 20000 --out corpora/plans --workers 8`\n\n"
    "- `goalreel corpus make --kind edits --split validation --episodes 200 --out check --size 96`\n\n"
    "- `goalreel corpus make --kind verdicts --episodes 5000 --out corpora/verdicts --no-text`\n\n"
    "- `goalreel corpus make --kind verdicts --editor diffusers:runs/editor --episodes 1000 --out own`",
)
def make(
    kind: Annotated[Literal["plans", "edits", "verdicts"], typer.Option(help="plans, edits or verdicts.")],
    episodes: Annotated[int, typer.Option(min=1, help="How many seeds; a held-out one gives no row.")],
    out: Annotated[Path, typer.Option(help="Folder of the corpus. Run again to go on.")],
    split: Split = "train",
    first: Annotated[int, typer.Option(min=0, help="First seed, counted from the split's start.")] = 0,
    size: Annotated[int, typer.Option(min=64, max=1024, help="Width and height in pixels.")] = 128,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    shard: Annotated[int, typer.Option(min=1, help="Episodes a file.")] = 100,
    text: Annotated[bool, typer.Option(help="Write ShareGPT JSON with its images too.")] = True,
    editor: Annotated[
        str | None, typer.Option(help="Verdicts on the pictures of this editor, in this process: <editor>.")
    ] = None,
) -> None:
    """Write a corpus as a Hugging Face dataset and as ShareGPT JSON."""
    with one_line_errors("interrupted; finished shards are kept: run the same command again to go on"):
        from goalreel.datasets.tabletop.lessons.corpus import CorpusOrder

        if editor is not None and (kind != "verdicts" or workers != 1):
            raise InputError("--editor is for --kind verdicts, with one worker")
        source = "simulator" if editor is None else f"editor {editor}"
        order = CorpusOrder(kind, split, episodes, size, first, shard, source)
        rows = _write(order, out, workers, text, None if editor is None else _judging(editor))
    typer.echo(f"{rows} rows of {episodes} episodes", err=True)
    typer.echo(str(out))


def _judging(name: str) -> "Maker":
    """Rows on the pictures of the editor called `name`.

    Raises:
        UserError: it cannot be built.
    """
    from goalreel.datasets.tabletop.lessons.judged import drawn_by, editor_rows
    from goalreel.models.load import build_editor

    draw = drawn_by(build_editor(name))
    return lambda seeds, size: editor_rows(seeds, draw, size)


def _write(order: "CorpusOrder", out: Path, workers: int, text: bool, make: "Maker | None") -> int:
    from goalreel.cli.console import progress_bars
    from goalreel.datasets.tabletop.lessons.corpus import make_corpus

    with progress_bars() as progress:
        return make_corpus(
            order,
            out,
            workers=workers,
            text=text,
            make=make,
            progress=lambda done, total: progress("episodes", done, total),
        )
