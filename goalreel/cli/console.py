"""The display of the command line while it works and when it is done. Progress goes to stderr."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from goalreel import drivers, wording
from goalreel.progress import OnProgress
from goalreel.types import STATUSES, Answer, Candidate, Edit, Failure, Plan, Request, Verdict

if TYPE_CHECKING:
    from pydantic import BaseModel

    from goalreel.annotator.job import Summary


class _Board:
    """The storyboard so far."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        """Name, marks and comment of each step."""
        self.note = "planning"

    def observe(self, request: Request, answer: Answer) -> None:
        match request, answer:
            case _, Plan():
                self.rows = [[step.name, "" if step.prompt else "in words", ""] for step in answer.steps]
                self.note = "rendering"
            case Candidate(), Verdict() if request.step == len(self.rows):
                self.note = "the end is confirmed" if answer.success else "[yellow]the end is refused[/]"
            case ((Edit() | Candidate()), Failure()) if request.step < len(self.rows):
                row = self.rows[request.step]
                row[1] += "[red]![/] "
                row[2] = answer.message
            case Candidate(), Verdict():
                probability = "" if answer.probability is None else f" {answer.probability:.2f}"
                # Picture checks compare nothing with the words: their yes is none.
                yes = "[yellow]unjudged[/]" if answer.pictures_only else "[green]✓[/]"
                mark = f"{yes}{probability}" if answer.success else f"[yellow]✗[/]{probability} "
                row = self.rows[request.step]
                row[1] += mark
                row[2] = wording.reader_text(answer.reasoning) or answer.refined_prompt or ""
            case _, Failure():
                self.note = f"[red]{escape(answer.message)}[/]"

    def __rich__(self) -> Table:
        columns = ("", "step", "attempts", "the critic")
        table = Table(*columns, box=None, padding=(0, 2, 0, 0), caption=self.note)
        for i, (name, marks, comment) in enumerate(self.rows, start=1):
            short = comment if len(comment) < 80 else comment[:79] + "…"
            table.add_row(str(i), escape(name), marks, escape(short))
        return table


@contextmanager
def live_view() -> Iterator[drivers.Observer]:
    """Show the storyboard on stderr while it grows, or once where that is no terminal; yields `observe`."""
    board, console = _Board(), Console(stderr=True)
    if not console.is_terminal:
        yield board.observe
        board.note = ""
        console.print(board)
        return
    with Live(board, console=console, refresh_per_second=4):
        yield board.observe
        board.note = ""


def results_alone(json_output: bool) -> "AbstractContextManager[object]":
    """Keep stdout for the JSON of a command: what libraries print meanwhile goes to stderr."""
    return redirect_stdout(sys.stderr) if json_output else nullcontext()


def print_json(results: Mapping[str, object]) -> None:
    """Print results on stdout as one JSON object on one line."""
    typer.echo(json.dumps(results))


def print_results(results: Mapping[str, object], text: str, json_output: bool) -> None:
    """Print results on stdout, as one JSON object or as a text."""
    if json_output:
        print_json(results)
    else:
        typer.echo(text)


@contextmanager
def progress_bars() -> Iterator[OnProgress]:
    """One bar a stage: call the yielded function with (stage, done, total)."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bars: dict[str, TaskID] = {}
    # Elsewhere only the last bars are written: to draw them ten times a second would slow the work down.
    with Progress(*columns, console=console, auto_refresh=console.is_terminal) as progress:

        def update(stage: str, done: int, total: int) -> None:
            if stage not in bars:
                bars[stage] = progress.add_task(stage, total=total)
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
    from goalreel.wording import status_counts

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("episodes annotated", str(summary.annotated))
    for title, count, style in (
        ("... without all goal images", summary.incomplete, ""),
        ("episodes already done", summary.resumed, ""),
        ("episodes failed", len(summary.failures), "red"),
        ("episodes not begun", summary.not_begun, "red"),
        *((f"steps {status}", summary.steps[status], "") for status in STATUSES),
        ("... with words in doubt", summary.doubtful, ""),
        ("... not found in the recording", summary.unaligned, ""),
    ):
        if count:
            table.add_row(title, str(count), style=style)
    if summary.resumed and summary.dataset_steps:
        counts = status_counts(summary.dataset_steps.elements())
        table.add_row("steps of all episodes", f"{counts}; corrected episodes are not counted")
    if summary.annotated:
        checked = ", ".join(f"{who} ({n})" for who, n in sorted(summary.end_checked.items()))
        table.add_row("whole task judged by", checked)
    if summary.examination is not None:
        table.add_row("critic's examination", summary.examination.line)
    for form, count in summary.labels.items():
        table.add_row("labels", f"{form}: those of {count} episode{'s' if count != 1 else ''}")
    for one in summary.measured:
        table.add_row("labelled episodes", str(one))
    table.add_row("goal images from", summary.camera)
    table.add_row("dataset", str(summary.out))
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(table)
    by_reason: dict[str, list[int]] = {}
    for episode, reason in sorted(summary.failures.items()):
        by_reason.setdefault(reason, []).append(episode)
    for reason, episodes in by_reason.items():
        console.print(
            f"episode{'s' if len(episodes) > 1 else ''} {', '.join(map(str, episodes))}: {reason}",
            style="red",
        )
    if summary.shard:
        console.print(f"Recorded, not written. When all shards are done:  goalreel build {summary.out}")
    elif summary.annotated or summary.resumed:
        console.print(f"Look at it:  goalreel show {summary.out}")
        console.print(f"What a policy sees of it:  goalreel check {summary.out} --policy CHECKPOINT|TYPE")
    for text, (first, *others) in summary.to_label.items():
        console.print(
            f'Or label episodes {first}, {" and ".join(map(str, others))} of "{text}":  goalreel review '
            f"{summary.out}  Then  annotate --examples {summary.out} --out NEW  carries their steps over "
            "to the others."
        )
