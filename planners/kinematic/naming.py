"""Find the things of an instruction that no step mentions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from goalreel.planners.kinematic.clauses import Clause, read
from goalreel.planners.kinematic.words import COLOURS, RELATION_PATTERN, singular, words
from goalreel.types import DoneStep, Step

_ARTICLE = re.compile(r"^(?:the|an?) ")
_THING = re.compile(r"(?:the|an?) ((?:[\w-]+ ){0,2}[\w-]+)")
_NO_THING = (
    r"(?!(?:and|at|by|for|from|in|into|is|of|off|on|onto|or|out|so|that|then|to|until|up|with"
    r"|de|el|il|la|le|lo|un)\b)"  # "a la derecha" is no English
)
_PHRASE = re.compile(rf"(?i)\b(?:the|an?|my|your) ({_NO_THING}[\w-]+(?: {_NO_THING}[\w-]+){{0,2}})")
"""A thing in a clause that no rule understands."""
_SOURCES = ("off", "out of", "away from", "from")
_NAMELESS = COLOURS | words(
    "gripper thing things object objects item items one ones other others rest robot hand"
)


@dataclass(frozen=True)
class Asked:
    """A clause of an instruction, the steps that speak of its object, and what no step mentions."""

    words: str
    steps: tuple[int, ...]
    """Numbers from 1."""
    missing: tuple[str, ...]


def asked(instruction: str, steps: Sequence[Step], done: Sequence[DoneStep] = ()) -> list[Asked]:
    """Compare an instruction with the steps of its plan, and those that are done already.

    A thing of several words in a clause that no rule understands is mentioned where one of them is.

    >>> mug = Step(name="mug on tray", instruction="the mug is on the tray", prompt="Move the mug.")
    >>> asked("put the mug on the tray and open the red box", [mug])[1]
    Asked(words='open the red box', steps=(), missing=('red box',))
    >>> asked("bake a cake and call my mother", [mug])[0].missing
    ('cake', 'mother')
    """
    said = [f"{step.name}. {step.instruction}".casefold() for step in steps]
    every = [*said, *(step.instruction.casefold() for step in done)]
    found: list[Asked] = []
    for clause in read(instruction):
        loosely = not clause.understood
        things = _phrases(clause) if loosely else _things(clause)
        if things and not clause.several:
            numbers = tuple(n for n, text in enumerate(said, start=1) if _mentions(text, things[0], loosely))
            missing = tuple(t for t in things if not any(_mentions(text, t, loosely) for text in every))
            found.append(Asked(clause.name, numbers, missing))
    return found


def unmentioned(instruction: str, steps: Sequence[Step], done: Sequence[DoneStep] = ()) -> tuple[str, ...]:
    """List the things of an instruction that no step mentions."""
    clauses = asked(instruction, steps, done)
    return tuple(dict.fromkeys(thing for clause in clauses for thing in clause.missing))


def _phrases(clause: Clause) -> list[str]:
    return [text for text in _PHRASE.findall(clause.name) if text.split()[-1] not in _NAMELESS]


def _things(clause: Clause) -> list[str]:
    """The clause's object and the things that its state relates it to, without their articles.

    Steps rarely say from where something is taken.
    """
    parts = RELATION_PATTERN.split(clause.state)
    places = zip(parts[1::2], parts[2::2], strict=True)
    others = [_THING.fullmatch(place.strip()) for relation, place in places if relation not in _SOURCES]
    things = [_ARTICLE.sub("", clause.object), *(match[1] for match in others if match)]
    return [thing for thing in things if thing and thing.split()[-1] not in _NAMELESS]


def _mentions(text: str, thing: str, loosely: bool) -> bool:
    """Tell whether a text names a thing, and in no other colour; `loosely`, by any of its words."""
    if loosely:
        return any(_mentions(text, word, False) for word in thing.split() if word not in COLOURS)
    *marks, noun = thing.casefold().partition(" of ")[0].split()
    pattern = rf"(?:([\w-]+) )?\b{re.escape(singular(noun))}(?:e?s)?\b"
    others = COLOURS.difference(marks) if COLOURS.intersection(marks) else ()
    return any(match[1] not in others for match in re.finditer(pattern, text))
