"""Read an instruction's clauses: what is asked for, in which order, and the state that shows it is done.

Plain rules over English text; no model. What no rule knows is kept word for word.
"""

import re
from dataclasses import dataclass
from typing import Literal

from goalreel.planners.kinematic.verbs import RELATIONS, VERBS, Verb

Kind = Literal["put", "pick", "many", "act"]

KEEP = "Keep everything else unchanged."
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
_DETERMINER = re.compile(
    r"^(?:the|a|an|one|two|three|four|five|six|all|every|each|both|any|some|my|your|its|this|that|these|those|it|them)\b",
    re.IGNORECASE,
)
_PLURAL = re.compile(
    r"^(?:all|every|each|both|two|three|four|five|six|these|those|them|some)\b", re.IGNORECASE
)
_PRONOUN = re.compile(r"^(?:it|them|this|that)$", re.IGNORECASE)
_VERB = re.compile(rf"^({'|'.join(sorted(VERBS, key=len, reverse=True))})\b\s*", re.IGNORECASE)
_RELATION = re.compile(
    rf"\b({'|'.join(sorted(map(re.escape, RELATIONS), key=len, reverse=True))})\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Clause:
    """One thing asked for. `name` is its label, `state` what a camera sees once it is done."""

    name: str
    state: str
    kind: Kind
    object: str = ""

    @property
    def prompt(self) -> str:
        """The clause as an edit of a picture.

        >>> read("place blue cube into the bowl")[0].prompt
        'Put the blue cube in the bowl. Keep everything else unchanged.'
        """
        return f"{self.name[0].upper()}{self.name[1:]}. {KEEP}"


def read(instruction: str) -> list[Clause]:
    """The clauses of an instruction in order; empty only for a blank instruction.

    >>> [c.name for c in read("Pick up the red block and place it in the bowl, then close the drawer.")]
    ['put the red block in the bowl', 'close the drawer']
    """
    found: list[Clause] = []
    for text in _split(" ".join(instruction.split())):
        clause = _clause(text, found[-1].object if found else "")
        if found and found[-1].kind == "pick" and clause.kind == "put" and clause.object == found[-1].object:
            found.pop()
        found.append(clause)
    return found


def _split(text: str) -> list[str]:
    parts: list[str] = []
    for strong in _STRONG.split(text):
        bare = _LEAD.sub("", strong).strip(" .,!")
        if bare:
            parts += _split_weak(bare)
    return parts


def _split_weak(text: str) -> list[str]:
    """Cut at commas and "and", but only where a new clause starts there."""
    parts: list[str] = []
    for piece in _WEAK.split(text):
        bare = _LEAD.sub("", piece).strip()
        if not bare:
            continue
        if not parts or _VERB.match(bare):
            parts.append(bare)
        elif gapped := _gapped(parts[-1], bare):
            parts[-1:] = gapped
        else:
            parts[-1] += f" and {bare}"
    return parts


def _gapped(left: str, right: str) -> list[str] | None:
    """Complete "put A in B and C in D", and "put A and C in D", into two clauses each."""
    verb = _VERB.match(left)
    if not verb or VERBS[verb[1].lower()].kind != "put":
        return None
    relation = _RELATION.search(right)
    if not relation or relation.start() == 0:
        return None
    if _RELATION.search(left, verb.end()):
        return [left, f"{verb[1]} {right}"]
    return [f"{left} {right[relation.start() :]}", f"{verb[1]} {right}"]


def _clause(text: str, before: str) -> Clause:
    """`before` is the object of the clause before, which "it" stands for."""
    match = _VERB.match(text)
    if not match:
        text = text[0].lower() + text[1:]
        return Clause(text, f'"{text}" is done', "act")
    verb = VERBS[match[1].lower()]
    thing, rest = _object_and_rest(text[match.end() :])
    if not thing and rest.endswith((" down", "down")):
        thing, rest = before, "down"
    thing = before if _PRONOUN.match(thing) and before else _with_article(thing)
    if not thing:
        return Clause(text[0].lower() + text[1:], f'"{text}" is done', "act")
    return _worded(verb, thing, rest)


def _worded(verb: Verb, thing: str, rest: str) -> Clause:
    imperative, state, kind = verb.imperative, verb.state, verb.kind
    if kind == "pick":
        rest = ""
    elif rest.startswith("on ") and kind == "put" and thing.split()[-1] == rest.split()[-1]:
        imperative = "stack {o} {rest}"
    elif rest.startswith(("out of", "off", "from ", "away from")) and " to " not in rest and kind == "put":
        imperative = "take {o} {rest}"
    elif rest.startswith(("to ", "next ", "in front", "behind", "between")) and imperative.startswith("put"):
        imperative = "move {o} {rest}"
    elif not rest and "{rest}" in state and kind in ("put", "act"):
        state = f"{{o}} has been {_participle(imperative.split()[0])}"
    if kind == "put" and _PLURAL.match(thing):
        kind = "many"
    put = {"o": thing, "rest": rest}
    return Clause(imperative.format(**put).strip(), _arrived(state.format(**put)).strip(), kind, thing)


def _arrived(state: str) -> str:
    """Motion words of a request are wrong in a state: "is from left to right" is "is at the right"."""
    state = re.sub(r"\bis from\b.*\bto (?:the )?(left|right)$", r"is on the \1 side", state)
    state = re.sub(r"\bis to (?:the )?(left|right)$", r"is on the \1 side", state)
    state = re.sub(r"\bis from (?=the|a|an)", "is away from ", state)
    return re.sub(r"\bis to (?!the (?:left|right) of)", "is at ", state)


def _object_and_rest(text: str) -> tuple[str, str]:
    """("the red block", "in the yellow bowl"): the preposition made plain, articles filled in."""
    match = _RELATION.search(text)
    if not match:
        return text.strip(), ""
    target = text[match.end() :].strip()
    relation = RELATIONS[match[1].lower()]
    if relation in ("in", "on", "out of", "off") or relation.endswith(" of") or relation == "next to":
        target = _with_article(target)
    return text[: match.start()].strip(), f"{relation} {target}".strip()


def _with_article(noun: str) -> str:
    return noun if not noun or _DETERMINER.match(noun) else f"the {noun}"


def _participle(verb: str) -> str:
    irregular = {"put": "put", "take": "taken", "hang": "hung", "slide": "slid"}
    return irregular.get(verb, verb + ("d" if verb.endswith("e") else "ged" if verb == "drag" else "ed"))
