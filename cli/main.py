"""The command line. Each command imports what it needs when it runs, so that `--help` answers at once."""

import logging
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from goalreel.cli import bags
from goalreel.cli.corpus import app as corpus_app
from goalreel.cli.errors import fail, one_line_errors
from goalreel.cli.evaluate import app as eval_app
from goalreel.cli.node import node
from goalreel.cli.serve import serve
from goalreel.cli.tabletop import app as tabletop_app
from goalreel.cli.train import app as train_app

app = typer.Typer(
    name="goalreel",
    help="Storyboards of checked visual sub-goals for robot learning.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,
)
app.add_typer(tabletop_app, name="tabletop")
app.add_typer(corpus_app, name="corpus")
app.add_typer(train_app, name="train")
app.add_typer(eval_app, name="eval")
app.command(
    epilog="Examples:\n\n"
    "- `goalreel serve --editor flux2-klein-4b`\n\n"
    "- `goalreel serve --planner hf:DIR --critic hf:DIR --editor diffusers:DIR --ray --replicas 3`"
)(serve)
app.command(
    epilog="Examples:\n\n"
    "- `goalreel node --preset server --camera /wrist_camera`\n\n"
    "- `goalreel node --preset klein --namespace robot1 --no-autostart`\n\n"
    "- `goalreel node --preset api -- -r image:=/zed/rgb/image_rect_color -p image_transport:=compressed`"
)(node)

app.command(epilog="Example: `goalreel bag2lerobot run.mcap --out run --state-topic /joint_states`")(
    bags.bag2lerobot
)

INTERRUPTED = "interrupted; what was finished is saved: run the same command again to go on"
Planner = Annotated[str | None, typer.Option(help="Instead of the preset's: hf:DIR, openai:MODEL@URL.")]
Editor = Annotated[str | None, typer.Option(help="Instead of the preset's: diffusers:DIR, server:URL.")]
Critic = Annotated[str | None, typer.Option(help="Instead of the preset's: hf:DIR, openai:MODEL@URL.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Requests of one kind in one model call.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on the last line.")]


class Granularity(StrEnum):
    """How finely an episode is cut."""

    subtask = "subtask"
    phase = "phase"


class OnUnverified(StrEnum):
    """What follows a step without an accepted image."""

    proceed = "continue"
    stop = "stop"


def _version(wanted: bool) -> None:
    if wanted:
        from goalreel import __version__

        typer.echo(f"goalreel {__version__}")
        raise typer.Exit


@app.callback()
def main(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what is going on.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    """Storyboards of checked visual sub-goals for robot learning."""
    from rich.console import Console
    from rich.logging import RichHandler

    handler = RichHandler(console=Console(stderr=True), show_path=False, show_time=False)
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(message)s", handlers=[handler]
    )


@app.command(
    epilog="Examples:\n\n"
    "- `goalreel annotate pusht --out pusht-goals`\n\n"
    "- `goalreel annotate droid --out droid-goals --camera exterior_1 --episodes 0-9,12`\n\n"
    "- `goalreel annotate g1 --out g1-goals --layout gripper=20:26,position=7:14 --granularity phase`\n\n"
    "- `goalreel annotate run.mcap --out run-goals --state-topic /joint_states --task 'open the drawer'`"
)
def annotate(
    dataset: Annotated[Path, typer.Argument(help="A LeRobot v3.0 dataset or a ROS 2 bag; it is only read.")],
    out: Annotated[Path, typer.Option(help="The new dataset. Run again to resume.")],
    preset: Annotated[str, typer.Option(help="Which planner, editor and critic.")] = "hindsight",
    planner: Planner = None,
    editor: Editor = None,
    critic: Critic = None,
    camera: Annotated[
        str | None, typer.Option(help="Camera of the goal images. [default: the first not on the wrist]")
    ] = None,
    episodes: Annotated[str | None, typer.Option(help="Such as 3, 0-9 or 0-4,7. [default: all]")] = None,
    granularity: Annotated[
        Granularity, typer.Option(help="Sub-tasks, or their phases.")
    ] = Granularity.subtask,
    layout: Annotated[
        str | None, typer.Option(help="State dimensions, if not found by themselves: gripper=6,position=0:3.")
    ] = None,
    max_attempts: Annotated[
        int | None, typer.Option(min=1, help="Attempts a step. [default: the preset's]")
    ] = None,
    on_unverified: Annotated[
        OnUnverified, typer.Option(help="After a step without an accepted image.")
    ] = OnUnverified.proceed,
    use_unverified: Annotated[bool, typer.Option(help="Let unverified images become training data.")] = False,
    subgoal_key: Annotated[str, typer.Option(help="Feature name of the sub-goal camera.")] = (
        "observation.images.subgoal"
    ),
    batch_size: BatchSize = 16,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    json_output: Json = False,
    image_topic: bags.ImageTopic = None,
    state_topic: bags.StateTopic = None,
    action_topic: bags.ActionTopic = None,
    instruction_topic: bags.InstructionTopic = None,
    task: bags.TaskText = None,
    fps: bags.Fps = None,
    clock: bags.ClockOption = bags.Clock.received,
) -> None:
    """Write sub-tasks and goal images into a copy of a LeRobot dataset, or of what a ROS 2 bag holds."""
    with one_line_errors(INTERRUPTED):
        from goalreel.annotator.annotate import Settings
        from goalreel.annotator.annotate import annotate as work
        from goalreel.batch import Limits
        from goalreel.cli.console import progress_bars, show_summary

        settings = Settings(
            preset=preset,
            planner=planner,
            editor=editor,
            critic=critic,
            camera=camera,
            subgoal_key=subgoal_key,
            granularity=granularity.value,
            layout=layout,
            max_attempts=max_attempts,
            on_unverified=on_unverified.value,
            use_unverified=use_unverified,
            seed=seed,
        )
        limits = Limits(batch_size, in_flight=4 * batch_size)
        topics = bags.BagOptions(image_topic, state_topic, action_topic, instruction_topic, task, fps, clock)
        with progress_bars() as progress:
            root = bags.dataset_of(dataset, out, topics, progress)
            summary = work(root, out, settings, episodes=_numbers(episodes), limits=limits, progress=progress)
        if json_output:
            typer.echo(summary.as_json())
        else:
            show_summary(summary)
        if summary.failures:
            raise typer.Exit(1)


@app.command(
    epilog="Examples:\n\n"
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
    max_attempts: Annotated[
        int | None, typer.Option(min=1, help="Attempts a step. [default: the preset's]")
    ] = None,
    on_unverified: Annotated[
        OnUnverified, typer.Option(help="After a step without an accepted image.")
    ] = OnUnverified.proceed,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    json_output: Json = False,
) -> None:
    """Render a storyboard nobody has filmed, from a frame and an instruction or from text alone."""
    with one_line_errors(INTERRUPTED):
        import json
        from collections import Counter

        from goalreel.annotator.plan import plan as work
        from goalreel.cli.live import live_view
        from goalreel.image import Image
        from goalreel.models import presets

        if len(task) > 2:
            raise ValueError("give one FRAME and one INSTRUCTION: put quotes around the instruction")
        image = Image.decode(_read(Path(task[0]))) if len(task) == 2 else None
        models = presets.load(
            preset, planner=planner, editor=editor, critic=critic, max_attempts=max_attempts
        )
        with live_view() as observe:
            board = work(
                task[-1], image, out, models, seed=seed, on_unverified=on_unverified.value, observe=observe
            )
        counts = Counter(step.status for step in board.steps)
        if json_output:
            typer.echo(
                json.dumps({"report": str(out / "index.html"), "complete": board.complete, "steps": counts})
            )
        elif board.failure is None:
            typer.echo(f"Look at {out / 'index.html'}")
        if board.failure is not None:
            fail(f"no plan: {board.failure.message}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise ValueError(f"{path}: cannot be read ({e.strerror})") from e


@app.command(epilog="Example: `goalreel show pusht-goals`")
def show(
    dataset: Annotated[Path, typer.Argument(help="A dataset that `goalreel annotate` wrote.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the report. [default: DATASET-report]")] = None,
    episodes: Annotated[str | None, typer.Option(help="Such as 3, 0-9 or 0-4,7. [default: all]")] = None,
    sheets: Annotated[
        bool | None,
        typer.Option(help="Write a PNG contact sheet an episode. [default: for 200 episodes at most]"),
    ] = None,
    json_output: Json = False,
) -> None:
    """Write a report to look at: HTML without any network, and contact sheets."""
    with one_line_errors(INTERRUPTED):
        import json

        from goalreel.annotator.show import show as work
        from goalreel.cli.console import progress_bars

        folder = out or dataset.with_name(dataset.resolve().name + "-report")
        with progress_bars() as progress:
            index = work(dataset, folder, episodes=_numbers(episodes), sheets=sheets, progress=progress)
        if json_output:
            typer.echo(json.dumps({"report": str(index)}))
        else:
            typer.echo(f"Look at {index}")


@app.command()
def doctor(json_output: Json = False) -> None:
    """Check what is installed here, and name the command that installs what is missing."""
    with one_line_errors(INTERRUPTED):
        from goalreel.cli.doctor import doctor as work

        raise typer.Exit(work(json_output))


def _numbers(text: str | None) -> list[int] | None:
    """Parse '0-4,7' into episode numbers."""
    if text is None:
        return None
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(f"--episodes takes numbers and ranges such as 0-4,7, not {text!r}")
        found.update(range(int(first), int(last or first) + 1))
    return sorted(found)
