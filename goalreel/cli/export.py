"""`goalreel export`. What it needs is imported when it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import Json
from goalreel.errors import InputError

if TYPE_CHECKING:
    from goalreel.progress import OnProgress

EPILOG = (
    "Examples:\n\n"
    "- `goalreel export pusht-goals --to table --out steps.csv`\n\n"
    "- `goalreel export pusht-goals --to table --out steps.parquet`\n\n"
    "- `goalreel export pusht-goals --to sarm --out pusht-sarm`\n\n"
    "- `goalreel export pusht-goals --to groot --out pusht-groot`\n\n"
    "- `goalreel export pusht-goals --to groot --out pusht-groot --task-per-frame`"
)
INTERRUPTED = "interrupted; nothing was written: run the same command again"
type Shape = Literal["table", "sarm", "groot"]


def export(
    dataset: Annotated[Path, typer.Argument(help="A dataset that `goalreel annotate` wrote or is writing.")],
    to: Annotated[
        Literal["table", "sarm", "groot"],
        typer.Option(
            help="table: a row a step, with its words, times, status and verdict. "
            "sarm: a copy of the dataset with the stages that lerobot's reward model SARM is trained on. "
            "groot: LeRobot v2.1 as NVIDIA Isaac GR00T is fine-tuned on."
        ),
    ],
    out: Annotated[Path, typer.Option(help="table: the file, NAME.csv or NAME.parquet; else a new folder.")],
    source: Annotated[
        Path | None,
        typer.Option(
            help="table: the dataset that DATASET is made from, before it is written. [default: remembered]"
        ),
    ] = None,
    task_per_frame: Annotated[
        bool, typer.Option(help="groot: make each frame's task its sub-task (task_index).")
    ] = False,
    json_output: Json = False,
) -> None:
    """Export an annotated dataset: as a table, for SARM, or for GR00T."""
    with one_line_errors(INTERRUPTED):
        from goalreel.cli.console import print_json, progress_bars

        with progress_bars() as progress:
            counts = _export(dataset, to, out, source, task_per_frame, progress)
        if json_output:
            print_json({"to": to, "out": str(out), **counts})
        else:
            typer.echo(f"{', '.join(f'{count} {what}' for what, count in counts.items())}: {out}")


def _export(
    dataset: Path,
    to: "Shape",
    out: Path,
    source: Path | None,
    task_per_frame: bool,
    progress: "OnProgress",
) -> dict[str, int]:
    """Write the export; return counts by what they count."""
    if task_per_frame and to != "groot":
        raise InputError("--task-per-frame goes with --to groot: the others have the sub-tasks anyway")
    if to == "table":
        from goalreel.annotator.exports.table import export_table

        return {"rows": export_table(dataset, out, source=source, progress=progress)}
    if source is not None:
        raise InputError("--source is for --to table: the others need a dataset that is written")
    from dataclasses import asdict

    if to == "sarm":
        from goalreel.annotator.exports.sarm import export_sarm

        return asdict(export_sarm(dataset, out, progress=progress))
    from goalreel.annotator.exports.groot import export_groot

    return asdict(export_groot(dataset, out, task_per_frame=task_per_frame, progress=progress))
