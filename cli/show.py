"""`goalreel show`. What it needs is imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import INTERRUPTED, Episodes, Json, numbers


def show(
    dataset: Annotated[Path, typer.Argument(help="A dataset that `goalreel annotate` wrote or is writing.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the report. [default: DATASET-report]")] = None,
    source: Annotated[
        Path | None,
        typer.Option(help="What DATASET is made from, while it is not written. [default: as its run knows]"),
    ] = None,
    episodes: Episodes = None,
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
            index = work(
                dataset,
                folder,
                source=source,
                episodes=numbers(episodes),
                sheets=sheets,
                progress=progress,
            )
        if json_output:
            typer.echo(json.dumps({"report": str(index)}))
        else:
            typer.echo(f"Look at {index}")
