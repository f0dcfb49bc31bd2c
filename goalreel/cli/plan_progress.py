"""The live view of `goalreel plan`: one line a step, with its attempts as they come."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from goalreel.batch import Observer
from goalreel.types import Answer, Candidate, Edit, Failure, Plan, Request, Verdict


class _Board:
    """The storyboard so far."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.marks: list[str] = []
        self.comments: list[str] = []
        self.note = "planning"

    def observe(self, request: Request, answer: Answer) -> None:
        match request, answer:
            case _, Plan():
                self.names = [step.name for step in answer.steps]
                self.marks = ["" if step.prompt else "in words" for step in answer.steps]
                self.comments = [""] * len(self.names)
                self.note = "rendering"
            case ((Edit() | Candidate()), Failure()):
                self.marks[request.step] += "[red]![/] "
                self.comments[request.step] = answer.message
            case Candidate(), Verdict():
                probability = "" if answer.probability is None else f" {answer.probability:.2f}"
                mark = f"[green]✓[/]{probability}" if answer.success else f"[yellow]✗[/]{probability} "
                self.marks[request.step] += mark
                self.comments[request.step] = answer.reasoning or answer.refined_prompt or ""
            case _, Failure():
                self.note = f"[red]{escape(answer.message)}[/]"

    def __rich__(self) -> Table:
        table = Table("", "step", "attempts", "the critic", box=None, padding=(0, 2, 0, 0), caption=self.note)
        rows = zip(self.names, self.marks, self.comments, strict=True)
        for i, (name, marks, comment) in enumerate(rows, start=1):
            short = comment if len(comment) < 80 else comment[:79] + "…"
            table.add_row(str(i), escape(name), marks, escape(short))
        return table


@contextmanager
def live_view() -> Iterator[Observer]:
    """Show the storyboard on stderr while it grows: pass what is yielded to the driver as `observe`.

    Where stderr is no terminal, it is shown once, when it is done.
    """
    board, console = _Board(), Console(stderr=True)
    if not console.is_terminal:
        yield board.observe
        board.note = ""
        console.print(board)
        return
    with Live(board, console=console, refresh_per_second=4):
        yield board.observe
        board.note = ""
