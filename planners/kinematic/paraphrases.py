"""Paraphrase an instruction by the rules that parse it, without a model."""

import itertools
import re

from goalreel.planners.kinematic.clause import Clause
from goalreel.planners.kinematic.clauses import read

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
_VERB = re.compile(rf"^(?:{'|'.join(sorted(_VERBS, key=len, reverse=True))})\b")
_RELATION = re.compile(rf" ({'|'.join(sorted(_RELATIONS, key=len, reverse=True))}) (?!front\b|top\b)")


def paraphrases(instruction: str, limit: int = 8) -> tuple[str, ...]:
    """The instruction and up to `limit` - 1 other wordings that parse to the very same clauses.

    Only the instruction where a clause cannot be parsed, as in another language.

    >>> paraphrases("place the block into the bowl", 4)
    ('place the block into the bowl', 'put the block in the bowl', 'put the block into the bowl', \
'put the block inside the bowl')
    """
    clauses = read(instruction)
    choices = list(itertools.zip_longest(*(_other(clause.name) for clause in clauses)))
    wordings = {instruction.strip(): None}
    for lead, choice in itertools.product(_LEADS, choices if all(c.object for c in clauses) else ()):
        parts = (text or clause.name for text, clause in zip(choice, clauses, strict=True))
        text = lead + ", then ".join(parts)
        if _same(read(text), clauses):
            wordings[text] = None
    return tuple(wordings)[:limit]


def _other(name: str) -> list[str]:
    """A clause's name, and the same with other verbs and prepositions."""
    verb, relation = _VERB.match(name), _RELATION.search(name)
    verbs = (verb[0], *_VERBS[verb[0]]) if verb else ("",)
    head, tail = name[: relation.start()] if relation else name, name[relation.end() :] if relation else ""
    links = [f" {r} " for r in (relation[1], *_RELATIONS[relation[1]])] if relation else [""]
    head = head[verb.end() :] if verb else head
    return [f"{v}{head}{link}{tail}" for v, link in itertools.product(verbs, links)]


def _same(first: list[Clause], second: list[Clause]) -> bool:
    """Whether names and states agree; the number of grasps does not depend on the wording."""
    return [(c.name, c.state) for c in first] == [(c.name, c.state) for c in second]
