"""`goalreel corpus`: training data from stored storyboards, and from published rows.

goalreel-lab adds `make`, training data from the simulated tabletop.
"""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goalreel.cli import extension, options
from goalreel.cli.errors import one_line_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goalreel.annotator.corpus.make import CorpusReport


app = extension.command_group("corpus", "Make training data for planner, editor and critic.")


@app.command(
    "import",
    epilog="FILE is told by its fields: `evaluation` makes critiques (InterleaveThinker's critic_rl.jsonl), "
    "`messages` or `conversations` make conversations (ShareGPT, as LLaMA-Factory reads it).\n\n"
    "Examples:\n\n"
    "- `goalreel corpus import Train-Data/critic_rl.jsonl --images DATA --out corpora/rl`\n\n"
    "- `goalreel corpus import Train-Data/planner_sft.json --images DATA --out corpora/planner`",
)
def import_published(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .json or .jsonl file of rows.")],
    out: Annotated[Path, typer.Option(help="Folder of the corpus. Run again to resume.")],
    images: Annotated[
        Path | None,
        typer.Option(help="Folder that the paths of the pictures start from. [default: FILE's folder]"),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    json_output: options.Json = False,
) -> None:
    """Turn published training data into a corpus; a row that cannot be used is counted and left out."""
    with one_line_errors("interrupted; finished shards are kept: run the same command again to resume"):
        from goalreel.cli.console import progress_bars
        from goalreel.datasets.corpora.published import import_corpus

        with progress_bars() as progress:
            report = import_corpus(
                file, images or file.parent, out, workers=workers, progress=partial(progress, "rows")
            )
    results = {"out": str(out), "kind": report.kind, "rows": report.rows, "dropped": dict(report.dropped)}
    lines = [
        f"{report.rows} {report.kind}",
        *(f"left out {count}: {reason}" for reason, count in report.dropped.items()),
    ]
    show_result(results, "\n".join(lines), json_output)


@app.command(
    "from-storyboards",
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
            "as the judge, by name (docs/how-to/models.md)."
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
    dialect: Annotated[
        Literal["own", "interleavethinker"],
        typer.Option(help="Whose words the rows ask in: goalreel's, or those of InterleaveThinker's models."),
    ] = "own",
    prompts: Annotated[
        Path | None, typer.Option(help="Clone of InterleaveThinker. [default: $GOALREEL_INTERLEAVETHINKER]")
    ] = None,
    unified: Annotated[
        bool,
        typer.Option(
            "--unified",
            help="Write easy and reflection for models that plan, draw and judge in one reply, with pictures "
            "as outputs.",
        ),
    ] = False,
    filtered: Annotated[
        bool, typer.Option(help="Leave out steps by the trend of their scores, as the paper's best arm does.")
    ] = True,
    json_output: options.Json = False,
) -> None:
    """Filter stored storyboards into training rows, by the recipe of InterleaveThinker's paper."""
    with one_line_errors("interrupted; what is scored is kept: run the same command again to resume"):
        from goalreel.annotator.corpus.boards import find_boards, scorer_of
        from goalreel.annotator.corpus.make import RecipeConfig, make_from_storyboards
        from goalreel.chat.dialects import whole_dialect
        from goalreel.cli.console import print_json, progress_bars
        from goalreel.tabletop.truth import recording_task_ids

        boards = find_boards(folders, recording_task_ids)
        wording = whole_dialect(dialect, prompts)
        order = RecipeConfig(scorer_of(scorer), seed, rl_variance, wording, unified, filtered)
        with progress_bars() as progress:
            report = make_from_storyboards(boards, order, out, progress=progress)
    if json_output:
        print_json({"out": str(out), **asdict(report)})
    else:
        _summarize(report, out)
    if report.damaged:
        typer.echo(f"goalreel: {report.damaged} of {report.storyboards} storyboards cannot be read", err=True)
        raise typer.Exit(1)


def show_result(results: "Mapping[str, object]", summary: str, json_output: bool) -> None:
    """Print what was written: as JSON, or the summary on stderr and the folder on stdout."""
    from goalreel.cli.console import print_json

    if json_output:
        print_json(results)
    else:
        typer.echo(summary, err=True)
        typer.echo(results["out"])


def _summarize(report: "CorpusReport", out: Path) -> None:
    rows = ", ".join(f"{count} {name}" for name, count in report.rows.items())
    typer.echo(f"rows: {rows}, of {report.storyboards} storyboards", err=True)
    if not report.rows["sft"] + report.rows["rl"]:
        typer.echo(f"no rows for the Critic; most were dropped for: {report.worst() or 'nothing'}", err=True)
        if report.scorer in ("critic", "simulator") and not any(report.success["scored"]):
            typer.echo(f"{report.scorer} scored none: name a judge, --scorer openai:MODEL@URL", err=True)
    elif not report.rows["sft"]:
        typer.echo(
            "no sft row: steps that vary little hold no rejected attempt to balance with; "
            "--rl-variance 25 gives every step to sft",
            err=True,
        )
    typer.echo(f"Look at {out / 'report.json'}")
