"""`goalreel plan`. What it needs is imported when it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalreel.cli.errors import fail, one_line_errors
from goalreel.cli.models import Critic, Editor, MaxAttempts, Planner
from goalreel.cli.options import INTERRUPTED, Json, OnUnverified
from goalreel.errors import InputError

if TYPE_CHECKING:
    from goalreel.image import Image
    from goalreel.types import Storyboard

EPILOG = (
    "Examples:\n\n"
    "- `goalreel plan frame.png 'put the blue block in the yellow bowl' --out plan`\n\n"
    "- `goalreel plan photo.jpg 'open the drawer' --out drawer --preset klein`\n\n"
    "- `goalreel plan 'how to tie a bowline' --out bowline --preset server`\n\n"
    "- `goalreel plan frame.png 'open the drawer' --out p --planner hf:DIR --editor diffusers:DIR`"
)


def plan(
    task: Annotated[
        list[str],
        typer.Argument(metavar="[FRAME] INSTRUCTION", help="A picture to start from, if any; the task."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the storyboard. Run again to resume.")],
    preset: Annotated[
        str, typer.Option(help="Which planner, editor and critic. nano knows only the simulated tabletop.")
    ] = "nano",
    planner: Planner = None,
    editor: Editor = None,
    critic: Critic = None,
    max_attempts: MaxAttempts = None,
    on_unverified: OnUnverified = "continue",
    seed: Annotated[int, typer.Option(min=0)] = 0,
    json_output: Json = False,
) -> None:
    """Render a storyboard nobody has filmed, from a frame and an instruction or from text alone."""
    with one_line_errors(INTERRUPTED):
        from goalreel.annotator.plan import plan as work
        from goalreel.cli.live import live_view
        from goalreel.models import presets
        from goalreel.models.load import load

        if len(task) > 2:
            raise InputError("give one FRAME and one INSTRUCTION: put quotes around the instruction")
        image = _picture(Path(task[0])) if len(task) == 2 else None
        names = presets.load(preset, planner=planner, editor=editor, critic=critic, max_attempts=max_attempts)
        models = load(names, roles=())
        with live_view() as observe:
            board = work(
                task[-1], image, out, models, seed=seed, on_unverified=on_unverified, observe=observe
            )
        _tell(board, out / "index.html", json_output)


def _picture(path: Path) -> "Image":
    from goalreel.image import Image

    try:
        data = path.read_bytes()
    except OSError as e:
        raise InputError(f"{path}: cannot be read ({e.strerror})") from e
    return Image.decode(data)


def _tell(board: "Storyboard", report: Path, json_output: bool) -> None:
    import json
    from collections import Counter

    if json_output:
        counts = Counter(step.status for step in board.steps)
        typer.echo(json.dumps({"report": str(report), "complete": board.complete, "steps": counts}))
    elif board.failure is None:
        typer.echo(f"Look at {report}")
    if board.failure is not None:
        fail(f"no plan: {board.failure.message}")
