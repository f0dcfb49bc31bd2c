"""`goalreel annotate`. What it needs is imported when it runs."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goalreel.cli import bags
from goalreel.cli.bound_options import DeclaredOptions, FieldOptions, PresetOptions, with_options
from goalreel.cli.errors import fail, one_line_errors
from goalreel.cli.options import INTERRUPTED, RUN, Episodes, parse_episodes
from goalreel.cli.worker_options import PROCESSES, WorkerOptions
from goalreel.errors import InputError

if TYPE_CHECKING:
    from goalreel.annotator.options import Options
    from goalreel.annotator.summary import Summary
    from goalreel.models.presets import ModelChoice

_PLANNER = "The planner"

EPILOG = (
    "Examples:\n\n"
    "- `goalreel annotate pusht --out pusht-goals`\n\n"
    "- `goalreel annotate droid --out droid-goals --camera exterior_1 --episodes 0-9,12`\n\n"
    "- `goalreel annotate g1 --out g1-goals --layout gripper=20:26,position=7:14 --granularity phase`\n\n"
    "- `goalreel annotate droid --out droid-goals --details motion,pose,progress`\n\n"
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
    "- `goalreel annotate droid --out droid-goals --config droid.yaml`, with `layout: gripper=6` and "
    "the like in the file\n\n"
    "- `goalreel annotate run.mcap --out run-goals --state-topic /joint_states --task 'open the drawer'`"
)


@dataclass(frozen=True)
class RunOptions:
    """Which episodes a run works on and how, apart from what decides its result."""

    episodes: Episodes = None
    exemplars: Annotated[
        Path | None,
        typer.Option(
            metavar="REVIEWED",
            help="For --planner watch:CHAT: show it what people accepted in this annotated dataset.",
            rich_help_panel=_PLANNER,
        ),
    ] = None
    retry: Annotated[
        Literal["failed", "unverified"] | None,
        typer.Option(
            help="Annotate episodes again that have failed steps; unverified: "
            "also those with rejected goal images.",
            rich_help_panel=RUN,
        ),
    ] = None
    corrections: Annotated[
        Path | None,
        typer.Option(
            help="Another annotated dataset, whose corrections by people (`goalreel review`) are used.",
            rich_help_panel=RUN,
        ),
    ] = None
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Also write files again that somebody changed in OUT by hand.",
            rich_help_panel=RUN,
        ),
    ] = False
    batch_size: Annotated[
        int,
        typer.Option(min=1, help="Requests that one model gets at once.", rich_help_panel=RUN),
    ] = 16
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="i/n",
            help="Work on part i of n, beside other processes. Then run `goalreel build OUT`.",
            rich_help_panel=PROCESSES,
        ),
    ] = None


@with_options(
    config_file=True,
    models=PresetOptions("hindsight"),
    options=FieldOptions("goalreel.annotator.options:Options", without=("accepted",)),
    run=DeclaredOptions(RunOptions),
    cluster=DeclaredOptions(WorkerOptions),
    topics=DeclaredOptions(bags.BagOptions),
)
def annotate(
    dataset: Annotated[Path, typer.Argument(help="A LeRobot v3.0 dataset or a ROS 2 bag; it is only read.")],
    out: Annotated[Path, typer.Option(help="The new dataset. Run again to resume.")],
    models: "ModelChoice",
    options: "Options",
    run: RunOptions,
    cluster: WorkerOptions,
    *,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on the last line.", rich_help_panel=RUN)
    ] = False,
    topics: bags.BagOptions,
) -> None:
    """Add steps and goal images to a copy of a LeRobot dataset, or to a dataset made from a ROS 2 bag."""
    with one_line_errors(INTERRUPTED):
        from goalreel.annotator.annotate import annotate as annotate_source
        from goalreel.annotator.annotate import open_dataset
        from goalreel.cli.console import progress_bars
        from goalreel.datasets.records import Shard
        from goalreel.drivers import Limits
        from goalreel.models.load import kinds_of, load

        preset = models.load()
        kinds_of(preset)  # refuses an unknown model before a bag is converted
        if options.motion_rows and preset.planner != "kinematic":
            raise InputError("--motion-rows come from the motion: use them with --planner kinematic")
        if run.exemplars is not None:
            from goalreel.annotator.exemplars import accepted

            options = replace(options, accepted=accepted(run.exemplars))
        workers = cluster.make_workers(preset, run.shard)
        shard = Shard.parse(run.shard) if run.shard else None
        episodes = parse_episodes(run.episodes)
        with progress_bars(plans=not json_output) as progress:
            source = open_dataset(bags.dataset_of(dataset, out, topics, progress))
            recorded = options.recorded(source)
            for finding in recorded.robot.findings if recorded.robot else ():
                typer.echo(str(finding), err=True)
            summary = annotate_source(
                source,
                out,
                load(preset, recordings=recorded, roles=()),
                options,
                episodes=episodes,
                retry=run.retry,
                limits=Limits(run.batch_size, in_flight=4 * run.batch_size),
                shard=shard,
                workers=workers,
                corrections=run.corrections,
                overwrite=run.overwrite,
                progress=progress,
            )
        _report(summary, json_output)


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
