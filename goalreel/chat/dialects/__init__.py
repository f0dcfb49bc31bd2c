"""The wording of questions to models: `own`, and that of InterleaveThinker's checkpoints."""

from collections.abc import Callable
from pathlib import Path

from goalreel.chat.dialects.interleavethinker import (
    CLONE,
    VARIABLE,
    InterleaveThinkerDialect,
    interleavethinker,
)
from goalreel.chat.dialects.own import OWN, Dialect, DialectName, Mode, OwnDialect
from goalreel.chat.dialects.recognition import default_dialect, number_of
from goalreel.errors import InputError

__all__ = [
    "OWN",
    "Dialect",
    "DialectName",
    "InterleaveThinkerDialect",
    "Mode",
    "OwnDialect",
    "default_dialect",
    "dialect",
    "interleavethinker",
    "number_of",
    "whole_dialect",
]


def dialect(
    name: DialectName,
    prompts: Path | None = None,
    *,
    trained_steps: int | Callable[[], int | None] | None = None,
) -> Dialect:
    """Make the dialect of a name. `trained_steps` is for a planner in the dialect `own` (`OwnDialect`).

    `prompts` is the folder of a clone of InterleaveThinker; `own` does not read it.

    Raises:
        InputError: there is no such dialect, or no prompts in that folder.
    """
    match name:
        case "own":
            return OwnDialect(trained_steps=trained_steps) if trained_steps else OWN
        case "interleavethinker":
            return interleavethinker(prompts)
    raise InputError(f"no dialect {name!r}: use own or interleavethinker")


def whole_dialect(name: DialectName, prompts: Path | None = None) -> Dialect:
    """Make the dialect that a model is trained in.

    Raises:
        InputError: the prompts of InterleaveThinker are not at hand: other words would train it wrongly.
    """
    wording = dialect(name, prompts)
    if wording.note is not None:
        raise InputError(
            f"the prompts of InterleaveThinker's checkpoints are needed: {CLONE}, and set {VARIABLE} to its "
            "folder, or give --prompts"
        )
    return wording
