"""Split an instruction into the texts of its clauses, one request each."""

import re

from goalreel.planners.kinematic.verbs import RELATION_PATTERN, VERB_PATTERN, VERBS

_LEAD = re.compile(
    r"^(?:(?:please|first(?:ly)?|second(?:ly)?|third(?:ly)?|next|now|then|finally|lastly|last|also|and"
    r"|you should|(?:can|could|would) you(?: please)?|(?:i|we) (?:want|need|would like) you to"
    r"|your task is to)\b[,:]?\s*)+",
    re.IGNORECASE,
)
_STRONG = re.compile(
    r"\s*(?:;|\.(?=\s|$)"
    r"|,?\s*\b(?:and then|then|after that|afterwards|followed by|finally|lastly|next(?! to))\b[,:]?)\s*",
    re.IGNORECASE,
)
_WEAK = re.compile(r"\s*(?:,\s*and\b|,|\band\b|&)\s*", re.IGNORECASE)


def split_instruction(text: str) -> list[str]:
    """Split an instruction into the texts of its clauses, without the words between them.

    >>> split_instruction("Please open the drawer, then put the cup and the spoon in it.")
    ['open the drawer', 'put the cup in it', 'put the spoon in it']
    """
    parts: list[str] = []
    for strong in _STRONG.split(text):
        core = _LEAD.sub("", strong).strip(" .,!?:")
        if core:
            parts += _split_weak(core)
    return parts


def _split_weak(text: str) -> list[str]:
    """Cut at commas and "and", but only where a new clause starts there."""
    parts: list[str] = []
    for piece in _WEAK.split(text):
        core = _LEAD.sub("", piece).strip()
        if not core:
            continue
        if not parts or VERB_PATTERN.match(core):
            parts.append(core)
        elif completed := _complete(parts[-1], core):
            parts[-1:] = completed
        else:
            parts[-1] += f" and {core}"
    return parts


def _complete(first: str, second: str) -> list[str] | None:
    """Complete "put A in B and C in D", and "put A and C in D", into two clauses each."""
    verb = VERB_PATTERN.match(first)
    if not verb or VERBS[verb[1].lower()].kind != "put":
        return None
    relation = RELATION_PATTERN.search(second)
    if not relation or relation.start() == 0:
        return None
    if RELATION_PATTERN.search(first, verb.end()):
        return [first, f"{verb[1]} {second}"]
    things = first[verb.end() :].split(" and ")
    return [f"{verb[1]} {thing} {second[relation.start() :]}" for thing in things] + [f"{verb[1]} {second}"]
