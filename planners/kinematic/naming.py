"""Find the things of an instruction that no step mentions."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from goalreel.planners.kinematic.clauses import Clause, read
from goalreel.planners.kinematic.words import COLOURS, RELATION_PATTERN, singular
from goalreel.types import Step

_ARTICLE = re.compile(r"^(?:the|an?) ")
_THING = re.compile(r"(?:the|an?) ((?:[\w-]+ ){0,2}[\w-]+)")


@dataclass(frozen=True)
class Asked:
    """A clause of an instruction, the steps that speak of its object, and what no step mentions."""

    words: str
    steps: tuple[int, ...]
    """Numbers from 1."""
    missing: tuple[str, ...]


def asked(instruction: str, steps: Sequence[Step]) -> list[Asked]:
    """Compare an instruction with the steps of its plan; clauses that no rule understands are left out.

    >>> mug = Step(name="mug on tray", instruction="the mug is on the tray", prompt="Move the mug.")
    >>> asked("put the mug on the tray and open the red box", [mug])[1]
    Asked(words='open the red box', steps=(), missing=('red box',))
    """
    said = [f"{step.name}. {step.instruction}".casefold() for step in steps]
    found: list[Asked] = []
    for clause in read(instruction):
        if clause.understood and not clause.several and (things := _things(clause)):
            numbers = tuple(n for n, text in enumerate(said, start=1) if _mentions(text, things[0]))
            missing = tuple(thing for thing in things if not any(_mentions(text, thing) for text in said))
            found.append(Asked(clause.name, numbers, missing))
    return found


def left_out(clauses: Iterable[Asked]) -> str:
    """Name the things that no step mentions, in a sentence; empty where all are."""
    things = list(dict.fromkeys(thing for clause in clauses for thing in clause.missing))
    return f"No step mentions the {' or the '.join(things)}." if things else ""


def _things(clause: Clause) -> list[str]:
    """The clause's object and the things that its state relates it to, without their articles."""
    parts = RELATION_PATTERN.split(clause.state)[1:]
    others = [match[1] for part in parts if (match := _THING.fullmatch((part or "").strip()))]
    thing = _ARTICLE.sub("", clause.object)
    return [thing, *others] if thing else []


def _mentions(text: str, thing: str) -> bool:
    """Tell whether a text names a thing, and in no other colour."""
    *marks, noun = thing.casefold().split()
    pattern = rf"(?:([\w-]+) )?\b{re.escape(singular(noun))}(?:e?s)?\b"
    others = COLOURS.difference(marks) if COLOURS.intersection(marks) else ()
    return any(match[1] not in others for match in re.finditer(pattern, text))
