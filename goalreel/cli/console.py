"""The display of the command line while it works and when it is done. Progress goes to stderr."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
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

from goalreel.drivers import Observer
from goalreel.progress import OnProgress, OnText, reply_listener
from goalreel.types import Answer, Candidate, Edit, Failure, Plan, Request, Verdict
from goalreel.wording import reader_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pydantic import BaseModel

    from goalreel.annotator.job import Summary


_STEPS = re.compile(r"""["'](?:execution_plan|segments)["']\s*:""")
_NAME = re.compile(r"""["'](?:step_)?name["']\s*:\s*(["'])(.+?)\1\s*[,}]""")


def step_names(text: str) -> list[str]:
    """The names of the steps, or of the segments of a recording, in a reply that may not be whole."""
    plan = _STEPS.split(text.rpartition("</think>")[2])
    return [name for _, name in _NAME.findall(plan[-1])] if len(plan) > 1 else []


class PlanDrafts:
    """The plans of a batch while they are written: `begin` is for `reply_listener`."""

    def __init__(self) -> None:
        self._replies: dict[int, list[str]] = {}
        self._is_heard = False

    def begin(self) -> OnText:
        """Listen to a reply. One that begins after others were heard is of another batch."""
        if self._is_heard:
            self._replies, self._is_heard = {}, False
        pieces: list[str] = []

        def hear(text: str) -> None:
            pieces.append(text)
            self._replies[id(pieces)] = pieces
            self._is_heard = True

        return hear

    def __str__(self) -> str:
        """The last step of the longest plan that is not whole; empty where none is being written."""
        texts = ["".join(pieces) for pieces in list(self._replies.values())]
        plans = [step_names(text) for text in texts if not text.rstrip().endswith(("]}", "</answer>", "```"))]
        names = max(plans, key=len, default=[])
        return f"{len(names)}. {names[-1]}" if names else ""


_PLANNING = "planning"


class _Board:
    """The storyboard so far."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.marks: list[str] = []
        self.comments: list[str] = []
        self.note = _PLANNING
        self.reply: list[str] = []
        """The pieces of the planner's reply under way."""

    def begin_reply(self) -> OnText | None:
        if self.note != _PLANNING:  # a critic's
            return None
        self.reply = []
        return self.reply.append

    def observe(self, request: Request, answer: Answer) -> None:
        match request, answer:
            case _, Plan():
                self.names = [step.name for step in answer.steps]
                self.marks = ["" if step.prompt else "in words" for step in answer.steps]
                self.comments = [""] * len(self.names)
                self.note = "rendering"
            case Candidate(), Verdict() if request.step == len(self.names):
                self.note = "the end is confirmed" if answer.success else "[yellow]the end is refused[/]"
            case ((Edit() | Candidate()), Failure()) if request.step < len(self.names):
                self.marks[request.step] += "[red]![/] "
                self.comments[request.step] = answer.message
            case Candidate(), Verdict():
                probability = "" if answer.probability is None else f" {answer.probability:.2f}"
                # Picture checks compare nothing with the words: their yes is none.
                yes = "[yellow]picture checks passed[/]" if answer.pictures_only else "[green]✓[/]"
                mark = f"{yes}{probability}" if answer.success else f"[yellow]✗[/]{probability} "
                self.marks[request.step] += mark
                self.comments[request.step] = reader_text(answer.reasoning) or answer.refined_prompt or ""
            case _, Failure():
                self.note = f"[red]{escape(answer.message)}[/]"

    def __rich__(self) -> Table:
        rows, note = list(zip(self.names, self.marks, self.comments, strict=True)), self.note
        width = None
        if note == _PLANNING and (text := "".join(self.reply)):
            rows = [(name, "", "") for name in step_names(text)]
            note += f": {len(rows)} step{'' if len(rows) == 1 else 's'} so far, {len(text):,} characters"
            width = len(note)
        columns = ("", "step", "attempts", "the critic")
        table = Table(*columns, box=None, padding=(0, 2, 0, 0), caption=note, min_width=width)
        for i, (name, marks, comment) in enumerate(rows, start=1):
            short = comment if len(comment) < 80 else comment[:79] + "…"
            table.add_row(str(i), escape(name), marks, escape(short))
        return table


@contextmanager
def live_view(*, replies: bool = True) -> Iterator[Observer]:
    """Show the storyboard on stderr while it grows: pass what is yielded to the driver as `observe`.

    With `replies` the plan is shown as it is written. Where stderr is no terminal, the storyboard is shown
    once, when it is done.
    """
    board, console = _Board(), Console(stderr=True)
    if not console.is_terminal:
        yield board.observe
        board.note = ""
        console.print(board)
        return
    listener = reply_listener(board.begin_reply) if replies else nullcontext()
    with listener, Live(board, console=console, refresh_per_second=4):
        yield board.observe
        board.note = ""


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
    """A note on what is going on, behind the last bar."""

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
    if summary.incomplete:
        table.add_row("... without all goal images", str(summary.incomplete))
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
        table.add_row("whole task judged by", checked)
    if summary.examination is not None:
        table.add_row("critic examined", summary.examination.line)
    for form, episodes in summary.labels.items():
        table.add_row("labels", f"{form}: those of {episodes} episode{'s' if episodes != 1 else ''}")
    for one in summary.measured:
        table.add_row("labelled episodes", str(one))
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
            f"Look at it:  goalreel show {summary.out}\n"
            f"What a policy sees of it:  goalreel check {summary.out} --policy CHECKPOINT|TYPE",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    for text, (first, *others) in summary.to_label.items():
        console.print(
            f'Or label episodes {first}, {" and ".join(map(str, others))} of "{text}":  goalreel review '
            f"{summary.out}  Then  annotate --examples {summary.out} --out NEW  carries their steps over "
            "to the others.",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
