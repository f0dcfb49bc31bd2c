"""Name the objects that an instruction leaves open, from its words, the motion and the pictures.

Where it names their colour, the pictures may contradict it.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from goalreel.planners.kinematic.clauses import Clause, read
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.scene import HUED, NAMES, FrameStack, ObjectMove, find_moved_object, sample
from goalreel.planners.kinematic.steps import ClauseSpan
from goalreel.planners.kinematic.words import CONTAINERS, RELATIONS, singular
from goalreel.types import Recording

_COUNT = re.compile(r" \(\d+ of \d+\)$")
_DETERMINER = r"(?:(?:all|every|each|both|two|three|four|five|six|the|these|those|of) )+"
_COLOURED = re.compile(rf"\b(?:{'|'.join(NAMES[1:])}) (\w+)\b", re.IGNORECASE)
_EMPTY = re.compile(rf"^(?:clear|empty|unpack) (?P<place>{_DETERMINER}(?:\w+ )?(?P<places>\w+))$")
_TAKE = re.compile(
    rf"^take {_DETERMINER}(?P<things>\w+) out of (?P<place>{_DETERMINER}(?:\w+ )?(?P<places>\w+))$"
)
_PUT = re.compile(rf"^put {_DETERMINER}(?P<things>\w+) in (?P<place>the (?:\w+ )?(?P<places>\w+))$")
_OWN = re.compile(
    rf"^put {_DETERMINER}(?P<things>\w+) that (?:has|have) an? (?P<places>\w+) of (?:its|their) own colou?r\b"
)
_SORT = re.compile(
    rf"^sort {_DETERMINER}(?P<things>\w+)"
    r"(?: by colou?r| in (?:the )?(?P<places>\w+) of (?:its|their) own colou?r)$"
)


@dataclass(frozen=True, slots=True)
class OpenClause:
    """A clause that does not name its object. Nouns are in the singular, "" where unknown."""

    thing: str
    place: str
    """The place's noun."""
    relation: str
    """`in` or `out of`."""
    place_name: str = ""
    """The place with article, where the clause names one: "the red bowl"."""
    own_colour: bool = False
    """Object and place have one colour."""

    def complete(self, move: ObjectMove, instructions: Iterable[str]) -> Clause | None:
        """The clause with the object named by its colour; None where the pictures or the words leave doubt.

        The noun comes from `instructions`, which must use only one noun for such objects.
        """
        instructions = tuple(instructions)
        thing = self.thing or _only(nouns(instructions) - CONTAINERS)
        place = self._place(move, self.place or _only(nouns(instructions) & CONTAINERS))
        if not thing or not place:
            return None
        verb = "put" if self.relation == "in" else "take"
        return read(f"{verb} the {move.colour} {thing} {self.relation} {place}")[0]

    def _place(self, move: ObjectMove, noun: str) -> str:
        colour = move.target_colour if self.relation == "in" else move.source_colour
        if self.own_colour and colour != move.colour:
            return ""
        if self.place_name:
            colour_word = self.place_name.split()[1]
            return self.place_name if colour_word not in NAMES or colour_word == colour else ""
        return f"the {colour} {noun}" if colour and noun else ""


def open_clause(clause: Clause) -> OpenClause | None:
    """What a clause leaves open; None where it names its object, or has a form that no rule knows.

    >>> open_clause(read("clear the red bowl")[0])
    OpenClause(thing='', place='bowl', relation='out of', place_name='the red bowl', own_colour=False)
    >>> open_clause(read("put the red block in the bowl")[0]) is None
    True
    """
    if clause.kind != "many":
        return None
    text = _COUNT.sub("", clause.name)
    match = next(filter(None, (form.match(text) for form in (_OWN, _SORT, _EMPTY, _TAKE, _PUT))), None)
    if match is None:
        return None
    fields, relation = match.groupdict(), "out of" if match.re in (_EMPTY, _TAKE) else "in"
    thing, place = singular(fields.get("things") or ""), singular(fields["places"] or "")
    if place and place not in CONTAINERS:
        return None
    is_single = (fields.get("place") or "").startswith("the ") and fields["places"] == place
    return OpenClause(thing, place, relation, fields["place"] if is_single else "", match.re in (_OWN, _SORT))


def nouns(texts: Iterable[str]) -> frozenset[str]:
    """The nouns after a colour in the texts: "the red block" gives `block`."""
    return frozenset(singular(m[1].lower()) for text in texts for m in _COLOURED.finditer(text))


def _only(choices: frozenset[str]) -> str:
    return next(iter(choices)) if len(choices) == 1 else ""


COLOUR_NOTE = "The instruction does not name this object; its colour was seen in the recording."
"""The `auxiliary_text` of a step with such a name."""
_ALIKE = (
    {"red", "orange", "pink", "brown"},
    {"orange", "yellow", "brown"},
    {"pink", "purple"},
    {"purple", "blue"},
)
"""Hues that people or pictures may confuse, unless the words of the dataset tell them apart."""
_HUE_WORD = re.compile(
    rf"\b({'|'.join(NAMES[code] for code in HUED)}) (?!(?:and|or|{'|'.join(RELATIONS)})\b)\w", re.IGNORECASE
)
"""A colour before a noun; not the fruit, as in "put the orange in the bowl"."""
_PICTURES = 9
"""Pictures before the grasp, before the release and after it, each."""


def name_by_colour(
    parts: list[ClauseSpan], recording: Recording, motion: ArmMotion, camera: str, instructions: Sequence[str]
) -> list[ClauseSpan]:
    """Name the object of each part whose clause leaves it open, by what `camera` shows.

    A part that stays in doubt is returned unchanged (the same object).

    Raises:
        DatasetError: the pictures cannot be read.
    """
    return [_name(part, recording, motion, camera, instructions) for part in parts]


def colour_doubts(
    parts: Sequence[ClauseSpan],
    recording: Recording,
    motion: ArmMotion,
    camera: str,
    instructions: Sequence[str],
) -> Iterator[str]:
    """Say where `camera` shows another colour than the words: of what is moved, or of the place.

    Hues that look alike are one colour, unless some of `instructions` name the one that is seen, or a thing
    of the other one stays where it is.

    Raises:
        DatasetError: the pictures cannot be read.
    """
    names = {match[1].lower() for text in instructions for match in _HUE_WORD.finditer(text)}
    for part in parts:
        thing, place = part.clause.object, part.clause.name.partition(part.clause.object)[2].strip()
        colour_in_words = _colour(thing) if part.clause.kind in ("put", "pick") else ""
        move = find_move(part, recording, motion, camera) if colour_in_words else None
        if move and not _alike(colour_in_words, move.colour, names, move.others):
            yield f'the camera shows that something {move.colour} is moved, and the words say "{thing}"'
        elif move and move.target_colour and not _alike(_colour(place), move.target_colour, names):
            yield f'the camera shows that the place is {move.target_colour}, and the words say "{place}"'


def _colour(text: str) -> str:
    """The one hue that words name; empty where they name none or two."""
    hues = {NAMES[code] for code in HUED} & set(text.lower().split())
    return hues.pop() if len(hues) == 1 else ""


def _alike(name: str, look: str, names: Collection[str], others: Collection[str] = ()) -> bool:
    """Whether people may call a look so; true where no colour is named.

    They do not where they use both of these `names`, or where one of the `others` has the name's own look.
    """
    if not name or name == look:
        return True
    return look not in names and name not in others and any({name, look} <= hues for hues in _ALIKE)


def _name(
    part: ClauseSpan, recording: Recording, motion: ArmMotion, camera: str, instructions: Sequence[str]
) -> ClauseSpan:
    question = open_clause(part.clause)
    move = find_move(part, recording, motion, camera) if question else None
    clause = question.complete(move, instructions) if question and move else None
    return replace(part, clause=clause) if clause else part


def find_move(part: ClauseSpan, recording: Recording, motion: ArmMotion, camera: str) -> ObjectMove | None:
    """Find the object that a part's grasps moved, from the pictures of `camera`.

    They are taken before its first grasp (from the previous release), until its last release, and after it
    (until the next grasp). None where the object is not sure, or was never released, or the camera may have
    been driven elsewhere.
    """
    if not part.cycles:
        return None
    first, last = part.cycles[0], part.cycles[-1]
    if last.release is None or last.free is None:
        return None
    start = max((c.free or 0 for c in motion.cycles if c.grasp < first.grasp), default=0)
    end = min((c.grasp for c in motion.cycles if c.grasp > last.grasp), default=len(motion))
    spans = ((start, first.grasp), (first.contact, last.release), (last.free, end))
    if any(b <= a for a, b in spans) or motion.drives_between(start, end):
        return None
    start_pictures, carry_pictures, end_pictures = (
        _pictures(recording, camera, sample(a, b, _PICTURES)) for a, b in spans
    )
    return find_moved_object(start_pictures, carry_pictures, end_pictures)


def _pictures(recording: Recording, camera: str, frames: Sequence[int]) -> FrameStack:
    return np.stack([image.pixels for image in recording.frames(camera, frames)])
