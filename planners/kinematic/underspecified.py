"""Clauses that leave open which thing they speak of ("sort the blocks by colour"), and how to close them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from goalreel.planners.kinematic.clauses import Clause, read
from goalreel.planners.kinematic.colours import NAMES
from goalreel.planners.kinematic.object_colour import Moved
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
class Open:
    """What a clause says of the thing it does not name. Nouns are in the singular, "" where unknown."""

    thing: str
    place: str
    """The place's noun."""
    way: str
    """`in` or `out of`."""
    named: str = ""
    """The place with article, where the clause names one: "the red bowl"."""
    own_colour: bool = False
    """Thing and place are of one colour."""

    def close(self, seen: Moved, words: Iterable[str]) -> Clause | None:
        """The clause with the thing named by its colour; None where the pictures or the words leave doubt.

        `words`: the instructions nouns may be taken from; each must use one noun only for such things.
        """
        words = tuple(words)
        thing = self.thing or _only(nouns(words) - CONTAINERS)
        place = self._place(seen, self.place or _only(nouns(words) & CONTAINERS))
        if not thing or not place:
            return None
        verb = "put" if self.way == "in" else "take"
        return read(f"{verb} the {seen.colour} {thing} {self.way} {place}")[0]

    def _place(self, seen: Moved, noun: str) -> str:
        colour = seen.reached if self.way == "in" else seen.left
        if self.own_colour and colour != seen.colour:
            return ""
        if self.named:
            told = self.named.split()[1]
            return self.named if told not in NAMES or told == colour else ""
        return f"the {colour} {noun}" if colour and noun else ""


def opened(clause: Clause) -> Open | None:
    """What a clause leaves open; None where it names its thing, or is of a form no rule knows.

    >>> opened(read("clear the red bowl")[0])
    Open(thing='', place='bowl', way='out of', named='the red bowl', own_colour=False)
    >>> opened(read("put the red block in the bowl")[0]) is None
    True
    """
    if clause.kind != "many":
        return None
    text = _COUNT.sub("", clause.name)
    match = next(filter(None, (form.match(text) for form in (_OWN, _SORT, _EMPTY, _TAKE, _PUT))), None)
    if match is None:
        return None
    found, way = match.groupdict(), "out of" if match.re in (_EMPTY, _TAKE) else "in"
    thing, place = singular(found.get("things") or ""), singular(found["places"] or "")
    if place and place not in CONTAINERS:
        return None
    one = (found.get("place") or "").startswith("the ") and found["places"] == place
    return Open(thing, place, way, found["place"] if one else "", match.re in (_OWN, _SORT))


def nouns(texts: Iterable[str]) -> frozenset[str]:
    """What the texts call things by their colour: "the red block" gives `block`."""
    return frozenset(singular(m[1].lower()) for text in texts for m in _COLOURED.finditer(text))


def singular(noun: str) -> str:
    """Rules for regular plurals only: "boxes", "blocks"; "glass" stays."""
    if re.search(r"(?:x|ch|sh|ss)es$", noun):
        return noun[:-2]
    return noun[:-1] if re.search(r"[^s]s$", noun) else noun


def _only(found: frozenset[str]) -> str:
    return next(iter(found)) if len(found) == 1 else ""
