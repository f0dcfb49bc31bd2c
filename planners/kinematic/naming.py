"""Find the things of an instruction that no step mentions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from goalreel.planners.kinematic.clauses import Clause, read
from goalreel.planners.kinematic.words import COLOURS, RELATION_PATTERN, singular, words
from goalreel.types import DoneStep, Step

_ARTICLE = re.compile(r"^(?:the|an?) (?:(?:bit|pair|piece|slice)s? of )?")
_THING = re.compile(r"(?:the|an?) ((?:[\w-]+ ){0,2}[\w-]+)")
_NO_THING = (
    r"(?!(?:and|at|away|back|by|for|from|in|into|is|of|off|on|onto|or|out|so|that|then|to|until|up|with"
    r"|de|el|il|la|le|lo|un)\b)"  # "a la derecha" is no English
)
_PHRASE = re.compile(rf"(?i)\b(?:the|an?|my|your) ({_NO_THING}[\w-]+(?: {_NO_THING}[\w-]+){{0,2}})")
"""A thing in a clause that no rule understands."""
_NOT_ASKED = re.compile(r"(?i)\s+(?:but not|except|instead of|rather than|without)\b[^,.;]*")
_SOURCES = ("off", "out of", "away from", "from")
_NAMELESS = COLOURS | words(
    "gripper thing things object objects item items one ones other others rest robot hand place places "
    "position positions spot"
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
    >>> bits = [Step(name=t, instruction=t, prompt=t) for t in ("bits in toolbox", "a nut on the green one")]
    >>> unmentioned("put the bits in the tool box without the saw and the nut on the green nut", bits)
    ()
    >>> unmentioned("put the mug between the cup and the plate", [mug])
    ('cup', 'plate')
    """
    said = [f"{step.name}. {step.instruction}".casefold() for step in steps]
    every = [*said, *(step.instruction.casefold() for step in done)]
    found: list[Asked] = []
    for clause in read(_NOT_ASKED.sub("", instruction)):
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
    named = (part for relation, place in places if relation not in _SOURCES for part in place.split(" and "))
    others = [_THING.fullmatch(part.strip()) for part in named]
    things = [_ARTICLE.sub("", clause.object), *(match[1] for match in others if match)]
    return [thing for thing in things if thing and thing.split()[-1] not in _NAMELESS]


def _mentions(text: str, thing: str, loosely: bool) -> bool:
    """Tell whether a text names a thing, and in no other colour; `loosely`, by any of its words.

    It may write "toolbox" for "tool box", and "the green one".
    """
    if loosely:
        return any(_mentions(text, word, False) for word in (thing, *thing.split()) if word not in COLOURS)
    *marks, noun = thing.casefold().partition(" of ")[0].split()
    noun, own = singular(noun), COLOURS.intersection(marks)
    names = "|".join("[ -]?".join(map(re.escape, name)) for name in ("".join((*marks, noun)), noun))
    others = COLOURS.difference(marks) if own else ()
    found = re.finditer(rf"(?:([\w-]+) )?\b(?:{names})(?:e?s)?\b", text)
    return any(match[1] not in others for match in found) or any(f"{mark} one" in text for mark in own)
