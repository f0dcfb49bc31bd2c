"""The live view of `goalreel plan`: one line a step, with its attempts as they come."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from goalreel.cli.plan_text import step_names
from goalreel.drivers import Observer
from goalreel.progress import OnText, reply_listener
from goalreel.types import Answer, Candidate, Edit, Failure, Plan, Request, Verdict
from goalreel.wording import reader_text

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
            case ((Edit() | Candidate()), Failure()):
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
