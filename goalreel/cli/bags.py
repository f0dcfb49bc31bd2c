"""`goalreel bag2lerobot`, and the options with which `goalreel annotate` takes a bag."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import Json, SubGoalFormChoice, UseUnverified
from goalreel.errors import DatasetError, InputError
from goalreel.progress import OnProgress

if TYPE_CHECKING:
    from goalreel.datasets.bags.topics import TopicRequest

_PANEL = "ROS 2 bags"
EPILOG = "Example: `goalreel bag2lerobot run.mcap --out run --state-topic /joint_states`"


ImageTopic = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]TOPIC",
        help="Camera; repeat for more. The first gives the goal images. [default: the only one]",
        rich_help_panel=_PANEL,
    ),
]
StateTopic = Annotated[
    list[str] | None, typer.Option(help="Of the state; repeat to join several.", rich_help_panel=_PANEL)
]
ActionTopic = Annotated[
    list[str] | None, typer.Option(help="Of the action; repeat to join several.", rich_help_panel=_PANEL)
]
InstructionTopic = Annotated[
    str | None, typer.Option(help="Text; each message starts an episode.", rich_help_panel=_PANEL)
]
TaskText = Annotated[
    str | None, typer.Option(help="The instruction; the bag is one episode.", rich_help_panel=_PANEL)
]
Fps = Annotated[
    int | None,
    typer.Option(min=1, max=1000, help="Frames a second. [default: the camera's]", rich_help_panel=_PANEL),
]
Clock = Annotated[
    Literal["received", "header"],
    typer.Option(help="Order messages by reception, or by header stamp.", rich_help_panel=_PANEL),
]
Topic = Annotated[str | None, typer.Option(help="[default: the one of its type]", rich_help_panel=_PANEL)]


@dataclass(frozen=True)
class BagOptions:
    """The options of `annotate` that concern a bag."""

    image: list[str] | None = None
    state: list[str] | None = None
    action: list[str] | None = None
    instruction: str | None = None
    task: str | None = None
    fps: int | None = None
    clock: Literal["received", "header"] = "received"

    def request(self, subgoal: str | None = None, storyboard: str | None = None) -> "TopicRequest":
        """The same for `datasets.bags`."""
        from goalreel.datasets.bags.topics import TopicRequest

        return TopicRequest(
            images=tuple(self.image or ()),
            states=tuple(self.state or ()),
            actions=tuple(self.action or ()),
            instruction=self.instruction,
            task=self.task,
            subgoal=subgoal,
            storyboard=storyboard,
            fps=self.fps,
            clock=self.clock,
        )


def dataset_of(path: Path, out: Path, options: BagOptions, progress: OnProgress) -> Path:
    """`path`, or the dataset OUT-recorded made from it where it is a bag.

    Raises:
        DatasetError: a file that is no bag; or as `read_bags` and `convert`.
        InputError: bag options with something that is no bag.
    """
    from goalreel.datasets.bags.files import SUFFIXES, find_bags

    if (path / "meta" / "info.json").is_file() or not find_bags(path):
        if path.is_file():
            raise DatasetError(
                f"{path}: is neither a LeRobot dataset, which is a folder, nor a ROS 2 bag "
                f"({', '.join(SUFFIXES)} or a folder with metadata.yaml)"
            )
        if options != BagOptions():
            raise InputError(f"{path}: is no ROS 2 bag, so topics, --task, --fps and --clock have no meaning")
        return path
    from goalreel.datasets.bags.convert import convert, read_bags

    request = options.request()
    recorded = recorded_beside(out)
    convert(read_bags(path, request), request, recorded, lambda done, total: progress("convert", done, total))
    return recorded


def recorded_beside(out: Path) -> Path:
    """Where the plain dataset goes that an annotated one is made from."""
    return out.with_name(out.name + "-recorded")


def bag2lerobot(
    bag: Annotated[Path, typer.Argument(help="A bag folder, a .mcap or .db3 file, or a folder of bags.")],
    out: Annotated[Path, typer.Option(help="The new dataset. Run again to resume.")],
    image_topic: ImageTopic = None,
    state_topic: StateTopic = None,
    action_topic: ActionTopic = None,
    instruction_topic: InstructionTopic = None,
    task: TaskText = None,
    subgoal_topic: Topic = None,
    storyboard_topic: Topic = None,
    fps: Fps = None,
    clock: Clock = "received",
    use_unverified: UseUnverified = False,
    subgoal_form: SubGoalFormChoice = "bordered",
    json_output: Json = False,
) -> None:
    """Make a LeRobot dataset from ROS 2 bags, with the goal images that a goalreel node streamed."""
    with one_line_errors("interrupted: run the same command again"):
        from goalreel.cli.console import print_json, progress_bars
        from goalreel.datasets.bags.files import require_bags

        require_bags(bag)  # before rosbags is imported
        from goalreel.datasets.bags.convert import convert, read_bags
        from goalreel.datasets.bags.goals import has_goals, write_goals

        options = BagOptions(image_topic, state_topic, action_topic, instruction_topic, task, fps, clock)
        request = options.request(subgoal_topic, storyboard_topic)
        cuts = read_bags(bag, request)
        counts: Counter[str] = Counter()
        with progress_bars() as progress:
            goals = has_goals(cuts)
            recorded = recorded_beside(out) if goals else out
            convert(cuts, request, recorded, lambda done, total: progress("convert", done, total))
            if goals:
                boards = write_goals(
                    recorded,
                    out,
                    cuts,
                    request,
                    use_unverified=use_unverified,
                    form=subgoal_form,
                    progress=lambda done, total: progress("write", done, total),
                )
                counts = Counter(step.status for board in boards for step in board.steps)
        episodes = [e for each in cuts.values() for e in each.excerpts]
        frames = sum(len(e.moments) for e in episodes)
        if json_output:
            print_json({"out": str(out), "episodes": len(episodes), "frames": frames, "steps": counts})
        else:
            typer.echo(f"{len(episodes)} episodes, {frames} frames, {counts.total()} sub-goals: {out}")
