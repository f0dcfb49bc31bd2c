"""`goalreel eval zoo`. It imports what it needs when it runs; only a recording needs the simulator."""

from pathlib import Path
from typing import Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import Json
from goalreel_lab.cli.eval_metaworld import ROWS

EPILOG = (
    "Keys of `--json`: those of `goalreel eval metaworld`, of which `tasks` counts combinations and `split` "
    "is the seed; `doubts` (share of the episodes with one, all of which do what they are asked to), `wrong` "
    "(combinations of which something is called certain and is wrong), `unanswerable` (those with a question "
    "that has no right answer) and `faults`, of each combination that has some.\n\n"
    "Example: `goalreel eval zoo --count 200 --seed 1 --json`"
)


def zoo(
    count: Annotated[int, typer.Option(min=1, help="Combinations to draw.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the combinations.")] = 0,
    data: Annotated[
        Path | None, typer.Option(help="Where the simulated episodes are, or go. [default: the user's cache]")
    ] = None,
    details: Annotated[bool, typer.Option("--details", help="Also list the faults of each.")] = False,
    json_output: Json = False,
) -> None:
    """Score `annotate` on other robots' recordings, each written in many ways, by a simulator's truth.

    Needs robosuite where a robot and task are not simulated yet: see lab/README.md.
    """
    with one_line_errors("interrupted; what was simulated is kept"):
        from goalreel.annotator.statistics import flatten
        from goalreel.cli.console import measured_table, print_json, progress_bars
        from goalreel.files import cache_folder
        from goalreel_lab.zoo.run import measure

        with progress_bars() as progress:
            report = measure(count, seed, data or cache_folder("zoo"), progress)
        if json_output:
            kept = {k: v for k, v in flatten(report).items() if k not in ("untrue", "unnamed")}
            print_json(kept)
            return
        from rich.console import Console

        console = Console()
        console.print(measured_table(report, ROWS | {"doubts": "episodes with a doubt"}))
        console.print(
            f"{report.tasks} combinations of seed {seed}: {report.wrong} with a wrong certainty, "
            f"{report.unanswerable} with a question without an answer; {report.false_names} of "
            f"{report.names} names untrue; {report.observed} observed goal images; {report.asked} episodes "
            f"asked for, {report.inverted} inverted, {report.failures} without a plan"
        )
        for writing, faults in report.faults if details else ():
            console.print(f"{writing}: {'; '.join(faults)}", highlight=False, markup=False, soft_wrap=True)
