"""Options that several commands of the laboratory share."""

from collections.abc import Sequence
from typing import Annotated

import typer

from goalreel.cli.options import SPLITS
from goalreel.errors import InputError

MeasuredSplit = Annotated[
    SPLITS, typer.Option(help="Tune on validation; test is for numbers that get written down.")
]


def choose_names[T: str](text: str, choices: Sequence[T], kind: str) -> list[T]:
    """Read a comma-separated list of names, in the order of `choices`.

    >>> choose_names("edit, plan", ("plan", "edit", "critic"), "part")
    ['plan', 'edit']

    Raises:
        InputError: a name is not among the choices, or there is no name.
    """
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in chosen if name not in choices]
    if unknown or not chosen:
        raise InputError(f"no {kind} {', '.join(unknown) or text!r}: choose from {', '.join(choices)}")
    return [name for name in choices if name in chosen]
