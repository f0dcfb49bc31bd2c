"""What the command line shows while it works and when it is done. Progress goes to stderr."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from goalreel.cli.plan_text import PlanDrafts
from goalreel.progress import OnProgress, reply_listener

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pydantic import BaseModel

    from goalreel.annotator.summary import Summary


def results_alone(json_output: bool) -> "AbstractContextManager[object]":
    """Keep stdout for the JSON of a command: what libraries print meanwhile goes to stderr."""
    return redirect_stdout(sys.stderr) if json_output else nullcontext()


def print_json(results: Mapping[str, object]) -> None:
    """Print results on stdout as one JSON object on one line."""
    typer.echo(json.dumps(results))


class _Rate(ProgressColumn):
    """Items a second, or a minute where they are slow."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed or 0.0
        if not speed:
            return Text("")
        return Text(f"{speed:.1f}/s" if speed >= 1 else f"{60 * speed:.0f}/min", style="dim")


class _Note(ProgressColumn):
    """What is going on, behind the last bar."""

    max_refresh = 0.5

    def __init__(self, note: object) -> None:
        super().__init__()
        self._note = note
        self.last: TaskID | None = None

    def render(self, task: Task) -> Text:
        return Text(str(self._note) if task.id == self.last else "", style="dim")


@contextmanager
def progress_bars(*, plans: bool = False) -> Iterator[OnProgress]:
    """One bar a stage: call the yielded function with (stage, done, total).

    With `plans`, a terminal also shows the step that a chat model is writing into a plan.
    """
    console, written = Console(stderr=True), PlanDrafts()
    note = _Note(written)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        note,
    )
    bars: dict[str, TaskID] = {}
    listener = reply_listener(written.begin) if plans and console.is_terminal else nullcontext()
    # Elsewhere only the last bars are written: to draw them ten times a second would slow the work down.
    display = Progress(*columns, console=console, auto_refresh=console.is_terminal)
    with listener, display as progress:

        def update(stage: str, done: int, total: int) -> None:
            if stage not in bars:
                bars[stage] = note.last = progress.add_task(stage, total=total)
            progress.update(bars[stage], completed=done, total=total)

        yield update


def measured_table(report: "BaseModel", titles: Mapping[str, str]) -> Table:
    """The measurements of a report, by the names of its fields, with their intervals."""
    table = Table("measure", "value", "95 % interval", box=None)
    for key, title in titles.items():
        m = getattr(report, key)
        table.add_row(title, "-" if m.value is None else f"{m.value:.3f}", m.interval())
    return table


def show_summary(summary: "Summary") -> None:
    """Print what an annotation run did, and what to do next."""
    from goalreel.types import STATUSES
    from goalreel.wording import status_counts

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("episodes annotated", str(summary.annotated))
    if summary.unverified:
        table.add_row("... with unverified steps", str(summary.unverified))
    if summary.resumed:
        table.add_row("episodes already done", str(summary.resumed))
    if summary.failures:
        table.add_row("episodes failed", str(len(summary.failures)), style="red")
    if summary.not_begun:
        table.add_row("episodes not begun", str(summary.not_begun), style="red")
    for status in STATUSES:
        if summary.steps[status]:
            table.add_row(f"steps {status}", str(summary.steps[status]))
    if summary.doubtful:
        table.add_row("... with words in doubt", str(summary.doubtful))
    if summary.unaligned:
        table.add_row("... not found in the recording", str(summary.unaligned))
    if summary.resumed and summary.dataset_steps:
        counts = status_counts(summary.dataset_steps.elements())
        table.add_row("steps of all episodes", f"{counts}; corrected episodes are not counted")
    if summary.annotated:
        checked = ", ".join(f"{who} ({n})" for who, n in sorted(summary.end_checked.items()))
        table.add_row("whole task checked by", checked)
    for finding in summary.robot.findings if summary.robot else ():
        table.add_row(finding.field, f"{finding.value or '-'} ({finding.confidence}: {finding.reason})")
    for form, episodes in summary.labels.items():
        table.add_row("labels", f"{form}: those of {episodes} episode{'s' if episodes != 1 else ''}")
    table.add_row("goal images from", summary.camera)
    table.add_row("dataset", str(summary.out))
    console = Console()
    console.print(table)
    by_reason: dict[str, list[int]] = {}
    for episode, reason in sorted(summary.failures.items()):
        by_reason.setdefault(reason, []).append(episode)
    for reason, episodes in by_reason.items():
        which = f"episode{'s' if len(episodes) > 1 else ''} {', '.join(map(str, episodes))}"
        console.print(f"{which}: {reason}", style="red", highlight=False, markup=False)
    if summary.shard:
        note = f"Recorded, not written. When all shards are done:  goalreel build {summary.out}"
        console.print(note, highlight=False, markup=False, soft_wrap=True)
    elif summary.annotated or summary.resumed:
        console.print(
            f"Look at it:  goalreel show {summary.out}", highlight=False, markup=False, soft_wrap=True
        )
