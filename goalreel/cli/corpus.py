"""`goalreel corpus`: training data from stored storyboards, and from published rows.

goalreel-lab adds `make`, training data from the simulated tabletop.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalreel.cli import corpus_prompts
from goalreel.cli.bound_options import ModelCommand
from goalreel.cli.corpus_import import EPILOG, import_published, read_dialect
from goalreel.cli.errors import one_line_errors
from goalreel.cli.extension import ExtensibleGroup
from goalreel.cli.options import Json, PublishedDialect, PublishedPrompts
from goalreel.terms import Mode

app = typer.Typer(
    name="corpus",
    cls=ExtensibleGroup,
    help="Make training data for planner, editor and critic.",
    no_args_is_help=True,
)


if TYPE_CHECKING:
    from goalreel.annotator.corpus.report import CorpusReport


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
        from goalreel.annotator.corpus.make import RecipeConfig, make_from_storyboards

        order = RecipeConfig(scorer_of(scorer), seed, rl_variance, read_dialect(dialect, prompts), unified)
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
        from goalreel.training.rows import critique_shards

        critique_shards(corpus)  # refuses a folder without a corpus before the Critic is loaded
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
    show_result({"out": str(out), "kept": useful, "rows": rows}, "kept {kept} of {rows} rows", json_output)


def show_result(results: dict[str, object], summary: str, json_output: bool) -> None:
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
