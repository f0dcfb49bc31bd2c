"""Clauses that do not name their object ("sort the blocks by colour"), and how to complete them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from goalreel.planners.kinematic.clause import Clause
from goalreel.planners.kinematic.clauses import read
from goalreel.planners.kinematic.colours import NAMES
from goalreel.planners.kinematic.nouns import singular
from goalreel.planners.kinematic.object_colour import ObjectMove
from goalreel.planners.kinematic.verbs import CONTAINERS

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
