"""Name the objects that an instruction leaves open, and find those of it that no step names."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from goalreel.planners.kinematic.clauses import Clause, read
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.scene import NAMES, FrameStack, ObjectMove, find_moved_object, sample
from goalreel.planners.kinematic.steps import ClauseSpan
from goalreel.planners.kinematic.words import CONTAINERS, RELATION_PATTERN, singular
from goalreel.types import Recording, Step

COLOUR_NOTE = "The instruction does not name this object; its colour was seen in the recording."
"""The `auxiliary_text` of a step with such a name."""
_COLOURED = re.compile(rf"\b(?:{'|'.join(NAMES[1:])}) (\w+)\b", re.IGNORECASE)
_DETERMINER = r"(?:(?:all|every|each|both|two|three|four|five|six|the|these|those|of) )+"
_THINGS = rf"{_DETERMINER}(?P<things>\w+)"
_OWN = r"(?P<places>\w+) of (?:its|their) own colou?r"
_ANY_PLACE = rf"(?P<place>{_DETERMINER}(?:\w+ )?(?P<places>\w+))$"
_OPEN = tuple(
    (re.compile(pattern), relation, own)
    for pattern, relation, own in (
        (rf"^put {_THINGS} that (?:has|have) an? {_OWN}\b", "in", True),
        (rf"^sort {_THINGS}(?: by colou?r| in (?:the )?{_OWN})$", "in", True),
        (rf"^(?:clear|empty|unpack) {_ANY_PLACE}", "out of", False),
        (rf"^take {_THINGS} out of {_ANY_PLACE}", "out of", False),
        (rf"^put {_THINGS} in (?P<place>the (?:\w+ )?(?P<places>\w+))$", "in", False),
    )
)
"""Forms of clauses that do not name their object, what it is moved, and whether to a place of its colour."""
_PICTURES = 9  # pictures before the grasp, before the release and after it, each


class OpenClause(NamedTuple):
    """The open parts of a clause. Nouns are in the singular, "" where unknown."""

    thing: str
    place: str
    """The place's noun."""
    relation: str
    """`in` or `out of`."""
    place_name: str = ""
    """The place with article, where the clause names one: "the red bowl"."""
    own_colour: bool = False
    """Object and place have one colour."""

    def complete(self, move: ObjectMove, instructions: Sequence[str]) -> Clause | None:
        """The clause with the object named by its colour; None where the pictures or the words leave doubt.

        The noun comes from `instructions`, which must use only one noun for such objects.
        """
        nouns = {singular(m[1].lower()) for text in instructions for m in _COLOURED.finditer(text)}
        thing = self.thing or _only(nouns - CONTAINERS)
        noun = self.place or _only(nouns & CONTAINERS)
        colour = move.target_colour if self.relation == "in" else move.source_colour
        place = f"the {colour} {noun}" if colour and noun else ""
        if self.place_name:
            hue = self.place_name.split()[1]
            place = self.place_name if hue not in NAMES or hue == colour else ""
        if not thing or not place or (self.own_colour and colour != move.colour):
            return None
        verb = "put" if self.relation == "in" else "take"
        return read(f"{verb} the {move.colour} {thing} {self.relation} {place}")[0]


def open_clause(clause: Clause) -> OpenClause | None:
    """Find what a clause leaves open; None where it names its object, or has a form that no rule knows.

    >>> open_clause(read("clear the red bowl")[0])
    OpenClause(thing='', place='bowl', relation='out of', place_name='the red bowl', own_colour=False)
    """
    text = re.sub(r" \(\d+ of \d+\)$", "", clause.name)
    for form, relation, own in _OPEN if clause.kind == "many" else ():
        if match := form.match(text):
            fields = match.groupdict(default="")
            thing, place = singular(fields.get("things", "")), singular(fields["places"])
            if place and place not in CONTAINERS:
                return None
            is_single = fields.get("place", "").startswith("the ") and fields["places"] == place
            return OpenClause(thing, place, relation, fields["place"] if is_single else "", own)
    return None


def _only(choices: Collection[str]) -> str:
    return next(iter(choices)) if len(choices) == 1 else ""


@dataclass(frozen=True)
class ColourNames:
    """The colours that a still camera shows of the objects of one episode."""

    recording: Recording
    motion: ArmMotion
    camera: str
    instructions: Sequence[str]
    """Those of the dataset: their nouns name objects."""

    def name(self, part: ClauseSpan) -> ClauseSpan:
        """Name the object of a part whose clause leaves it open; in doubt it stays the same object.

        Raises:
            DatasetError: the pictures cannot be read.
        """
        question = open_clause(part.clause)
        move = self.find_move(part) if question else None
        clause = question.complete(move, self.instructions) if question and move else None
        return replace(part, clause=clause) if clause else part

    def find_move(self, part: ClauseSpan) -> ObjectMove | None:
        """Find the object that a part's grasps moved.

        The pictures are taken before its first grasp (from the previous release), until its last release, and
        after it (until the next grasp). None where the object is not sure, or was never released, or the
        camera may have been driven elsewhere.
        """
        if not part.cycles:
            return None
        first, last, cycles = part.cycles[0], part.cycles[-1], self.motion.cycles
        if last.release is None or last.free is None:
            return None
        start = max((c.free or 0 for c in cycles if c.grasp < first.grasp), default=0)
        end = min((c.grasp for c in cycles if c.grasp > last.grasp), default=len(self.motion))
        spans = ((start, first.grasp), (first.contact, last.release), (last.free, end))
        if any(b <= a for a, b in spans) or self.motion.drives_between(start, end):
            return None
        return find_moved_object(*(self._pictures(sample(a, b, _PICTURES)) for a, b in spans))

    def _pictures(self, frames: Sequence[int]) -> FrameStack:
        return np.stack([image.pixels for image in self.recording.frames(self.camera, frames)])


_COLOURS = {*NAMES[1:]}
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
    others = _COLOURS - set(marks) if _COLOURS & set(marks) else set()
    return any(match[1] not in others for match in re.finditer(pattern, text))
