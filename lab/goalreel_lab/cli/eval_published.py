"""`goalreel eval ueval|wise|comm|rise`: the benchmarks of the paper. Imports what it needs when it runs."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goalreel.cli.errors import fail, one_line_errors
from goalreel.cli.options import Json, PresetOptions, with_options
from goalreel.errors import InputError

if TYPE_CHECKING:
    from goalreel.models.presets import ModelChoice, Preset
    from goalreel.progress import OnProgress
    from goalreel_lab.published.judging import Estimate
    from goalreel_lab.published.run import Confirm, PublishedConfig

INTERRUPTED = "interrupted; what was finished is kept: run the same command again to resume"
HELP = {
    "ueval": "UEval: questions answered in text and pictures (the paper's Tables 1 and 5). Experimental.",
    "wise": "WISE, the protocol that the paper ran: pictures that need knowledge (Table 3). Experimental.",
    "comm": "CoMM: illustrated instructions, continued or written from a title (Table 2). Experimental.",
    "rise": "RISE: edits of one picture that need reasoning (Table 4). Experimental.",
}
"""One command each; a benchmark has its line here and one in lab/goalreel_lab/published/run.py."""
EPILOG = (
    "Experimental: it has been run on miniatures of the data alone, and its results may change. "
    "lab/docs/benchmarks.md says where to get the benchmark's data. Without `--judge` the answers are "
    "made and written to OUT/export in the benchmark's own form.\n\n"
    "Keys of `--json`: each measure as KEY, KEY_low and KEY_high (its 95 % bootstrap interval over samples), "
    "KEY_paper where the paper has it; `samples`, `answered`, `unplanned`, `unjudged` (counts), `settings`, "
    "`judge`, `row` and `notes`.\n\n"
    "Example: `goalreel eval {name} --preset klein --data DIR --out {name} --judge openai:MODEL@URL`"
)


def published(name: str) -> Callable[..., None]:
    """The command of one benchmark."""

    @with_options(models=PresetOptions("klein"))
    def work(
        data: Annotated[Path, typer.Option(help="The benchmark's data, as downloaded.")],
        out: Annotated[Path, typer.Option(help="Answers, replies and report. Run again to resume.")],
        models: "ModelChoice",
        judge: Annotated[str | None, typer.Option(help="The chat model that judges.")] = None,
        clone: Annotated[
            Path | None, typer.Option(help="Your clone of the benchmark's repository: the judge's prompts.")
        ] = None,
        limit: Annotated[int | None, typer.Option(min=1, help="Only this many samples.")] = None,
        only: Annotated[
            Literal["generate", "judge"] | None, typer.Option(help="Only make, or only judge the answers.")
        ] = None,
        task: Annotated[int, typer.Option(min=3, max=4, help="CoMM: 3 continues, 4 answers.")] = 3,
        seed: Annotated[int, typer.Option(min=0)] = 0,
        concurrency: Annotated[int, typer.Option(min=1, help="Samples, and calls, under way at once.")] = 16,
        paper_row: Annotated[
            str | None, typer.Option(help="The paper's row to compare with. [default: by the editor]")
        ] = None,
        price_in: Annotated[float | None, typer.Option(min=0, help="$ a million prompt tokens.")] = None,
        price_out: Annotated[float | None, typer.Option(min=0, help="$ a million reply tokens.")] = None,
        retry: Annotated[
            bool, typer.Option("--retry", help="Try samples again of which a model refused something.")
        ] = False,
        shard: Annotated[
            str | None, typer.Option(help="Only make answers, of part 2/8 of the samples.", metavar="I/N")
        ] = None,
        yes: Annotated[bool, typer.Option("--yes", "-y", help="Judge without asking first.")] = False,
        json_output: Json = False,
    ) -> None:
        with one_line_errors(INTERRUPTED):
            from goalreel.datasets.records import Shard
            from goalreel_lab.published.run import PublishedConfig, open_benchmark

            preset = models.by_default(background="ignore").load()
            if task != 3 and name != "comm":
                raise InputError("--task is for eval comm only")
            order = PublishedConfig(
                open_benchmark(name, clone, task),
                data,
                out,
                limit,
                seed,
                only,
                task if name == "comm" else None,
                paper_row,
                concurrency,
                retry,
                None if shard is None else Shard.parse(shard),
            )
            judge_name = None if only == "generate" or shard else judge
            confirm = _confirm(judge_name, yes, price_in, price_out)
            _run(order, preset, judge_name, confirm, json_output)

    work.__doc__ = HELP[name]
    work.__name__ = name
    return work


def _run(
    order: "PublishedConfig", preset: "Preset", judge: str | None, confirm: "Confirm", json_output: bool
) -> None:
    from rich.console import Console

    from goalreel.cli.console import progress_bars
    from goalreel.models.load import load
    from goalreel_lab.published.judging import build_judge
    from goalreel_lab.published.run import run_benchmark

    if order.only == "judge" and judge is None:
        raise InputError("--only judge needs a --judge")
    models = None if order.only == "judge" else load(preset, roles=())
    facts = order.benchmark.judge
    judging = None if judge is None else build_judge(judge, facts, concurrency=order.concurrency)
    with ExitStack() as stack:
        bars: list[OnProgress] = []

        def progress(stage: str, done: int, total: int) -> None:
            if not bars:
                bars.append(stack.enter_context(progress_bars()))
            bars[0](stage, done, total)

        def ask(estimate: "Estimate") -> bool:
            bars.clear()
            stack.close()  # bars that move would write over the question
            return confirm(estimate)

        report = run_benchmark(order, models, judging, confirm=ask, progress=progress)
    if json_output:
        typer.echo(report.as_json())
        return
    if report.values:
        Console().print(report.table())
    for note in report.notes:
        typer.echo(note)
    typer.echo(f"Look at {order.out / 'report.md'}")


def _confirm(judge: str | None, yes: bool, price_in: float | None, price_out: float | None) -> "Confirm":
    """Make the question that is put before judging.

    Raises:
        InputError: there is nobody to ask.
    """
    if judge is not None and not yes and not sys.stdin.isatty():
        raise InputError(
            "judging asks for your consent, and there is no terminal: add --yes, or leave --judge out"
        )

    def confirm(estimate: "Estimate") -> bool:
        typer.echo(f"Judging takes {estimate.text(price_in, price_out)}.", err=True)
        if not yes and not typer.confirm("Go on?", err=True):
            fail("not judged; the answers are kept")
        return True

    return confirm
