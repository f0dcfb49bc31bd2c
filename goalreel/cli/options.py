"""Options that several commands share, and what reads their values."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

import typer

from goalreel.errors import InputError

INTERRUPTED = "interrupted; what was finished is saved: run the same command again to resume"
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on the last line.")]
Episodes = Annotated[str | None, typer.Option(help="Which episodes, such as 3, 0-9 or 0-4,7. [default: all]")]
RecordedSource = Annotated[
    Path | None,
    typer.Option(help="The dataset that DATASET is made from, before it is written. [default: remembered]"),
]
Host = Annotated[
    str,
    typer.Option(help="Address to listen at. Any but this machine's own needs a token in GOALREEL_TOKEN."),
]
SPLITS = Literal["train", "validation", "test"]
"""Typer lists the values of a Literal, though not of a `type` that stands for one."""
Split = Annotated[SPLITS, typer.Option(help="Which seeds: train, validation or test.")]
MeasuredSplit = Annotated[
    SPLITS, typer.Option(help="Tune on validation; test is for numbers that get written down.")
]
PublishedDialect = Annotated[
    Literal["own", "interleavethinker"],
    typer.Option(
        help="In whose words the rows ask: goalreel's, or those of InterleaveThinker's checkpoints."
    ),
]
PublishedPrompts = Annotated[
    Path | None,
    typer.Option(help="Clone of InterleaveThinker. [default: $GOALREEL_INTERLEAVETHINKER]"),
]
First = Annotated[int, typer.Option(min=0, help="First seed, counted from 0 in its split.")]
RUN = "The run"
"""The panel of options that say how a run goes."""
OnUnverified = Annotated[
    Literal["continue", "stop"],
    typer.Option(help="What to do after a step without an accepted goal image.", rich_help_panel=RUN),
]
UseUnverified = Annotated[
    bool, typer.Option(help="Use steps without an accepted goal image as training data, too.")
]
SubGoalFormChoice = Annotated[
    Literal["plain", "bordered", "difference", "beside"],
    typer.Option(
        help="How the sub-goal camera shows a goal image. ACT cannot learn from "
        "plain (docs/explanation/subgoal-forms.md)."
    ),
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


def parse_episodes(text: str | None) -> list[int] | None:
    """Read episode numbers; None stays None.

    >>> parse_episodes("0-2,7")
    [0, 1, 2, 7]

    Raises:
        InputError: the text holds anything else.
    """
    if text is None:
        return None
    episodes: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise InputError(f"--episodes takes numbers and ranges such as 0-4,7, not {text!r}")
        episodes.update(range(int(first), int(last or first) + 1))
    return sorted(episodes)


def format_episodes(episodes: Sequence[int]) -> str:
    """Write sorted episode numbers as `parse_episodes` reads them.

    >>> format_episodes([0, 1, 2, 7])
    '0-2,7'
    """
    groups = groupby(enumerate(episodes), key=lambda pair: pair[1] - pair[0])
    runs = [[episode for _, episode in group] for _, group in groups]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
