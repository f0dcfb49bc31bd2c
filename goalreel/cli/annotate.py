"""`goalreel annotate` and `bag2lerobot`. What they need is imported when they run."""

import sys
import webbrowser
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalreel.annotator.options import Options, RunOptions
from goalreel.cli.errors import fail, one_line_errors
from goalreel.cli.options import (
    INTERRUPTED,
    RUN,
    FieldOptions,
    Json,
    PresetOptions,
    SubGoalFormChoice,
    with_options,
)
from goalreel.datasets.bags import TopicRequest, find_bags, require_bags
from goalreel.errors import InputError
from goalreel.models.presets import ModelChoice
from goalreel.progress import OnProgress

if TYPE_CHECKING:
    from goalreel.annotator.job import Summary
    from goalreel.annotator.questions import Choice, Question
    from goalreel.datasets.source import Source

ANNOTATE_EPILOG = (
    "More: docs/how-to/annotate.md.\n\n"
    "Examples:\n\n"
    "- `goalreel annotate droid --out droid-goals --camera exterior_1 --episodes 0-9,12`\n\n"
    "- `goalreel annotate g1 --out g1-goals --layout gripper=20:26,position=7:14 --granularity phase`\n\n"
    "- `goalreel annotate droid --out droid-carried --examples droid-goals`, of which some are reviewed\n\n"
    "- `goalreel annotate droid --out droid-goals --preset watch --planner watch:openai:MODEL@URL`\n\n"
    "- `goalreel annotate run.mcap --out run-goals --state-topic /joint_states --task 'open the drawer'`"
)


@with_options(
    config_file=True,
    shown=(
        *("preset", "planner", "camera", "granularity", "layout", "examples", "details"),
        *("episodes", "retry", "json_output"),
    ),
    models=PresetOptions("hindsight"),
    options=FieldOptions(Options),
    run=FieldOptions(RunOptions, without=("in_flight",)),
    topics=FieldOptions(TopicRequest, without=("subgoal_topic", "storyboard_topic")),
)
def annotate(
    dataset: Annotated[
        Path,
        typer.Argument(help="A LeRobot v3.0 dataset, its name on the Hub, or a ROS 2 bag; it is only read."),
    ],
    out: Annotated[Path, typer.Option(help="The new dataset. Run again to resume.")],
    models: ModelChoice,
    options: Options,
    run: RunOptions,
    *,
    json_output: Json = False,
    push_to_hub: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER/NAME", help="Upload the finished dataset to the Hub.", rich_help_panel=RUN
        ),
    ] = None,
    topics: TopicRequest,
) -> None:
    """Add steps and goal images to a copy of a LeRobot dataset, or to a dataset made from a ROS 2 bag."""
    with one_line_errors(INTERRUPTED):
        from goalreel.annotator.annotate import annotate as annotate_dataset, open_dataset
        from goalreel.cli.console import progress_bars
        from goalreel.datasets.hub import local_folder, push
        from goalreel.datasets.info_file import HUB_NAME
        from goalreel.models.load import kinds_of

        if push_to_hub and run.shard:
            raise InputError("--push-to-hub uploads a whole dataset: leave out --shard")
        if push_to_hub and not HUB_NAME.fullmatch(push_to_hub):
            raise InputError(f"--push-to-hub {push_to_hub}: is not OWNER/NAME")
        preset = models.on_robot().load()
        kinds_of(preset)  # refuses an unknown model before a bag is converted
        if (options.motion_rows or options.steps) and preset.planner != "kinematic":
            raise InputError("--motion-rows and --steps need the motion: use them with --planner kinematic")
        with progress_bars() as progress:
            folder = local_folder(dataset, episodes=None if push_to_hub else run.episodes)
            source = open_dataset(_dataset_of(folder, out, topics, progress))
        if push_to_hub and (missing := source.missing_files()):
            raise InputError(
                f"--push-to-hub uploads a whole dataset, and {next(iter(missing.values()))} is missing"
            )
        if preset.planner == "kinematic" and run.examples is None:
            options = with_answers(options, source)
        with progress_bars() as progress:
            robot = options.recorded(source).robot
            if robot and robot.findings:
                typer.echo("The robot as its numbers show it (otherwise: --layout, --camera):", err=True)
                typer.echo("\n".join(f"  {finding}" for finding in robot.findings), err=True)
            summary = annotate_dataset(source, out, None, options, run, preset=preset, progress=progress)
        if push_to_hub and not summary.clean:
            typer.echo(f"Not uploaded to {push_to_hub}: a step failed, or is left to do", err=True)
        _report(summary, json_output)
        if push_to_hub:
            typer.echo(f"Uploaded to {push(out, push_to_hub)}", err=True)


def _dataset_of(path: Path, out: Path, request: TopicRequest, progress: OnProgress) -> Path:
    """`path`, or the dataset OUT-recorded made from it where it is a bag."""
    if (path / "meta" / "info.json").is_file() or not find_bags(path):
        if request != TopicRequest():
            raise InputError(f"{path}: is no ROS 2 bag, so topics, --task, --fps and --clock have no meaning")
        return path
    from goalreel.datasets.bags.convert import convert, read_bags

    recorded = _recorded_beside(out)
    convert(read_bags(path, request), request, recorded, partial(progress, "convert"))
    return recorded


def _recorded_beside(out: Path) -> Path:
    return out.with_name(out.name + "-recorded")


def _report(summary: "Summary", json_output: bool) -> None:
    """Print what was done; the exit status is 1 where something is left to do."""
    from goalreel.cli.console import show_summary

    if json_output:
        typer.echo(summary.as_json())
    else:
        show_summary(summary)
    if summary.stopped:
        fail(summary.stopped)
    if not summary.clean:
        raise typer.Exit(1)


def with_answers(options: "Options", source: "Source") -> "Options":
    """Ask one question after the other, and add the answers to the options.

    Nothing is asked where stdin or stderr is no terminal: the run then ends with the first question.
    """
    asked: set[str] = set()
    while sys.stdin.isatty() and sys.stderr.isatty():
        from goalreel.annotator.questions import find_question, with_picture
        from goalreel.annotator.robot import goal_camera, read_robot

        robot = read_robot(source, options.state_layout, options.camera)
        question = find_question(robot, options.layout)
        if question is None or not question.choices or question.finding.field in asked:
            break
        asked.add(question.finding.field)
        choice = _ask(with_picture(question, source, robot, goal_camera(robot, source)))
        typer.echo(f"Next time say {choice.option}", err=True)
        name, _, value = choice.option.removeprefix("--").partition(" ")
        options = options.but(**{name: value})
    return options


def _ask(question: "Question") -> "Choice":
    if not question.picture:
        typer.echo(f"{question}.", err=True)
    else:
        typer.echo(f"The data do not tell {question.about}: {question.finding.reason}.", err=True)
        typer.echo(f"Look at {question.picture}", err=True)
        typer.secho(question.look, err=True, bold=True)
    for choice in question.choices:
        words = f"{choice.words}  ({choice.option})" if question.picture else choice.option
        typer.echo(f"  {choice.letter}  {words}", err=True)
    letters = {choice.letter: choice for choice in question.choices}
    browser = "; W shows the picture in the browser" if question.picture else ""
    while True:
        word = typer.prompt(f"{' or '.join(letters)}{browser}", err=True).strip().upper()
        if word == "W" and question.picture:
            if not webbrowser.open(question.picture.as_uri()):
                typer.echo(f"No browser opens here: look at {question.picture}", err=True)
        elif word in letters:
            return letters[word]


BAG2LEROBOT_EPILOG = "Example: `goalreel bag2lerobot run.mcap --out run --state-topic /joint_states`"


@with_options(request=FieldOptions(TopicRequest))
def bag2lerobot(
    bag: Annotated[Path, typer.Argument(help="A bag folder, a .mcap or .db3 file, or a folder of bags.")],
    out: Annotated[Path, typer.Option(help="The new dataset. Run again to resume.")],
    request: TopicRequest,
    use_rejected: Annotated[
        bool, typer.Option(help="Use steps without an accepted goal image as training data, too.")
    ] = False,
    subgoal_form: SubGoalFormChoice = "bordered",
    json_output: Json = False,
) -> None:
    """Make a LeRobot dataset from ROS 2 bags, with the goal images that a goalreel node streamed."""
    with one_line_errors("interrupted: run the same command again"):
        from goalreel.cli.console import print_results, progress_bars

        require_bags(bag)  # before rosbags is imported
        from goalreel.datasets.bags.convert import convert, has_goals, read_bags, write_goals

        cuts = read_bags(bag, request)
        counts: Counter[str] = Counter()
        with progress_bars() as progress:
            goals = has_goals(cuts)
            recorded = _recorded_beside(out) if goals else out
            convert(cuts, request, recorded, partial(progress, "convert"))
            if goals:
                write = partial(progress, "write")
                boards = write_goals(
                    recorded, out, cuts, request, use_rejected=use_rejected, form=subgoal_form, progress=write
                )
                counts = Counter(step.status for board in boards for step in board.steps)
        episodes = [e for each in cuts.values() for e in each.excerpts]
        frames = sum(len(e.moments) for e in episodes)
        print_results(
            {"out": str(out), "episodes": len(episodes), "frames": frames, "steps": counts},
            f"{len(episodes)} episodes, {frames} frames, {counts.total()} sub-goals: {out}",
            json_output,
        )
