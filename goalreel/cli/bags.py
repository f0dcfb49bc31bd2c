"""`goalreel bag2lerobot`, and the options with which `goalreel annotate` takes a bag."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import FieldOptions, Json, SubGoalFormChoice, UseRejected, with_options
from goalreel.errors import InputError
from goalreel.progress import OnProgress
from goalreel.settings import Settings, setting

if TYPE_CHECKING:
    from goalreel.datasets.bags.topics import TopicRequest

_PANEL = "ROS 2 bags"
EPILOG = "Example: `goalreel bag2lerobot run.mcap --out run --state-topic /joint_states`"


Topic = Annotated[str | None, typer.Option(help="[default: the one of its type]", rich_help_panel=_PANEL)]


class BagOptions(Settings):
    """The options of commands that concern a bag."""

    image_topic: list[str] | None = setting(
        None,
        "Camera; repeat for more. The first gives the goal images. [default: the only one]",
        metavar="[NAME=]TOPIC",
        panel=_PANEL,
    )
    state_topic: list[str] | None = setting(
        None, "Topic of the robot's state; repeat to join several.", panel=_PANEL
    )
    action_topic: list[str] | None = setting(
        None, "Topic of the actions; repeat to join several.", panel=_PANEL
    )
    instruction_topic: str | None = setting(
        None, "Topic of the instructions; each message starts an episode.", panel=_PANEL
    )
    task: str | None = setting(None, "The instruction of a bag that is one episode.", panel=_PANEL)
    fps: int | None = setting(None, "Frames a second. [default: the camera's]", ge=1, le=1000, panel=_PANEL)
    clock: Literal["received", "header"] = setting(
        "received", "Order messages by when they were received, or by their header's stamp.", panel=_PANEL
    )

    def request(self, subgoal: str | None = None, storyboard: str | None = None) -> "TopicRequest":
        """The same for `datasets.bags`."""
        from goalreel.datasets.bags.topics import TopicRequest

        return TopicRequest(
            images=tuple(self.image_topic or ()),
            states=tuple(self.state_topic or ()),
            actions=tuple(self.action_topic or ()),
            instruction=self.instruction_topic,
            task=self.task,
            subgoal=subgoal,
            storyboard=storyboard,
            fps=self.fps,
            clock=self.clock,
        )


def dataset_of(path: Path, out: Path, options: BagOptions, progress: OnProgress) -> Path:
    """`path`, or the dataset OUT-recorded made from it where it is a bag.

    Raises:
        DatasetError: as `read_bags` and `convert`.
        InputError: bag options with something that is no bag.
    """
    if not _is_bag(path):
        if options != BagOptions():
            raise InputError(f"{path}: is no ROS 2 bag, so topics, --task, --fps and --clock have no meaning")
        return path
    from goalreel.datasets.bags.convert import convert, read_bags

    request = options.request()
    recorded = recorded_beside(out)
    convert(read_bags(path, request), request, recorded, lambda done, total: progress("convert", done, total))
    return recorded


def _is_bag(path: Path) -> bool:
    if (path / "meta" / "info.json").is_file():
        return False
    from goalreel.datasets.bags import find_bags

    return bool(find_bags(path))


def recorded_beside(out: Path) -> Path:
    """Return where the plain dataset goes that an annotated one is made from."""
    return out.with_name(out.name + "-recorded")


@with_options(topics=FieldOptions(BagOptions))
def bag2lerobot(
    bag: Annotated[Path, typer.Argument(help="A bag folder, a .mcap or .db3 file, or a folder of bags.")],
    out: Annotated[Path, typer.Option(help="The new dataset. Run again to resume.")],
    topics: BagOptions,
    subgoal_topic: Topic = None,
    storyboard_topic: Topic = None,
    use_rejected: UseRejected = False,
    subgoal_form: SubGoalFormChoice = "bordered",
    json_output: Json = False,
) -> None:
    """Make a LeRobot dataset from ROS 2 bags, with the goal images that a goalreel node streamed."""
    with one_line_errors("interrupted: run the same command again"):
        from goalreel.cli.console import print_json, progress_bars
        from goalreel.datasets.bags import require_bags

        require_bags(bag)  # before rosbags is imported
        from goalreel.datasets.bags.convert import convert, has_goals, read_bags, write_goals

        request = topics.request(subgoal_topic, storyboard_topic)
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
                    use_rejected=use_rejected,
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
