"""`goalreel corpus`: training data from the simulated tabletop, and from stored storyboards."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goalreel.cli import corpus_prompts
from goalreel.cli.bound_options import ModelCommand
from goalreel.cli.corpus_import import EPILOG, import_published, read_dialect
from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import First, Json, PublishedDialect, PublishedPrompts, Split
from goalreel.errors import InputError
from goalreel.terms import Mode

app = typer.Typer(
    name="corpus", help="Make training data for planner, editor and critic.", no_args_is_help=True
)


if TYPE_CHECKING:
    from goalreel.annotator.corpus.report import CorpusReport
    from goalreel.tabletop.lessons.corpus import CorpusOrder, Maker


_Kind = Literal["plans", "continuations", "edits", "verdicts", "live", "wholes", "critiques"]
"""Not a `type`, of which Typer does not list the values."""

_UNSCORED = {
    "critic": "the records hold no scores",
    "simulator": "the simulator knows storyboards called tabletop-SEED alone",
}
"""Scorer -> why it left attempts without scores."""


@app.callback()
def main() -> None:
    """Make training data for planner, editor and critic."""


app.command("import", cls=ModelCommand, epilog=EPILOG)(import_published)
app.command(cls=ModelCommand, epilog=corpus_prompts.EPILOG)(corpus_prompts.prompts)


@app.command(
    cls=ModelCommand,
    epilog="Examples:\n\n"
    "- `goalreel corpus make --kind plans --episodes 20000 --out corpora/plans --workers 8`\n\n"
    "- `goalreel corpus make --kind edits --split validation --episodes 200 --out check --size 96`\n\n"
    "- `goalreel corpus make --kind verdicts --episodes 5000 --out corpora/verdicts --no-text`\n\n"
    "- `goalreel corpus make --kind live --episodes 3000 --out corpora/live --variety 0.4`\n\n"
    "- `goalreel corpus make --kind wholes --episodes 3000 --out corpora/wholes --relabelled 0.8`\n\n"
    "- `goalreel corpus make --kind verdicts --editor diffusers:runs/editor --episodes 1000 --out own`\n\n"
    "- `goalreel corpus make --kind critiques --editor diffusers:nano-editor --episodes 1000 --out rl`",
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
        typer.Option(help="Verdicts or critiques of the pictures of this editor, in this process: <editor>."),
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
        from goalreel.tabletop.lessons.corpus import CorpusOrder

        source = "simulator" if editor is None else f"editor {editor}"
        order = CorpusOrder(kind, split, episodes, size, first, shard, variety, relabelled, source)
        rows = _write(order, out, workers, text, None if editor is None else _judging(kind, editor, variety))
    results: dict[str, object] = {"out": str(out), "rows": rows, "episodes": episodes}
    _show(results, "{rows} rows of {episodes} episodes", json_output)


@app.command(
    "from-storyboards",
    cls=ModelCommand,
    epilog="Each of OUT/sft, OUT/rl, OUT/continuations, OUT/easy and OUT/reflection is a corpus; "
    "OUT/report.json has the numbers. docs/reference/corpus-format.md explains stages and reasons.\n\n"
    "Examples:\n\n"
    "- `goalreel corpus from-storyboards boards --out corpus --scorer openai:MODEL@URL`\n\n"
    "- `goalreel corpus from-storyboards annotated more --out corpus --rl-variance 0.5`\n\n"
    '- `goalreel plan scene.png "..." --out boards/tabletop-7 && '
    "goalreel corpus from-storyboards boards --out corpus --scorer simulator`",
)
def from_storyboards(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="What plan, annotate, eval or bag2lerobot wrote; storyboards are looked for below too.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the corpora. Run again to resume.")],
    scorer: Annotated[
        str,
        typer.Option(
            help="critic: the scores in the records; simulator: of tabletop-SEED alone; else a chat model "
            "as the judge: <critic>."
        ),
    ] = "critic",
    seed: Annotated[int, typer.Option(min=0, help="Of the resampling and the cuts.")] = 0,
    rl_variance: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=25,
            help="Steps whose scores vary more are for reinforcement. [default: the third that varies most]",
        ),
    ] = None,
    dialect: PublishedDialect = "own",
    prompts: PublishedPrompts = None,
    unified: Annotated[
        bool,
        typer.Option(
            "--unified",
            help="Write easy and reflection for models that plan, draw and judge in one reply, with pictures "
            "as outputs.",
        ),
    ] = False,
    json_output: Json = False,
) -> None:
    """Filter stored storyboards into training rows, by the recipe of InterleaveThinker's paper."""
    with one_line_errors("interrupted; what is scored is kept: run the same command again to resume"):
        from goalreel.annotator.corpus.boards import find_boards
        from goalreel.cli.console import progress_bars
        from goalreel.tabletop.sim.task_ids import recording_task_ids

        boards = find_boards(folders, recording_task_ids)
        from goalreel.annotator.corpus.boards import scorer_of
        from goalreel.annotator.corpus.make import RecipeOrder, make_from_storyboards

        import_module("goalreel.tabletop.scorer")  # also in a checkout that is not installed
        order = RecipeOrder(scorer_of(scorer), seed, rl_variance, read_dialect(dialect, prompts), unified)
        with progress_bars() as progress:
            report = make_from_storyboards(boards, order, out, progress=progress)
    if json_output:
        from dataclasses import asdict

        from goalreel.cli.console import print_json

        print_json({"out": str(out), **asdict(report)})
    else:
        _summarize(report, out)


@app.command(
    "filter-groups",
    cls=ModelCommand,
    epilog="Examples:\n\n"
    "- `goalreel corpus filter-groups rl --critic hf:nano-critic?batch_size=64 --out rl-filtered`\n\n"
    "- `goalreel corpus filter-groups rl --critic openai:MODEL@URL --out rl-filtered`",
)
def filter_groups(
    corpus: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of critiques.")],
    critic: Annotated[
        str,
        typer.Option(
            help="The Critic that reinforcement goes on from, sampled at temperature 1 unless its name says "
            "otherwise: <critic>."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the filtered corpus. Run again to resume.")],
    replies: Annotated[int, typer.Option(min=2, help="Replies a row; as many as `group` in training.")] = 8,
    mode: Annotated[Mode, typer.Option(help="As `mode` in training.")] = "strict",
    json_output: Json = False,
) -> None:
    """Keep the critiques that can teach by GRPO: the Critic is right about them sometimes, not always."""
    with one_line_errors("interrupted; finished shards are kept: run the same command again to resume"):
        from goalreel.chat.dialects import OWN
        from goalreel.cli.console import progress_bars
        from goalreel.models.load import build_chat, dialect_of
        from goalreel.models.names import ModelName
        from goalreel.tabletop.sim.task_ids import held_out_split
        from goalreel.training.group_filter import GroupSampling, filter_groups
        from goalreel.training.rows import shards_of

        shards_of(corpus)  # refuses a folder without a corpus before the Critic is loaded
        name = ModelName.parse(critic)
        if "temperature" not in name.options:
            name = ModelName.parse(f"{critic}{'&' if name.query else '?'}temperature=1")
        dialect = dialect_of(name.text, "critic") or OWN
        chat = build_chat(name.text, role="critic")
        sampling = GroupSampling(chat, name.identity(), replies, dialect, mode)
        with progress_bars() as progress:
            useful, rows = filter_groups(
                corpus,
                out,
                sampling,
                held_out=held_out_split,
                progress=lambda done, total: progress("rows", done, total),
            )
    _show({"out": str(out), "kept": useful, "rows": rows}, "kept {kept} of {rows} rows", json_output)


def _show(results: dict[str, object], summary: str, json_output: bool) -> None:
    """Print what was written: as JSON, or the summary on stderr and the folder on stdout."""
    from goalreel.cli.console import print_json

    if json_output:
        print_json(results)
    else:
        typer.echo(summary.format(**results), err=True)
        typer.echo(results["out"])


def _summarize(report: "CorpusReport", out: Path) -> None:
    rows = ", ".join(f"{count} {name}" for name, count in report.rows.items())
    typer.echo(f"rows: {rows}, of {report.storyboards} storyboards", err=True)
    if not report.critic_rows:
        typer.echo(f"no rows for the Critic; most were dropped for: {report.worst() or 'nothing'}", err=True)
        if report.scorer in _UNSCORED and "unscored" in report.dropped.get("scores", {}):
            typer.echo(f"{_UNSCORED[report.scorer]}: name a judge, --scorer openai:MODEL@URL", err=True)
    elif not report.rows["sft"]:
        reason = "steps that vary little hold no rejected attempt to balance with"
        typer.echo(f"no sft row: {reason}; --rl-variance 25 gives every step to sft", err=True)
    typer.echo(f"Look at {out / 'index.html'}")


def _judging(kind: str, name: str, variety: float) -> "Maker":
    """Rows on the pictures of the editor called `name`.

    Raises:
        UserError: it cannot be built.
    """
    from goalreel.models.load import build_editor
    from goalreel.tabletop.lessons.critiques import critique_rows
    from goalreel.tabletop.lessons.judged import drawn_by, editor_rows

    draw = drawn_by(build_editor(name))
    if kind == "critiques":
        return lambda seeds, size: critique_rows(seeds, draw, size, variety=variety)
    return lambda seeds, size: editor_rows(seeds, draw, size, variety=variety)


def _write(order: "CorpusOrder", out: Path, workers: int, text: bool, make: "Maker | None") -> int:
    from goalreel.cli.console import progress_bars
    from goalreel.tabletop.lessons.corpus import make_corpus

    with progress_bars() as progress:
        return make_corpus(
            order,
            out,
            workers=workers,
            text=text,
            make=make,
            progress=lambda done, total: progress("episodes", done, total),
        )
