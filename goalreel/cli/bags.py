"""`goalreel bag2lerobot`, and the options with which `goalreel annotate` takes a bag."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import FieldOptions, Json, SubGoalFormChoice, with_options
from goalreel.datasets.bags import TopicRequest, find_bags, require_bags
from goalreel.errors import InputError
from goalreel.progress import OnProgress

EPILOG = "Example: `goalreel bag2lerobot run.mcap --out run --state-topic /joint_states`"


def dataset_of(path: Path, out: Path, request: TopicRequest, progress: OnProgress) -> Path:
    """`path`, or the dataset OUT-recorded made from it where it is a bag."""
    if (path / "meta" / "info.json").is_file() or not find_bags(path):
        if request != TopicRequest():
            raise InputError(f"{path}: is no ROS 2 bag, so topics, --task, --fps and --clock have no meaning")
        return path
    from goalreel.datasets.bags.convert import convert, read_bags

    recorded = _recorded_beside(out)
    convert(read_bags(path, request), request, recorded, lambda done, total: progress("convert", done, total))
    return recorded


def _recorded_beside(out: Path) -> Path:
    return out.with_name(out.name + "-recorded")


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
        results = {"out": str(out), "episodes": len(episodes), "frames": frames, "steps": counts}
        text = f"{len(episodes)} episodes, {frames} frames, {counts.total()} sub-goals: {out}"
        print_results(results, text, json_output)
