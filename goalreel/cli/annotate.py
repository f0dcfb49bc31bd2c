"""`goalreel annotate`. What it needs is imported when it runs."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from goalreel.cli import bags
from goalreel.cli.errors import fail, one_line_errors
from goalreel.cli.models import (
    Critic,
    CriticMode,
    CriticScores,
    CriticThreshold,
    Editor,
    Keep,
    MaxAttempts,
    MaxSteps,
    Planner,
    Preset,
    choices,
)
from goalreel.cli.options import (
    INTERRUPTED,
    Episodes,
    Json,
    OnUnverified,
    SubGoalFormChoice,
    UseUnverified,
    numbers,
)
from goalreel.errors import InputError

if TYPE_CHECKING:
    from goalreel.annotator.options import Options
    from goalreel.annotator.workers import Workers
    from goalreel.datasets.shards import Shard
    from goalreel.models.presets import Preset as Names

_WORDS = "Words in the dataset"
_PROCESSES = "Several processes"

EPILOG = (
    "Examples:\n\n"
    "- `goalreel annotate pusht --out pusht-goals`\n\n"
    "- `goalreel annotate droid --out droid-goals --camera exterior_1 --episodes 0-9,12`\n\n"
    "- `goalreel annotate g1 --out g1-goals --layout gripper=20:26,position=7:14 --granularity phase`\n\n"
    "- `goalreel annotate labelled --out labelled-goals --planner rows`\n\n"
    "- `goalreel annotate droid --out droid-goals`, again: goes on after a stop, and where droid grew\n\n"
    "- `goalreel annotate droid --out droid-goals --preset api --planner openai:MODEL@http://HOST:8000/v1`, "
    "and so for the editor and the critic: goes on at another HOST\n\n"
    "- `goalreel annotate droid --out droid-goals --retry unverified`\n\n"
    "- `goalreel annotate droid --out droid-more --preset watch --planner watch:openai:MODEL@URL "
    "--critic openai:MODEL@URL --exemplars droid-goals`\n\n"
    "- `goalreel annotate droid --out droid-goals --shard 2/8`, on eight machines, then "
    "`goalreel build droid-goals`\n\n"
    "- `goalreel annotate droid --out droid-goals --ray --workers 4 --preset server`\n\n"
    "- `goalreel annotate run.mcap --out run-goals --state-topic /joint_states --task 'open the drawer'`"
)


class Work(NamedTuple):
    """What a run is to do, beside what decides its result."""

    episodes: list[int] | None
    retry: Literal["failed", "unverified"] | None
    batch_size: int
    shard: "Shard | None"
    workers: "Workers | None"
    corrections: Path | None


def annotate(
    dataset: Annotated[Path, typer.Argument(help="A LeRobot v3.0 dataset or a ROS 2 bag; it is only read.")],
    out: Annotated[Path, typer.Option(help="The new dataset. Run again to resume.")],
    preset: Preset = "hindsight",
    planner: Planner = None,
    editor: Editor = None,
    critic: Critic = None,
    camera: Annotated[
        str | None, typer.Option(help="Camera of the goal images. [default: the first not on the wrist]")
    ] = None,
    episodes: Episodes = None,
    granularity: Annotated[
        Literal["event", "subtask", "phase"],
        typer.Option(help="Cut where the hand takes a thing and lets it go, into sub-tasks, or into phases."),
    ] = "event",
    layout: Annotated[
        str | None, typer.Option(help="State dimensions, if not found by themselves: gripper=6,position=0:3.")
    ] = None,
    exemplars: Annotated[
        Path | None,
        typer.Option(
            metavar="REVIEWED",
            help="Show a planner that watches what people have accepted in this annotated dataset.",
        ),
    ] = None,
    max_attempts: MaxAttempts = None,
    critic_mode: CriticMode = None,
    critic_scores: CriticScores = None,
    critic_threshold: CriticThreshold = None,
    max_steps: MaxSteps = None,
    keep: Keep = None,
    on_unverified: OnUnverified = "continue",
    use_unverified: UseUnverified = False,
    replace_rows: Annotated[
        bool,
        typer.Option(
            "--replace-rows",
            help="Write new sub-task rows in the place of those the dataset has.",
            rich_help_panel=_WORDS,
        ),
    ] = False,
    subgoal_key: Annotated[str, typer.Option(help="Feature name of the sub-goal camera.")] = (
        "observation.images.subgoal"
    ),
    subgoal_form: SubGoalFormChoice = "bordered",
    language: Annotated[
        bool,
        typer.Option(help="Write language columns; plain data loaders fail on them.", rich_help_panel=_WORDS),
    ] = True,
    motion_rows: Annotated[
        bool,
        typer.Option(
            "--motion-rows", help="Write the phases below the sub-tasks too.", rich_help_panel=_WORDS
        ),
    ] = False,
    task_aug: Annotated[
        bool,
        typer.Option("--task-aug", help="Write the instruction in other words too.", rich_help_panel=_WORDS),
    ] = False,
    task_per_frame: Annotated[
        bool,
        typer.Option(
            "--task-per-frame",
            help="Let task_index tell the sub-task of each frame.",
            rich_help_panel=_WORDS,
        ),
    ] = False,
    retry: Annotated[
        Literal["failed", "unverified"] | None,
        typer.Option(help="Try recorded episodes again in which steps failed, or also were not accepted."),
    ] = None,
    corrections: Annotated[
        Path | None,
        typer.Option(help="Another annotated dataset, whose corrections (`goalreel review`) to keep to."),
    ] = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Requests of one kind in one call, or at a server.")
    ] = 16,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="i/n",
            help="Record one of n parts at once; end with `goalreel build OUT`.",
            rich_help_panel=_PROCESSES,
        ),
    ] = None,
    ray: Annotated[
        bool,
        typer.Option("--ray", help="Have workers of a Ray cluster do it.", rich_help_panel=_PROCESSES),
    ] = False,
    workers: Annotated[
        int,
        typer.Option(min=1, help="With --ray; each has models of its own.", rich_help_panel=_PROCESSES),
    ] = 1,
    gpus: Annotated[
        float, typer.Option(min=0, help="GPUs of a worker, with --ray.", rich_help_panel=_PROCESSES)
    ] = 0.0,
    address: Annotated[
        str | None,
        typer.Option(
            help="Of the Ray cluster. [default: RAY_ADDRESS, or one is started here]",
            rich_help_panel=_PROCESSES,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    json_output: Json = False,
    image_topic: bags.ImageTopic = None,
    state_topic: bags.StateTopic = None,
    action_topic: bags.ActionTopic = None,
    instruction_topic: bags.InstructionTopic = None,
    task: bags.TaskText = None,
    fps: bags.Fps = None,
    clock: bags.Clock = "received",
) -> None:
    """Write sub-tasks and goal images into a copy of a LeRobot dataset, or of what a ROS 2 bag holds."""
    with one_line_errors(INTERRUPTED):
        from goalreel.annotator.exemplars import accepted
        from goalreel.annotator.options import Options
        from goalreel.annotator.workers import Workers
        from goalreel.datasets.shards import Shard
        from goalreel.models import presets

        topics = bags.BagOptions(image_topic, state_topic, action_topic, instruction_topic, task, fps, clock)
        names = presets.load(preset, **choices(locals()))
        if motion_rows and names.planner != "kinematic":
            raise InputError("--motion-rows come from the motion: use them with --planner kinematic")
        options = replace(Options.of(locals()), accepted=accepted(exemplars) if exemplars else ())
        if not ray and (workers > 1 or gpus or address):
            raise InputError("--workers, --gpus and --address need --ray")
        if ray and shard:
            raise InputError("--shard is for processes without --ray: leave one of them out")
        crew = Workers(names, workers, gpus, address) if ray else None
        part = Shard.parse(shard) if shard else None
        work = Work(numbers(episodes), retry, batch_size, part, crew, corrections)
        _annotate(dataset, out, topics, names, options, work, json_output)


def _annotate(
    dataset: Path,
    out: Path,
    topics: bags.BagOptions,
    names: "Names",
    options: "Options",
    work: Work,
    json_output: bool,
) -> None:
    from goalreel.annotator.annotate import annotate as run
    from goalreel.annotator.annotate import open_dataset
    from goalreel.batch import Limits
    from goalreel.cli.console import progress_bars, show_summary
    from goalreel.models.load import load

    limits = Limits(work.batch_size, in_flight=4 * work.batch_size)
    with progress_bars() as progress:
        source = open_dataset(bags.dataset_of(dataset, out, topics, progress))
        models = load(names, recordings=options.recorded(source), roles=())
        summary = run(
            source,
            out,
            models,
            options,
            episodes=work.episodes,
            retry=work.retry,
            limits=limits,
            shard=work.shard,
            workers=work.workers,
            corrections=work.corrections,
            progress=progress,
        )
    if json_output:
        typer.echo(summary.as_json())
    else:
        show_summary(summary)
    if summary.stopped:
        fail(summary.stopped)
    if not summary.clean:
        raise typer.Exit(1)
