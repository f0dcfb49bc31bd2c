"""Readings of instructions: the clauses that rules find, and the steps that an owner writes instead."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from goalreel.errors import InputError
from goalreel.files import MAX_BYTES, read_mapping, write_bytes
from goalreel.planners.kinematic.clauses import Clause, read, split_handovers, split_return

type Steps = dict[str, tuple[str, ...]]
"""Instruction -> the owner's steps."""

_FORM = "write an instruction and its steps, such as `grasp_cube: [pick up the cube]`"
_PART = r"\w*[_./]\w*|\w*[a-z]\w*[A-Z]\w*|\w*\d\w*|\w+(?:-\w+)+"
_IDENTIFIER = re.compile(
    rf"(?:{_PART})|(?i:(?:task|episode|ep|demo|demonstration|test|trial|run|take|seed)[\s:#_-]*\d+)"
)


class Reading(BaseModel, frozen=True):
    """An instruction, and how it is read."""

    instruction: str
    episodes: tuple[int, ...]
    clauses: tuple[str, ...]
    """The steps that it asks for; a clause that no rule reads is in the instruction's own words."""
    is_read: bool
    """A rule reads every word, and knows the order."""

    @classmethod
    def of(cls, instruction: str, episodes: Iterable[int], steps: Steps, *, hands: bool = False) -> "Reading":
        """Read an instruction, or its owner's steps, for a robot that may have two `hands`."""
        clauses = _clauses(", then ".join(steps.get(_key(instruction), (instruction,))), hands=hands)
        names = tuple(clause.name for clause in clauses) or (instruction,)
        return cls(
            instruction=instruction, episodes=tuple(episodes), clauses=names, is_read=_is_read(clauses)
        )

    def __str__(self) -> str:
        how = "; ".join(self.clauses) if self.is_read else "not read: give its steps with --steps"
        return f'"{self.instruction}" ({_episodes(self)}): {how}'


def is_identifier(instruction: str) -> bool:
    """Tell whether an instruction looks like a name in a program, and not like words.

    >>> [is_identifier(text) for text in ("grasp_cube", "PickPlaceCan", "task 0", "episode3", "door-open-v3")]
    [True, True, True, True, True]
    >>> is_identifier("grasp"), is_identifier("pick up the USB-C cable")
    (False, False)
    """
    return bool(_IDENTIFIER.fullmatch(instruction.strip()))


def read_steps(value: Any) -> Steps | None:
    """Read the steps of instructions from a YAML file, or from a mapping; an empty list changes nothing.

    Raises:
        InputError: it is no such file or mapping, or no rule reads a step.
    """
    if value is None:
        return None
    where, given = "steps", value
    if isinstance(value, str | Path):
        where, given = str(value), read_mapping(Path(value), _FORM)
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: {_FORM}")
    steps: Steps = {}
    for instruction, listed in given.items():
        texts: tuple[Any, ...] = tuple(listed or ()) if isinstance(listed, list | tuple | None) else (None,)
        if not all(isinstance(text, str) and text.strip() for text in (instruction, *texts)):
            raise InputError(f"{where}: {instruction}: {_FORM}")
        clauses = _clauses(", then ".join(texts))
        if texts and not _is_read(clauses):
            wrong = next((c.name for c in clauses if not c.understood or c.unordered), texts[0])
            raise InputError(
                f'{where}: {instruction}: no rule reads "{wrong}": write one thing to do in each step, '
                'such as "pick up the cup" and "put the cup in the box"'
            )
        if texts:
            steps[_key(instruction)] = texts
    return steps or None


def check_instructions(steps: Steps | None, tasks: Iterable[str]) -> None:
    """See that a dataset has the instructions of which an owner gave the steps."""
    known = [*map(_key, tasks)]
    for instruction in steps or ():
        if not any(task and task in instruction for task in known):
            raise InputError(f'steps: no episode has the instruction "{instruction}"')


def write_steps(path: Path, readings: Iterable[Reading], dataset: str) -> None:
    """Write the readings as steps, those that are not read first; where a rule is unsure, none."""
    import yaml

    text = (
        f"# The steps of each instruction of {dataset}. Change what is wrong, and annotate with --steps.\n"
        "# [] leaves an instruction as it is.\n"
    )
    for reading in sorted(readings, key=lambda r: (r.is_read, -len(r.episodes))):
        clauses = _clauses(reading.instruction)
        steps = [step for clause in clauses for step in _spelled(clause)] if reading.is_read else []
        if _clauses(", then ".join(steps)) != clauses:
            steps = []
        entry = yaml.safe_dump({reading.instruction: steps}, allow_unicode=True, width=10_000)
        entry = f"# {_episodes(reading)}\n{entry}"
        if len((text + entry).encode()) > MAX_BYTES - 100:
            text += "# There is no room for the rest: add an instruction as the ones above.\n"
            break
        text += entry
    write_bytes(path, text.encode())


def _episodes(reading: Reading) -> str:
    return f"{len(reading.episodes)} episode{'s' * (len(reading.episodes) != 1)}"


def _spelled(clause: Clause) -> list[str]:
    picks = clause.picked and f"with {clause.object}" not in clause.name
    return [f"pick up {clause.object}", clause.name] if picks else [clause.name]


def _clauses(text: str, *, hands: bool = True) -> list[Clause]:
    request = split_return(text)[0]
    request, passings = split_handovers(request) if hands else (request, [])
    clauses = read(request)
    for passing in reversed(passings):
        takes = [i for i, clause in enumerate(clauses) if clause.grasps][passing.grasps - 1 :]
        i = takes[0] if takes else len(clauses) - 1
        clauses.insert(i + (clauses[i].kind == "pick"), passing.clause)
    return clauses


def _is_read(clauses: Iterable[Clause]) -> bool:
    return all(clause.understood and not clause.unordered for clause in clauses)


def _key(instruction: str) -> str:
    return " ".join(instruction.split())
