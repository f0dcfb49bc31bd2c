"""`goalreel show`. What it needs is imported when it runs."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from goalreel.annotator.options import parse_episodes
from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import INTERRUPTED, Episodes, Json, RecordedSource
from goalreel.errors import InputError

SHOW_EPILOG = (
    "Examples:\n\n- `goalreel show pusht-goals`\n\n- `goalreel show pusht-goals --movie films --episodes 0-2`"
)


def show(
    dataset: Annotated[
        Path, typer.Argument(help="What `goalreel annotate` wrote or is writing, or its name on the Hub.")
    ],
    out: Annotated[Path | None, typer.Option(help="Folder of the report. [default: DATASET-report]")] = None,
    source: RecordedSource = None,
    episodes: Episodes = None,
    rerun: Annotated[
        Path | None,
        typer.Option(
            help="Write recordings for the Rerun viewer into this folder instead, one for each episode."
        ),
    ] = None,
    movie: Annotated[
        Path | None,
        typer.Option(help="Write films into this folder instead: the camera beside the sub-goal (MP4)."),
    ] = None,
    json_output: Json = False,
) -> None:
    """Write a report to look at: HTML pages, or films, or recordings for Rerun."""
    with one_line_errors(INTERRUPTED):
        from goalreel.annotator import show as shown
        from goalreel.cli.console import print_results, progress_bars
        from goalreel.datasets.hub import folder_name, hub_name

        if (rerun or movie) and (out or (rerun and movie)):
            raise InputError("give one of --rerun and --movie; --out is the report's")
        chosen = parse_episodes(episodes)
        with progress_bars() as progress:
            if rerun:
                from goalreel.annotator.rrd import write_rrd

                files = write_rrd(dataset, rerun, source=source, episodes=chosen, progress=progress)
                results: dict[str, object] = {"recordings": list(map(str, files))}
                found = f"{len(files)} with: rerun {shlex.quote(str(rerun))}/*.rrd"
            elif movie:
                files = shown.write_movies(dataset, movie, source=source, episodes=chosen, progress=progress)
                results = {"films": list(map(str, files))}
                found = "\nLook at ".join(map(str, files))
            else:
                base = dataset if dataset.name not in ("", "..") else dataset.resolve()
                folder = Path() if hub_name(dataset) else base.parent
                out = out or folder / f"{folder_name(dataset)}-report"
                index = shown.show(dataset, out, source=source, episodes=chosen, progress=progress)
                results = {"report": str(index)}
                found = str(index)
        print_results(results, f"Look at {found}", json_output)


BUILD_EPILOG = (
    "Examples:\n\n"
    "- `goalreel build droid-goals`\n\n"
    "- `goalreel build droid-goals --source droid --records node1/goals --records node2/goals`"
)


def build(
    out: Annotated[Path, typer.Argument(help="What `goalreel annotate` was given as --out.")],
    source: Annotated[
        Path | None, typer.Option(help="The dataset that was annotated. [default: remembered]")
    ] = None,
    records: Annotated[
        list[Path] | None,
        typer.Option(help="Folders of other shards; their records are copied into OUT first."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also write files again that somebody changed in OUT by hand.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Write the annotated dataset again, with people's corrections or from several shards."""
    with one_line_errors(INTERRUPTED):
        from goalreel.annotator.annotate import build_records
        from goalreel.cli.console import print_results, progress_bars
        from goalreel.datasets.corrections.reviews import Reviews
        from goalreel.datasets.health.issues import spell
        from goalreel.datasets.records import FOLDER, Records

        with progress_bars() as progress:
            missing = build_records(out, source, records or (), progress, overwrite=overwrite)
        brought = Reviews(Records(out / FOLDER, source="")).tally()
        if missing:
            typer.echo(f"not annotated, so without goal images: {spell(missing)}", err=True)
        told = ", ".join(f"{count} × {what}" for what, count in brought.items() if what != "episodes")
        found = f"Brought in, from {brought['episodes']} of the episodes: {told}."
        found = found if brought else "There were no corrections to bring in."
        results = {"out": str(out), "missing": missing, "corrections": brought}
        print_results(results, f"{found}\nLook at it:  goalreel show {out}", json_output)
        if missing:
            raise typer.Exit(1)


EXPORT_EPILOG = (
    "Examples:\n\n"
    "- `goalreel export pusht-goals --out steps.csv`\n\n"
    "- `goalreel export pusht-goals --out steps.parquet`"
)


def export(
    dataset: Annotated[
        Path, typer.Argument(help="What `goalreel annotate` wrote or is writing, or its name on the Hub.")
    ],
    out: Annotated[Path, typer.Option(help="The file, NAME.csv or NAME.parquet.")],
    source: RecordedSource = None,
    json_output: Json = False,
) -> None:
    """Export the steps of an annotated dataset as a table."""
    with one_line_errors("interrupted; nothing was written: run the same command again"):
        from goalreel.annotator.exports import export_table
        from goalreel.cli.console import print_results, progress_bars

        with progress_bars() as progress:
            rows = export_table(dataset, out, source=source, progress=progress)
        print_results({"out": str(out), "rows": rows}, f"{rows} rows: {out}", json_output)
