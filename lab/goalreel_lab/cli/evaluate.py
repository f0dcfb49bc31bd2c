"""`goalreel eval`: the measurements that the laboratory adds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import Json
from goalreel_lab.cli import eval_metaworld, eval_zoo
from goalreel_lab.cli.eval_policy import EPILOG as POLICY_EPILOG, policy
from goalreel_lab.cli.eval_published import EPILOG, HELP, published
from goalreel_lab.cli.eval_tabletop import tabletop
from goalreel_lab.cli.eval_videos import ROBOREWARD_EPILOG, WGO_EPILOG, roboreward, wgo

if TYPE_CHECKING:
    from goalreel_lab.bench.kinematic import SegmentationReport

app = typer.Typer(name="eval")

_ROWS = {
    "boundary_f1": "boundary F1",
    "segment_iou": "segment IoU",
    "label_accuracy": "labels, all sub-tasks",
    "label_accuracy_explicit": "labels, object named in the instruction",
    "label_accuracy_underspecified": "labels, object not named",
    "event_boundary_f1": "event boundary F1",
    "phase_boundary_f1": "phase boundary F1",
    "phase_accuracy": "phase, share of frames",
    "even_boundary_f1": "baseline boundary F1 (equal lengths)",
    "even_segment_iou": "baseline segment IoU (equal lengths)",
}


app.command(
    epilog="Keys of `--json`: `PART.MEASURE` as lab/docs/tabletop-bench.md lists them, such as "
    "`plan.exact`, `edit.score`, `critic.balanced_accuracy`, `loop.boards_5`, `loop_terse.gap_closed` and "
    "`closed_loop.gap`, each a number or null, with `KEY_low` and `KEY_high`, its 95 % bootstrap interval "
    "over episodes; `models`, `split`, `first`, `episodes`, `look` and `camera`.\n\n"
    "Examples:\n\n"
    "- `goalreel eval tabletop --preset klein --episodes 20 --parts plan,edit --json`\n\n"
    "- `goalreel eval tabletop --parts plan,edit,critic,loop --look unseen --camera left`\n\n"
    "- `goalreel eval tabletop --preset hindsight --parts annotate`"
)(tabletop)
app.command(epilog=eval_metaworld.EPILOG)(eval_metaworld.metaworld)
app.command(epilog=eval_zoo.EPILOG)(eval_zoo.zoo)
app.command(epilog=POLICY_EPILOG)(policy)
app.command(epilog=WGO_EPILOG)(wgo)
app.command(epilog=ROBOREWARD_EPILOG)(roboreward)
for _name in HELP:
    app.command(_name, epilog=EPILOG.format(name=_name))(published(_name))


@app.command(
    epilog="Keys of `--json`: `boundary_f1`, `segment_iou`, `label_accuracy` (of all sub-tasks), "
    "`label_accuracy_explicit`, `label_accuracy_underspecified`, `event_boundary_f1`, "
    "`phase_boundary_f1`, `phase_accuracy`, `even_boundary_f1`, `even_segment_iou` (the baseline of equal "
    "lengths), each a number in 0-1 or null, with `KEY_low` and `KEY_high`, its 95 % bootstrap interval over "
    "episodes; `episodes`, `subtasks`, `explicit`, `underspecified`, `failures` (counts), `splits` and "
    "`tolerance_s`.\n\n"
    "Example: `goalreel eval segmentation tabletop-test --json`"
)
def segmentation(
    dataset: Annotated[Path, typer.Argument(help="A recording by `goalreel tabletop record`.")],
    tolerance: Annotated[float, typer.Option(min=0, help="Seconds by which a boundary may be off.")] = 0.5,
    layout: Annotated[
        str | None,
        typer.Option(help="Which numbers of the state are what: gripper=11,position=7:10. [default: found]"),
    ] = None,
    json_output: Json = False,
) -> None:
    """Compare the kinematic planner's segments and labels with the truth of a tabletop recording."""
    with one_line_errors():
        from goalreel.annotator.statistics import flatten
        from goalreel.cli.console import print_json
        from goalreel.planners.kinematic.layout import Layout
        from goalreel_lab.bench.kinematic import evaluate

        report = evaluate(dataset, tolerance, Layout.parse(layout) if layout else None)
    if json_output:
        print_json(flatten(report))
    else:
        _table(report)


def _table(report: "SegmentationReport") -> None:
    from rich.console import Console

    from goalreel.cli.console import measured_table

    console = Console()
    console.print(measured_table(report, _ROWS))
    console.print(
        f"{report.episodes} episodes ({', '.join(report.splits)}), {report.subtasks} sub-tasks, of which "
        f"{report.underspecified} not named; {report.failures} without a plan; within {report.tolerance_s} s"
    )
