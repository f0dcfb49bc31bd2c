"""`goalreel eval wgo|roboreward`: benchmarks of robot videos. Imports what it needs when it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import INTERRUPTED, Json, PresetOptions, with_options

if TYPE_CHECKING:
    from goalreel.models.presets import ModelChoice
    from goalreel_lab.videos.report import VideoBenchReport

_COMMON = (
    "Experimental: it has been run on miniatures of the data alone. lab/docs/benchmarks.md says how to "
    "get the data. Each value has `KEY_low` and `KEY_high`, its 95 % interval; `published` has what others "
    "report, by system; `notes` says what is not comparable."
)
WGO_EPILOG = (
    f"{_COMMON}\n\nKeys of `--json`: `segment_f1`, `segment_precision`, `segment_recall` (overlap of 0.75), "
    "`even_segment_f1` (as many segments of equal length), `end_to_end_f1`, `end_to_end_precision`, "
    "`end_to_end_recall` (with `--judge`), `label_accuracy` (with `--labeller` too), each in 0-1; "
    "`episodes`, `segments`, `failures`, `unlabelled`, `unjudged` (counts) and `models`.\n\n"
    "Example: `goalreel eval wgo --data WGO-Bench --out wgo --planner watch:openai:MODEL --labeller "
    "openai:MODEL --judge openai:JUDGE --json`"
)
ROBOREWARD_EPILOG = (
    f"{_COMMON}\n\nKeys of `--json`: `mae` (rewards of 1 to 5, the mean over subsets), `mae_oxe`, "
    "`mae_roboarena`, `mae_rollouts` (the mean over rollouts), `success` (balanced accuracy, 0-1), "
    "`preference` (0-1); `rollouts`, `subsets`, `unanswered` (counts) and `models`.\n\n"
    "Example: `goalreel eval roboreward --data RoboReward --out roboreward --critic openai:MODEL --json`"
)
Data = Annotated[Path, typer.Option(help="The benchmark's data, as downloaded.")]
Out = Annotated[Path, typer.Option(help="Replies are kept here. Run again to resume.")]


@with_options(models=PresetOptions("watch", only=("planner",)))
def wgo(
    data: Data,
    out: Out,
    models: "ModelChoice",
    labeller: Annotated[
        str | None, typer.Option(help="The chat model that labels the gold segments; needs --judge.")
    ] = None,
    judge: Annotated[str | None, typer.Option(help="The chat model that compares labels.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many episodes.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Calls under way at once.")] = 8,
    json_output: Json = False,
) -> None:
    """WGO-Bench: how well a planner that watches cuts robot videos and names the parts. Experimental."""
    with one_line_errors(INTERRUPTED):
        from goalreel.cli.console import progress_bars
        from goalreel_lab.published.judging import build_judge
        from goalreel_lab.videos.wgo import JUDGE, LABELLER, WgoConfig, run_wgo

        order = WgoConfig(
            data,
            out,
            models.load(replaced=("editor", "critic")),
            None if labeller is None else build_judge(labeller, LABELLER, concurrency=concurrency),
            None if judge is None else build_judge(judge, JUDGE, concurrency=concurrency),
            limit,
        )
        with progress_bars() as progress:
            report = run_wgo(order, progress)
        _show(report, json_output)


@with_options(models=PresetOptions("hindsight", only=("critic", "critic_scores")))
def roboreward(
    data: Data,
    out: Out,
    models: "ModelChoice",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only so many rollouts, evenly spread over all.")
    ] = None,
    json_output: Json = False,
) -> None:
    """RoboRewardBench: how well a Critic judges how real robots' rollouts ended. Experimental."""
    with one_line_errors(INTERRUPTED):
        from goalreel.cli.console import progress_bars
        from goalreel_lab.videos.roboreward import RoboRewardConfig, run_roboreward

        order = RoboRewardConfig(data, out, models.load(), limit)
        with progress_bars() as progress:
            report = run_roboreward(order, progress)
        _show(report, json_output)


def _show(report: "VideoBenchReport", json_output: bool) -> None:
    if json_output:
        typer.echo(report.as_json())
        return
    from rich.console import Console

    Console().print(report.table())
    for note in report.notes:
        typer.echo(note)
