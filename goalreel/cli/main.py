"""The command line. Each command imports what it needs when it runs, so that `--help` answers at once."""

import logging
from typing import Annotated

import typer

from goalreel.cli import annotate, annotated, bags, check, doctor, node, pages, plan, rollout, serve
from goalreel.cli.corpus import app as corpus_app
from goalreel.cli.evaluate import app as eval_app
from goalreel.cli.tabletop import app as tabletop_app
from goalreel.cli.train import app as train_app

app = typer.Typer(
    name="goalreel",
    help="Split robot tasks into steps, each with a goal image that a critic has checked.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,
)
DATASETS = "Storyboards and datasets"
ROBOTS = "Models and robots"
TRAINING = "Training, evaluation and the simulated tabletop"

# In the order in which people come to need them.
app.command("doctor", epilog=doctor.EPILOG, rich_help_panel=DATASETS)(doctor.command)
app.command(epilog=plan.EPILOG, rich_help_panel=DATASETS)(plan.plan)
app.command(epilog=pages.STUDIO_EPILOG, rich_help_panel=DATASETS)(pages.studio)
app.command(epilog=check.EPILOG, rich_help_panel=DATASETS)(check.check)
app.command(epilog=annotate.EPILOG, rich_help_panel=DATASETS)(annotate.annotate)
app.command(epilog=annotated.SHOW_EPILOG, rich_help_panel=DATASETS)(annotated.show)
app.command(epilog=pages.REVIEW_EPILOG, rich_help_panel=DATASETS)(pages.review)
app.command(epilog=annotated.BUILD_EPILOG, rich_help_panel=DATASETS)(annotated.build)
app.command(epilog=annotated.EXPORT_EPILOG, rich_help_panel=DATASETS)(annotated.export)
app.command(epilog=bags.EPILOG, rich_help_panel=DATASETS)(bags.bag2lerobot)
app.command(epilog=annotated.CARRY_OVER_EPILOG, rich_help_panel=DATASETS)(annotated.carry_over)
app.command(epilog=serve.EPILOG, rich_help_panel=ROBOTS)(serve.serve)
app.command(epilog=node.EPILOG, rich_help_panel=ROBOTS)(node.node)
app.command(epilog=rollout.EPILOG, rich_help_panel=ROBOTS)(rollout.rollout)
app.add_typer(corpus_app, name="corpus", rich_help_panel=TRAINING)
app.add_typer(train_app, name="train", rich_help_panel=TRAINING)
app.add_typer(eval_app, name="eval", rich_help_panel=TRAINING)
app.add_typer(tabletop_app, name="tabletop", rich_help_panel=TRAINING)


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

    handler = RichHandler(console=Console(stderr=True), show_path=False, show_time=False)
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(message)s", handlers=[handler]
    )
