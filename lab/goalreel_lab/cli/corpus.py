"""`goalreel corpus make`: training data from the simulated tabletop."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goalreel.cli.corpus import show_result
from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import First, Json, Split
from goalreel.errors import InputError

if TYPE_CHECKING:
    from goalreel_lab.corpora.corpus import CorpusConfig, Maker

app = typer.Typer(name="corpus")

_Kind = Literal["plans", "continuations", "edits", "verdicts", "live", "wholes", "critiques"]
"""Not a `type`, of which Typer does not list the values."""


@app.command(
    epilog="Examples:\n\n"
    "- `goalreel corpus make --kind plans --episodes 20000 --out corpora/plans --workers 8`\n\n"
    "- `goalreel corpus make --kind edits --split validation --episodes 200 --out check --size 96`\n\n"
    "- `goalreel corpus make --kind verdicts --episodes 5000 --out corpora/verdicts --no-text`\n\n"
    "- `goalreel corpus make --kind live --episodes 3000 --out corpora/live --variety 0.4`\n\n"
    "- `goalreel corpus make --kind wholes --episodes 3000 --out corpora/wholes --relabelled 0.8`\n\n"
    "- `goalreel corpus make --kind verdicts --editor diffusers:runs/editor --episodes 1000 --out own`\n\n"
    "- `goalreel corpus make --kind critiques --editor diffusers:nano-editor --episodes 1000 --out rl`"
)
def make(
    kind: Annotated[
        _Kind,
        typer.Option(
            help="What is learned; live: of a robot at work; wholes: of the end of a task; "
            "critiques: for --method grpo."
        ),
    ],
    episodes: Annotated[
        int, typer.Option(min=1, help="Number of seeds. Seeds held out for tests give no row.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the corpus. Run again to resume.")],
    split: Split = "train",
    first: First = 0,
    size: Annotated[int, typer.Option(min=64, max=1024, help="Width and height in pixels.")] = 128,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    shard: Annotated[int, typer.Option(min=1, help="Episodes a file.")] = 100,
    text: Annotated[
        bool, typer.Option(help="Write ShareGPT JSON with its images too, but of critiques.")
    ] = True,
    variety: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Share of episodes in other shades and light, or through another camera."
        ),
    ] = 0.0,
    relabelled: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Of wrong candidates, the share that is another sub-goal's true picture."
        ),
    ] = 0.0,
    editor: Annotated[
        str | None,
        typer.Option(
            help="Verdicts or critiques of the pictures of this editor, in this process, by name "
            "(docs/how-to/models.md)."
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Write a corpus as a Hugging Face dataset and as ShareGPT JSON."""
    with one_line_errors("interrupted; finished shards are kept: run the same command again to resume"):
        if editor is not None and (kind not in ("verdicts", "critiques") or workers != 1):
            raise InputError("--editor is for --kind verdicts or critiques, with one worker")
        if editor is None and kind == "critiques":
            raise InputError("--kind critiques needs --editor: they are of its own pictures")
        if editor is not None:
            from goalreel.models.load import check_name
            from goalreel.models.names import ModelName

            check_name("editor", ModelName.parse(editor), recordings=False)
        from goalreel_lab.corpora.corpus import CorpusConfig

        source = "simulator" if editor is None else f"editor {editor}"
        order = CorpusConfig(kind, split, episodes, size, first, shard, variety, relabelled, source)
        rows = _write(order, out, workers, text, None if editor is None else _judging(kind, editor, variety))
    results: dict[str, object] = {"out": str(out), "rows": rows, "episodes": episodes}
    show_result(results, f"{rows} rows of {episodes} episodes", json_output)


def _judging(kind: str, name: str, variety: float) -> "Maker":
    """Rows on the pictures of the editor called `name`.

    Raises:
        UserError: it cannot be built.
    """
    from goalreel.models.load import build_editor
    from goalreel_lab.corpora.verdicts import critique_rows, drawn_by, editor_rows

    draw = drawn_by(build_editor(name))
    if kind == "critiques":
        return lambda seeds, size: critique_rows(seeds, draw, size, variety=variety)
    return lambda seeds, size: editor_rows(seeds, draw, size, variety=variety)


def _write(order: "CorpusConfig", out: Path, workers: int, text: bool, make: "Maker | None") -> int:
    from goalreel.cli.console import progress_bars
    from goalreel_lab.corpora.corpus import make_corpus

    with progress_bars() as progress:
        return make_corpus(
            order,
            out,
            workers=workers,
            text=text,
            make=make,
            progress=lambda done, total: progress("episodes", done, total),
        )
