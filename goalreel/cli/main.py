"""The command line. Each command imports what it needs when it runs, so that `--help` answers at once."""

import logging
from typing import Annotated

import typer

from goalreel.cli.extension import Place, lazy_group

COMMANDS = {
    "Storyboards and datasets": {
        "doctor": Place("Check what is installed, and print the commands that install what is missing."),
        "plan": Place(
            "Predict a storyboard from a picture and an instruction, or from an instruction alone."
        ),
        "studio": Place(
            "Write a task, drop a picture, and steer the storyboard while it grows, in your browser.",
            "pages",
        ),
        "check": Place("Say what goalreel understands of a dataset, and what is wrong with it."),
        "annotate": Place(
            "Add steps and goal images to a copy of a LeRobot dataset, or to a dataset made from a ROS 2 bag."
        ),
        "show": Place(
            "Write a report to look at: HTML pages, or films, or recordings for Rerun.", "annotated"
        ),
        "review": Place(
            "Look at the steps of a dataset in your browser, correct them, and accept or reject them.",
            "pages",
        ),
        "build": Place(
            "Write the annotated dataset again, with people's corrections or from several shards.",
            "annotated",
        ),
        "export": Place("Export the steps of an annotated dataset as a table.", "annotated"),
        "bag2lerobot": Place(
            "Make a LeRobot dataset from ROS 2 bags, with the goal images that a goalreel node streamed.",
            "annotate",
        ),
    },
    "Models and robots": {
        "serve": Place(
            "Serve models over HTTP: OpenAI's chat and image API, and whole storyboards (see /docs there)."
        ),
        "node": Place("Run the ROS 2 node: frames and instructions in, sub-goals out."),
        "rollout": Place(
            "Give a LeRobot policy sub-goals while it acts, in lerobot's own rollout, without ROS."
        ),
    },
    "Training, evaluation and the simulated tabletop": {
        "corpus": Place("Make training data for planner, editor and critic."),
        "train": Place("Train Planner and Critic."),
        "eval": Place(
            "Measure goalreel against people's corrections, and with goalreel-lab against ground truth.",
            "evaluate",
        ),
        "tabletop": Place("Simulate long-horizon tabletop episodes with ground truth."),
    },
}
"""Panel -> its commands, in the order in which people come to need them."""

app = typer.Typer(
    name="goalreel",
    cls=lazy_group(COMMANDS),
    help="Split robot tasks into steps, each with a goal image that a critic has checked.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,
)


def _version(is_wanted: bool) -> None:
    if is_wanted:
        from goalreel import __version__

        typer.echo(f"goalreel {__version__}")
        raise typer.Exit


@app.callback()
def main(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print what is going on, and the tracebacks of errors.")
    ] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    """Split robot tasks into steps, each with a goal image that a critic has checked."""
    from rich.console import Console
    from rich.logging import RichHandler

    from goalreel.cli.errors import check_address_space

    check_address_space()
    handler = RichHandler(console=Console(stderr=True), show_path=False, show_time=False)
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(message)s", handlers=[handler]
    )
