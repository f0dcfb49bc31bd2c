"""The 50 tasks, their instructions, and which of them are held out.

The split was drawn by a seeded shuffle, one for each kind of task, before anything was measured: 30 tasks to
develop on, 10 to choose between versions, 10 to report. Nobody looks at the last ten while rules change.
"""

import random
from functools import cache
from importlib import resources
from typing import Literal

import yaml
from pydantic import BaseModel

type TaskKind = Literal["grasp", "push", "articulated"]
type TaskSplit = Literal["develop", "choose", "report"]
type Ending = Literal["stay", "retreat", "home"]
"""Ending of a recording: the arm stays, lets go and rises, or does so and goes to where it began."""

_SEED = 42
_SHARE = 0.2
"""Tasks of each kind that go to `choose`, and to `report`."""


class TaskSpec(BaseModel, frozen=True, extra="forbid"):
    """A task of Meta-World: what is asked for, and what the nouns mean in its simulator."""

    kind: TaskKind
    say: tuple[str, str]
    """Two neutral wordings."""
    objects: dict[str, str]
    """Noun -> body at the top of the simulator's tree."""
    places: tuple[str, ...] = ()
    """Nouns of what an object is put in, taken from or moved to."""


class TaskWording(BaseModel, frozen=True):
    """An instruction, and what the recorded arm does at the end."""

    instruction: str
    ending: Ending


@cache
def tasks() -> dict[str, TaskSpec]:
    """Read all tasks by Meta-World's names."""
    text = resources.files(__package__).joinpath("tasks.yaml").read_text()
    return {name: TaskSpec.model_validate(spec) for name, spec in yaml.safe_load(text).items()}


@cache
def split_tasks(split: TaskSplit) -> tuple[str, ...]:
    """Name the tasks of a split, sorted.

    >>> [len(split_tasks(split)) for split in ("develop", "choose", "report")]
    [30, 10, 10]
    """
    chosen: list[str] = []
    for kind in ("grasp", "push", "articulated"):
        names = sorted(name for name, spec in tasks().items() if spec.kind == kind)
        random.Random(f"{_SEED} {kind}").shuffle(names)
        size = round(_SHARE * len(names))
        parts = {"report": names[:size], "choose": names[size : 2 * size], "develop": names[2 * size :]}
        chosen += parts[split]
    return tuple(sorted(chosen))


def wording(task: str, seed: int) -> TaskWording:
    """Say what is asked for in a recording: every fourth seed has the same wording.

    The last one asks the arm to go home, which it does not do: an instruction that is not carried out whole.
    """
    first, second = tasks()[task].say
    return (
        TaskWording(instruction=first, ending="stay"),
        TaskWording(instruction=f"{second}, then go home", ending="home"),
        TaskWording(instruction=second, ending="retreat"),
        TaskWording(instruction=f"{first} and return to the home position", ending="stay"),
    )[seed % 4]
