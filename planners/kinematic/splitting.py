"""Split an instruction into the texts of its clauses, one request each."""

import re
from typing import NamedTuple

from goalreel.planners.kinematic.verbs import RELATION_PATTERN, RELATIONS, VERB_PATTERN, VERBS

_LEAD = re.compile(
    r"^(?:(?:please|first(?:ly)?|second(?:ly)?|third(?:ly)?|next|now|then|finally|lastly|last|also|and"
    r"|you should|(?:can|could|would) you(?: please)?|(?:i|we) (?:want|need|would like) you to"
    r"|your task is to)\b[,:]?\s*)+",
    re.IGNORECASE,
)
_STRONG = re.compile(
    r"\s*(?:;|\.(?=\s|$)"
    r"|,?\s*(?<![\w-])(?:and then|then|after that|afterwards|followed by|finally|lastly|next(?! to))(?![\w-])"
    r"[,:]?)\s*",
    re.IGNORECASE,
)
_WEAK = re.compile(r"\s*(?:,\s*and\b|,|(?<![\w-])and(?![\w-])|&)\s*", re.IGNORECASE)
_ENDS = ("in", "on", "out of", "off", "from", "to", "to the left of", "to the right of")
"""Relations to a single place: what follows "and" is no second one, as it is behind "between"."""


class ClauseText(NamedTuple):
    """The text of one clause."""

    text: str
    unordered: bool = False
    """The instruction names it in one breath with others, and not which comes first."""


def split_instruction(text: str) -> list[ClauseText]:
    """Split an instruction into the texts of its clauses, without the words between them.

    >>> [part.text for part in split_instruction("Open the drawer, then put the cup and the spoon in it.")]
    ['Open the drawer', 'put the cup in it', 'put the spoon in it']
    """
    parts: list[ClauseText] = []
    for strong in _STRONG.split(text):
        core = _LEAD.sub("", strong).strip(" .,!?:")
        if core:
            parts += _split_weak(core)
    return parts


def _split_weak(text: str) -> list[ClauseText]:
    """Cut at commas and "and", but only where a new clause starts there."""
    parts: list[ClauseText] = []
    for piece in _WEAK.split(text):
        core = _LEAD.sub("", piece).strip()
        if not core:
            continue
        if not parts or VERB_PATTERN.match(core):
            parts.append(ClauseText(core))
        elif completed := _complete(parts[-1].text, core):
            parts[-1:] = completed
        else:
            parts[-1] = ClauseText(f"{parts[-1].text} and {core}")
    return parts


def _complete(first: str, second: str) -> list[ClauseText] | None:
    """Complete "put A in B and C in D", and "put A and C in D", into two clauses each."""
    verb = VERB_PATTERN.match(first)
    if not verb or VERBS[verb[1].lower()].kind != "put":
        return None
    relation = RELATION_PATTERN.search(second)
    if not relation or relation.start() == 0:
        return None
    if before := RELATION_PATTERN.search(first, verb.end()):
        same = RELATIONS[before[1].lower()] == RELATIONS[relation[1].lower()]
        if not same and RELATIONS[before[1].lower()] not in _ENDS:
            return None  # "put A between B and C on D" names one thing
        return [ClauseText(first), ClauseText(f"{verb[1]} {second}")]
    things = [*first[verb.end() :].split(" and "), second[: relation.start()].strip()]
    return [ClauseText(f"{verb[1]} {thing} {second[relation.start() :]}", unordered=True) for thing in things]
