"""Where the words of a clause may mean something else than the rules would write."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from goalreel.planners.kinematic.clause import Clause
from goalreel.planners.kinematic.nouns import DETERMINER, NUMBERS, is_plural, singular
from goalreel.planners.kinematic.verbs import DIRECTIONS, FIXTURES, Verb

PRONOUN = re.compile(r"^(?:it|them|this|that)$", re.IGNORECASE)
_LAST_PRONOUN = re.compile(r"\b(?:it|them)$", re.IGNORECASE)
_SOURCE = re.compile(r"^(?:out of|off|from|away from)\b|^to the (?:left|right)$")
"""What follows a thing and names no other place for it."""
_EACH = re.compile(rf"^(?!between\b).*\b(?:each|every|both|all|{'|'.join(NUMBERS)}|\d+ )\b")
_TOOL_WORDS = (
    "bat broom brush chopsticks cloth fork hammer key knife ladle paddle pen pencil pole rag rake rod ruler "
    "scissors scoop scraper screwdriver shovel spatula sponge spoon squeegee stick tongs tool towel tweezers "
    "wrench"
)
_TOOLS = frozenset(_TOOL_WORDS.split())
"""What one pushes or opens another thing with; "the box with the red lid" is a box."""
_GRASPS = frozenset(("grasp", "grab", "seize", "pick"))
_OBJECTLESS = frozenset(("load", "set", "lay"))
"""Without a place they mean something else: "set the table", "load the dishwasher"."""
_RESHAPES = frozenset(("fold", "cut", "slice", "chop"))
"""What follows "into" is no place, but what becomes of the thing."""
_RANK = re.compile(
    r"\b(?:second|third|fourth|fifth|\dnd|\drd|\dth)\b.* from the (?:left|right|top|bottom|front|back|end)\b"
    r"|\b\w+est\b.* to "
)
"""One of several things, and what it is counted from: that must stay in the name."""
_NEED_A_PLACE = ("put ", "move ", "stack ", "insert ", "hang ")


@dataclass(frozen=True, slots=True)
class Antecedent:
    """What "it" means."""

    thing: str = ""
    """Empty where nothing was named before."""
    several: bool = False
    is_object: bool = True
    """As the object of a clause it can mean nothing else: "put it in the box"."""
    is_place: bool = True
    """Nor can it at the end: "put the cup in it"."""

    def is_clear(self, noun: str, rest: str) -> bool:
        """Whether the pronouns of a clause with an object and the text after it mean this thing alone."""
        last = _LAST_PRONOUN.search(rest)
        pronouns = [noun] if PRONOUN.match(noun) else []
        is_sure = self.is_object or not pronouns
        if last:
            pronouns.append(last[0])
            is_sure = is_sure and (self.is_place or rest.lower() == "with it")
        return is_sure and all((word.lower() == "them") == self.several for word in pronouns)


def find_antecedent(verb: Verb, clauses: Sequence[Clause]) -> Antecedent:
    """Find what "it" means: the object of the previous clause, or for "close it" of the last act."""
    if not clauses or not clauses[-1].object:
        return Antecedent()
    last = clauses[-1]
    acts = [clause for clause in clauses if clause.kind == "act" and clause.object]
    chosen = acts[-1] if verb.kind == "act" and acts else last
    after = last.name.partition(last.object)[2].strip()
    is_free = not after or after in DIRECTIONS or bool(_SOURCE.match(after))
    if last.means == "tool" or (last.kind == "put" and after and verb.kind == "act"):
        is_free = False  # "take the milk out of the fridge and close it"
    if chosen is not last:
        is_object = after.endswith(chosen.object)
    elif last.kind == "act":
        is_object = is_free and (verb.kind == "act" or all(clause.kind != "pick" for clause in clauses))
    else:
        is_object = is_free
    is_place = chosen is last and last.kind == "act" and is_free
    return Antecedent(chosen.object, chosen.several, is_object, is_place)


def is_ambiguous(word: str, verb: Verb, noun: str, rest: str) -> bool:
    """Whether a clause may mean something else than its verb usually does.

    Args:
        word: the verb as the instruction has it, in lower case.
        verb: its row of the table.
        noun: its object, before an article is added.
        rest: the text after the object, with a plain preposition.
    """
    last = singular(noun.split()[-1].lower()) if noun else ""
    if rest.startswith("with "):
        is_tool = verb.means == "tool" or rest.split()[-1].lower() in _TOOLS | {"it"}
        return verb.kind in ("put", "pick") or (verb.kind == "act" and not is_tool)
    if verb.imperative.startswith("take ") and rest.startswith("by "):
        return True
    if word in _RESHAPES and rest.startswith("in "):
        return True
    if verb.kind == "pick" and _RANK.search(f"{noun} {rest}".lower()):
        return True
    if word in _OBJECTLESS and (not rest or rest.startswith("to ")):
        return not rest or word == "set"
    if last in FIXTURES and (word in _GRASPS or verb.kind == "put"):
        return word in _GRASPS or not rest.startswith(("in ", "on "))
    if verb.kind == "put" and _EACH.match(rest) and not is_plural(noun):
        return True
    is_listing = " " in noun and not DETERMINER.match(noun) and not noun[-1].isdigit()
    return is_listing and not rest and verb.kind == "put" and verb.imperative.startswith(_NEED_A_PLACE)
