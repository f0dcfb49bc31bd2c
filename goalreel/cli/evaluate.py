"""`goalreel eval`: measurements, as a table or, with `--json`, as one object on the last line.

The command `review` is goalreel's own; goalreel-lab adds the others.
"""

from pathlib import Path
from typing import Annotated

import typer

from goalreel.cli import errors, extension, options

app = extension.command_group(
    "eval", "Measure goalreel against people's corrections, and with goalreel-lab against ground truth."
)
_ROWS = {
    "untouched": "episodes accepted as they came",
    "agreement": "goal images: people and Critic say the same",
    "balanced_agreement": "... balanced over right and wrong",
    "accepted_wrong": "accepted by the Critic, wrong to people",
    "faulty": "episodes all accepted by the Critic, changed or rejected",
    "boundary_f1": "boundaries that stayed, within 0.5 s, F1",
    "names_kept": "names that stayed",
}


@app.command(
    epilog="Keys of `--json`: `untouched`, `agreement`, `balanced_agreement`, `accepted_wrong`, `faulty`, "
    "`boundary_f1`, `names_kept`, each a number in 0-1 or null, with `KEY_low` and `KEY_high`, its 95 % "
    "bootstrap interval over episodes; `faulty_at_most`; `episodes`, `accepted`, `pictures`, `steps_added`, "
    "`steps_removed` (counts).\n\n"
    "Example: `goalreel eval review pusht-goals --json`",
)
def review(
    dataset: Annotated[Path, typer.Argument(help="A dataset that `goalreel review` was given.")],
    source: options.RecordedSource = None,
    json_output: options.Json = False,
) -> None:
    """Compare the models' answers with people's corrections."""
    with errors.one_line_errors():
        from goalreel.annotator.review_scores import measure_reviews
        from goalreel.annotator.show import open_annotated
        from goalreel.annotator.statistics import flatten
        from goalreel.cli.console import measured_table, print_json

        _, _, recorded = open_annotated(dataset, source)
        report = measure_reviews(dataset, recorded.fps)
    if json_output:
        print_json(flatten(report))
        return
    from rich.console import Console

    console = Console()
    console.print(measured_table(report, _ROWS))
    console.print(
        f"{report.episodes} reviewed episodes, {report.accepted} accepted; {report.pictures} pictures"
    )
    if report.faulty_at_most is not None:
        console.print(
            f"Of episodes all of whose goal images the Critic accepted, at most {report.faulty_at_most:.1%} "
            "have a fault (95 % confidence, were the reviewed ones drawn at random)."
        )
