"""`goalreel show`. What it needs is imported when it runs."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import INTERRUPTED, Episodes, Json, RecordedSource, parse_episodes
from goalreel.errors import InputError

EPILOG = "Example: `goalreel show pusht-goals`"


def show(
    dataset: Annotated[
        Path,
        typer.Argument(
            help="A dataset that `goalreel annotate` wrote or is writing; "
            "with --rerun, also a folder of `goalreel plan`."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Folder of the report. [default: DATASET-report]")] = None,
    source: RecordedSource = None,
    episodes: Episodes = None,
    sheets: Annotated[
        bool | None,
        typer.Option(help="Write a contact sheet (PNG) for each episode. [default: up to 200 episodes]"),
    ] = None,
    rerun: Annotated[
        Path | None,
        typer.Option(
            help="Write recordings for the Rerun viewer into this folder instead, one for each episode."
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Write a report to look at: HTML pages and contact sheets, or recordings for Rerun."""
    with one_line_errors(INTERRUPTED):
        from goalreel.cli.console import print_json, progress_bars

        if rerun is not None:
            if out is not None or sheets is not None:
                raise InputError("--out and --sheets are the report's: leave them out with --rerun")
            files = _recordings(dataset, rerun, source, parse_episodes(episodes))
            if json_output:
                print_json({"recordings": [str(file) for file in files]})
            else:
                typer.echo(f"Look at {len(files)} with: rerun {shlex.quote(str(rerun))}/*.rrd")
            return
        from goalreel.annotator.show import show as write_report

        base = dataset if dataset.name not in ("", "..") else dataset.resolve()
        folder = out or base.with_name(dataset.resolve().name + "-report")
        with progress_bars() as progress:
            index = write_report(
                dataset,
                folder,
                source=source,
                episodes=parse_episodes(episodes),
                sheets=sheets,
                progress=progress,
            )
        if json_output:
            print_json({"report": str(index)})
        else:
            typer.echo(f"Look at {index}")


def _recordings(dataset: Path, out: Path, source: Path | None, episodes: list[int] | None) -> list[Path]:
    """The .rrd files written."""
    from goalreel.annotator.rrd import write_rrd, write_storyboard_rrd
    from goalreel.cli.console import progress_bars

    if (dataset / "storyboard.json").is_file():
        if source is not None or episodes is not None:
            raise InputError(f"{dataset}: is a storyboard: leave out --source and --episodes")
        return write_storyboard_rrd(dataset, out)
    with progress_bars() as progress:
        return write_rrd(dataset, out, source=source, episodes=episodes, progress=progress)
