"""`goalreel eval metaworld`. It imports what it needs when it runs; only a recording needs the simulator."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import Json

if TYPE_CHECKING:
    from goalreel_lab.metaworld.score import MetaWorldReport, ScoreDetail

EPILOG = (
    "Keys of `--json`: `cut_f1`, `cut_precision`, `cut_recall` (within 0.5 s of where contact begins or "
    "ends, the last retreat joined), `false_claims` (share of the names that the simulator contradicts), "
    "`coverage` (share of its contacts with a true name), `observed_untrue` (share of the observed goal "
    "images at whose frame it contradicts the step's words), `observed_early` (those true within 0.5 s), "
    "each a number in 0-1 or null, with `KEY_low` and `KEY_high`, its 95 % bootstrap interval over episodes; "
    "`cuts`, `true_cuts`, `names`, `false_names`, `observed`, `contacts`, "
    "`contacts_named`, `asked`, `inverted`, `failures`, `tasks`, `episodes` (counts), `split`, "
    "`tolerance_s`, `doubt_kinds` (of each, recordings where it keeps an untrue name back, and all) "
    "and, with `--details`, `untrue` and `unnamed`.\n\n"
    "Examples:\n\n"
    "- `goalreel eval metaworld --json`\n\n"
    "- `goalreel eval metaworld --split develop --details`\n\n"
    "- `goalreel eval metaworld --seeds 20 --examples 3`"
)
ROWS = {
    "cut_f1": "cuts F1",
    "cut_precision": "... precision",
    "cut_recall": "... recall",
    "false_claims": "names that the simulator contradicts",
    "coverage": "contacts with a true name",
    "observed_untrue": "observed goal images that it contradicts",
    "observed_early": "... and that are true within 0.5 s",
}


def metaworld(
    split: Annotated[
        Literal["develop", "choose", "report"],
        typer.Option(help="Of the 50 tasks: 30 to develop on, 10 to choose versions by, 10 to report."),
    ] = "report",
    data: Annotated[
        Path | None, typer.Option(help="Where the recordings are, or go. [default: the user's cache]")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Recordings a task.")] = 4,
    size: Annotated[int, typer.Option(min=32, max=512, help="Width and height in pixels.")] = 128,
    examples: Annotated[
        int, typer.Option(min=0, help="Label so many recordings a task, and score the others.")
    ] = 0,
    tasks: Annotated[str, typer.Option(help="Only these of the split; comma-separated.")] = "",
    details: Annotated[
        bool, typer.Option("--details", help="Also list untrue names, and contacts without one.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Score `annotate` on Meta-World's own experts, by the contacts that its simulator reports.

    A task that is recorded already is not recorded again, so a killed run goes on.
    """
    with one_line_errors("interrupted; the recordings are kept: run the same command again to resume"):
        from goalreel.annotator.statistics import flatten
        from goalreel.cli.console import print_json, progress_bars
        from goalreel.files import cache_folder
        from goalreel_lab.cli.options import choose_names
        from goalreel_lab.metaworld.run import measure
        from goalreel_lab.metaworld.tasks import split_tasks

        names = split_tasks(split)
        chosen = choose_names(tasks, names, "task") if tasks else names
        with progress_bars() as progress:
            folder = data or cache_folder("metaworld")
            report = measure(chosen, split, folder, seeds, size, examples, progress)
        if json_output:
            values = {
                key: value for key, value in flatten(report).items() if key not in ("untrue", "unnamed")
            }
            if details:
                values["untrue"] = [detail.model_dump() for detail in report.untrue]
                values["unnamed"] = [detail.model_dump() for detail in report.unnamed]
            print_json(values)
        else:
            _show(report, details)


def _show(report: "MetaWorldReport", details: bool) -> None:
    from rich.console import Console

    from goalreel.cli.console import measured_table

    console = Console()
    console.print(measured_table(report, ROWS))
    console.print(
        f"{report.episodes} episodes of {report.tasks} tasks ({report.split}); {report.false_names} of "
        f"{report.names} names untrue; {report.contacts_named} of {report.contacts} contacts named; "
        f"{report.observed} observed goal images; "
        f"{report.asked} recordings whose run asks for the closed end, {report.inverted} inverted, "
        f"{report.failures} without a plan; "
        f"within {report.tolerance_s} s"
    )
    for kind, (right, of) in report.doubt_kinds.items() if details else ():
        console.print(f"doubt: {right} of {of} {kind}", highlight=False, markup=False, soft_wrap=True)
    for title, names in (("untrue", report.untrue), ("unnamed", report.unnamed)) if details else ():
        for detail in names:
            console.print(f"{title}: {_line(detail)}", highlight=False, markup=False, soft_wrap=True)


def _line(detail: "ScoreDetail") -> str:
    return (
        f"{detail.task} {detail.episode} [{detail.start}:{detail.end}] {detail.instruction!r}: {detail.what}"
    )
