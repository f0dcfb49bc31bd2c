# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""`python -m goalreel_ros.client`: give the node a task and watch its storyboard in the terminal."""

import os
import sys
from typing import Annotated

import typer
from rclpy.utilities import remove_ros_args
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.text import Text

from goalreel import storyboard_io, wording
from goalreel.annotator.report.cards import claim_lines
from goalreel.types import Storyboard as Planned
from goalreel_interfaces.msg import CriticVerdict, Storyboard, StoryboardProgress, StoryboardStep
from goalreel_ros.client import GoalreelClient, GoalreelError
from goalreel_ros.convert import IMAGES, STATES, STATUSES, from_claims

app = typer.Typer(add_completion=False)

COLOURS = {"pending": "white", "active": "cyan", "completed": "green", "skipped": "yellow", "failed": "red"}


def panel(step: StoryboardStep) -> Panel:
    """Draw one step: what must become true, its state, the critic's verdict, and who vouches for it."""
    status, image = STATUSES[step.status], IMAGES[step.image_status]
    picture = "no picture: planned in words" if image == "text" else f"picture {image}"
    lines = [step.instruction, picture]
    if step.attempts:
        lines[1] += f", attempt {step.attempts} of {step.max_attempts}"
    if step.critic.verdict != CriticVerdict.NOT_EVALUATED:
        lines.append(f"critic: {wording.reader_text(step.critic.reasoning)}")
    if step.claims:
        lines += claim_lines(from_claims(step.claims))
    doubts = dict.fromkeys(doubt for claim in step.claims for doubt in claim.doubts)
    lines += (f"in doubt: {doubt}" for doubt in doubts if doubt != step.critic.reasoning.strip())
    title = f"{step.index + 1}. {escape(step.name)}"
    return Panel(Text("\n".join(lines)), title=title, subtitle=status, border_style=COLOURS[status])


def picture(board: Storyboard | None, task: str, progress: StoryboardProgress | None) -> RenderableType:
    """Draw the storyboard, panel by panel, as far as it is made, and what the node waits for."""
    message = progress.message if progress is not None else ""
    if board is None or board.task != task:
        return Text(f"{task}: {message or 'waiting for the node'}")
    head = f"{board.task}: {STATES[board.state]}"
    if board.revision:
        head += f", plan {board.revision + 1}"
    if message and STATES[board.state] in ("planning", "rendering", "executing"):
        head += f" ({message})"
    losses = [Text(line, style="red") for line in board.degraded]
    return Group(Text(head, style="bold"), *losses, *(panel(s) for s in board.steps))


@app.command()
def run(
    task: Annotated[str, typer.Argument(help="What the robot should do, or the folder of a storyboard.")],
    server: Annotated[
        str, typer.Option("--node", "--server", help="Name of the node, with its namespace.")
    ] = "goalreel",
    only_generate: Annotated[bool, typer.Option(help="Plan and render, execute nothing.")] = False,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until the node is active.")] = 60.0,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds the task may take; 0: any.")] = 0.0,
) -> None:
    """Give the goalreel node a task and show its storyboard. Ctrl-C cancels the task."""
    console = Console()
    with GoalreelClient(server=server) as client:
        try:
            # Path.is_dir would raise where the text is too long for a name.
            saved = storyboard_io.load_storyboard(task) if os.path.isdir(task) else None  # noqa: PTH112
            task = task if saved is None else saved.task.instruction
            client.wait_until_active(wait)
            shown = lambda: picture(client.storyboard(), task, client.progress())  # noqa: E731
            try:
                with Live(console=console, get_renderable=shown):
                    note = _run_task(client, task, saved, only_generate, timeout)
            finally:
                if not console.is_terminal:
                    console.line()  # in a file, rich does not end the last line
            if note:
                console.print(note, markup=False, highlight=False)
        except (GoalreelError, TimeoutError, ValueError) as e:
            console.print(f"{e}", style="red", markup=False, highlight=False)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            console.print("canceled")
            raise typer.Exit(130) from None


def _run_task(
    client: GoalreelClient, task: str, saved: Planned | None, only_generate: bool, timeout: float
) -> str:
    """Carry the task out, by a saved storyboard; what is to be known of its end, or nothing."""
    if only_generate:
        client.generate(task, timeout=timeout)
        return ""
    handle = client.execute(task, storyboard=saved, timeout=timeout)
    try:
        return handle.result().error_msg
    finally:
        if not handle.done:
            handle.cancel()


if __name__ == "__main__":
    app(remove_ros_args(sys.argv)[1:])
