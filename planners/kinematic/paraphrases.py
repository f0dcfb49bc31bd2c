"""Paraphrase an instruction by the rules that parse it, without a model."""

import itertools
import re

from goalreel.planners.kinematic.clauses import Clause, read
from goalreel.planners.kinematic.words import RELATIONS, RELEASES, VERBS

_VERBS = {
    "put": ("place", "set"),
    "move": ("bring", "transfer"),
    "take": ("remove",),
    "pick up": ("grab", "lift up"),
    "put down": ("set down",),
    "close": ("shut",),
    "turn on": ("switch on",),
    "turn off": ("switch off",),
    "turn": ("rotate",),
}
_RELATIONS = {
    "in": ("into", "inside"),
    "on": ("onto", "on top of"),
    "next to": ("beside",),
    "out of": ("from",),
}
_LEADS = ("", "please ")
# Sides of a thing: one puts nothing into or on top of the left.
_SIDE = re.compile(r" (?:left|right|side|top|bottom|middle|cent(?:er|re)|edge|corner|end)\b")
_PLAIN_WORDS = {word for text in (*VERBS, *RELATIONS) for word in text.split()} - {*RELEASES, "left", "right"}
_OTHER_WORDS = (
    "a an the it them and then please first next now finally lastly last also after that afterwards followed "
    "you should can could would i we want need like your task is"
)
_LOSABLE = frozenset((*_PLAIN_WORDS, *_OTHER_WORDS.split()))  # a rule may replace or leave them out
_VERB = re.compile(rf"^(?:{'|'.join(sorted(_VERBS, key=len, reverse=True))})\b")
_RELATION = re.compile(rf" ({'|'.join(sorted(_RELATIONS, key=len, reverse=True))}) (?!front\b|top\b)")


def paraphrases(instruction: str, limit: int = 8) -> tuple[str, ...]:
    """The instruction and up to `limit` - 1 other wordings that parse to the very same clauses.

    Only the instruction where a clause cannot be parsed, loses a word, or is one of several without order.

    >>> paraphrases("place the block into the bowl", 4)
    ('place the block into the bowl', 'put the block in the bowl', 'put the block into the bowl', \
'put the block inside the bowl')
    """
    clauses, wordings = read(instruction), {instruction.strip(): None}
    if any(not c.understood or c.unordered for c in clauses) or _lost_words(instruction, clauses):
        return tuple(wordings)
    choices = list(itertools.zip_longest(*(_other(clause.name) for clause in clauses)))
    for lead, choice in itertools.product(_LEADS, choices):
        parts = (text or clause.name for text, clause in zip(choice, clauses, strict=True))
        text = lead + ", then ".join(parts)
        if _meanings(read(text)) == _meanings(clauses):
            wordings[text] = None
    return tuple(wordings)[:limit]


def _lost_words(instruction: str, clauses: list[Clause]) -> set[str]:
    """The words of an instruction that count, and that no name of its clauses has."""
    names = " ".join(clause.name for clause in clauses).casefold()
    words = re.findall(r"[\w'-]+", instruction.casefold())
    return {*words} - {*re.findall(r"[\w'-]+", names)} - _LOSABLE


def _other(name: str) -> list[str]:
    """A clause's name, and the same with other verbs and prepositions."""
    verb, relation = _VERB.match(name), _RELATION.search(name)
    verbs = (verb[0], *_VERBS[verb[0]]) if verb else ("",)
    head, tail = name[: relation.start()] if relation else name, name[relation.end() :] if relation else ""
    relations = (relation[1], *(() if _SIDE.search(tail) else _RELATIONS[relation[1]])) if relation else ()
    links = [f" {r} " for r in relations] or [""]
    head = head[verb.end() :] if verb else head
    return [f"{v}{head}{link}{tail}" for v, link in itertools.product(verbs, links)]


def _meanings(clauses: list[Clause]) -> list[tuple[str, str, bool]]:
    """Names and states, which must agree; the number of grasps does not depend on the wording."""
    return [(c.name, c.state, c.understood) for c in clauses]
