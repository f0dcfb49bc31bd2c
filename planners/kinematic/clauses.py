"""Parse an instruction to clauses in order, each with the state that it leads to.

Plain rules over English text, without a model. Text that no rule knows stays word for word.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal

from goalreel.planners.kinematic.idioms import expand_idioms
from goalreel.planners.kinematic.nouns import is_noun, is_place
from goalreel.planners.kinematic.splitting import split_instruction
from goalreel.planners.kinematic.verbs import (
    CONTAINERS,
    DIRECTIONS,
    FIXTURES,
    RELATION_PATTERN,
    RELATIONS,
    VERB_PATTERN,
    VERBS,
    Means,
    Verb,
    VerbKind,
)

KEEP = "Keep everything else unchanged."
_DETERMINER = re.compile(
    r"^(?:the|a|an|one|two|three|four|five|six|all|every|each|both|any|some|my|your|its|this|that|these|those"
    r"|it|them|\d+(?=\s))\b",
    re.IGNORECASE,
)
_NAMED = re.compile(r"^\w+(?:'s|s')\s|\s(?:\d+|[A-Z])$")
"""No article goes before "Anna's cup", "block 2" and "box A"."""
_SEVERAL = re.compile(
    r"^(?:(?:all|every|each|both|two|three|four|five|six|these|those|them|some)\b"
    r"|(?:the |\w+ )*\w+[^s\Wiu]s$)",
    re.IGNORECASE,
)
PRONOUN = re.compile(r"^(?:it|them|this|that)$", re.IGNORECASE)
_WAY = "|".join(sorted(DIRECTIONS))
_DIRECTION = re.compile(
    rf"^({_WAY})\s+(?=(?:the|a|an|your|this|that)\b)"
    rf"|(?<!\bthe)(?<!\bto)\s+({_WAY})$"
    rf"|\s+(?!in|over|left|right|out of|away from)({_WAY})(?=\s+(?:{RELATION_PATTERN.pattern}))",
    re.IGNORECASE,
)
"""Such as in "push down the lever", "slide the door open" and "pull the plate back out of the rack"."""
_PURPOSE = re.compile(
    r"^(.+?) to ((?:open|close|shut|lock|unlock|(?:turn|switch) o(?:n|ff)|move|lift|remove)\s.+)$",
    re.IGNORECASE,
)
_BUTTONS = frozenset(("button", "buttons", "key", "keys", "switch", "switches", "bell", "doorbell", "pedal"))
"""Things that one presses by pushing them."""
_COVERS = frozenset(("lid", "cover", "cap", "top"))
"""Things that close another."""
_UPWARDS = frozenset(("up", "upward", "upwards"))
_DOWNWARDS = frozenset(("down", "downward", "downwards"))
_DIRECTED = frozenset(("push", "pull", "slide", "drag", "shove", "nudge", "tug"))
"""Verbs with which "up" and "down" say where a thing goes; one may roll up a towel on a table."""
_ENDS = {"open": "open", "shut": "closed", "closed": "closed"}


def sentence(text: str) -> str:
    """`text` with a capital in front, but for a name that has a capital of its own.

    >>> sentence("put it down"), sentence("iPad: put it down")
    ('Put it down', 'iPad: put it down')
    """
    first, _, _ = text.partition(" ")
    return f"{text[0].upper()}{text[1:]}" if first.islower() else text


@dataclass(frozen=True, slots=True)
class Clause:
    """One request. `name` is its label, `state` what a camera sees when it is done."""

    name: str
    state: str
    kind: VerbKind
    object: str = ""
    several: bool = False
    """It is about more than one object, so it takes more than one grasp."""
    picked: bool = False
    """The instruction names the picking up as a separate step ("pick X and place it").

    With `tool` it names what the hand takes for it ("wipe the table with the sponge"): that is the `object`.
    """
    means: Means = "grasp"
    """What the hand does to the object: "wipe the table" needs a tool, "open the door" only a push."""
    way: Literal["", "up", "down"] = ""
    """Where the words say that the hand takes the object to."""
    understood: bool = True
    """A rule has read every word of it."""
    unordered: bool = False
    """It is one of several that the instruction names in one breath ("put A and B in C")."""

    @property
    def grasps(self) -> bool:
        """Whether the hand must close on the object."""
        return self.kind != "act" or self.means == "grasp" or self.picked

    @property
    def pulls(self) -> bool:
        """Whether the hand may as well hook on the object."""
        return self.means in ("pull", "lift")

    @property
    def prompt(self) -> str:
        """The clause as an edit of a picture.

        >>> read("place blue cube into the bowl")[0].prompt
        'Put the blue cube in the bowl. Keep everything else unchanged.'
        """
        return f"{sentence(self.name)}. {KEEP}"


def read(instruction: str) -> list[Clause]:
    """Parse an instruction to its clauses in order; empty only for an instruction without words.

    >>> [c.name for c in read("Pick up the red block and place it in the bowl, then close the drawer.")]
    ['put the red block in the bowl', 'close the drawer']
    """
    clauses: list[Clause] = []
    for text in split_instruction(expand_idioms(" ".join(instruction.split()))):
        clause = _clause(text, clauses)
        if clauses and clauses[-1].kind == "pick" and (joined := _join_pick(clauses[-1], clause)):
            clauses[-1] = joined
        else:
            clauses.append(clause)
    return _with_order(clauses, instruction)


def _join_pick(pick: Clause, clause: Clause) -> Clause | None:
    """Join "pick up X" with what is then done with it: it is put, pulled, or a tool for another thing."""
    understood = pick.understood and clause.understood
    if clause.kind in ("put", "pick") and clause.object == pick.object:
        return replace(clause, picked=clause.kind == "put", understood=understood)
    if clause.kind != "act" or not clause.object:
        return None
    if clause.object == pick.object:
        means = clause.means if clause.picked else "grasp"
        return replace(clause, means=means, picked=True, understood=understood)
    covers = clause.name.startswith("close ") and pick.object.split()[-1] in _COVERS
    if not covers and clause.means != "tool":
        return None
    return replace(clause, object=pick.object, means="tool", picked=True, understood=understood)


def _with_order(clauses: list[Clause], instruction: str) -> list[Clause]:
    """Mark the clauses whose common target the instruction names only once."""
    targets = [clause.name.split()[-1] if clause.kind == "put" else "" for clause in clauses]
    text = instruction.lower()
    return [
        replace(clause, unordered=bool(target) and text.count(target.lower()) < targets.count(target))
        for clause, target in zip(clauses, targets, strict=True)
    ]


def whole(instruction: str) -> Clause:
    """The instruction as one clause, word for word, where rules have not read all of it.

    >>> whole("USB stick: take it out").name
    'USB stick: take it out'
    """
    return replace(_unread(" ".join(instruction.split())), means="tool")


def _clause(text: str, clauses: list[Clause]) -> Clause:
    """Parse one clause; the earlier `clauses` tell what "it" is."""
    match = VERB_PATTERN.match(text)
    if not match:
        return _unread(text)
    verb = VERBS[match[1].lower()]
    if verb.kind == "act" and (purpose := _PURPOSE.match(text)):
        means, end = _clause(purpose[1], clauses), _clause(purpose[2], clauses)
        if means.understood and end.understood:
            return replace(means, name=f"{means.name} to {end.name}", state=end.state)
    antecedent = _antecedent(verb, clauses)
    text, direction = _cut_direction(text[match.end() :]) if verb.kind == "act" else (text[match.end() :], "")
    thing, rest = _object_and_rest(re.sub(r"\s+(?:up|down)$", "", text))
    thing = antecedent if PRONOUN.match(thing) and antecedent else _with_article(thing)
    if antecedent:
        rest = re.sub(r"\b(?:it|them)$", antecedent, rest)
    if not thing:
        return _unread(text)
    clause = _make_clause(verb, thing, rest, direction)
    return replace(clause, understood=is_noun(thing) and (not rest or is_place(rest)))


def _cut_direction(text: str) -> tuple[str, str]:
    """("the plate into the rack", "sideways"); the second is empty where no direction is named."""
    match = _DIRECTION.search(text)
    if not match:
        return text, ""
    return f"{text[: match.start()]} {text[match.end() :]}".strip(), next(
        filter(None, match.group(1, 2, 3))
    ).lower()


def _unread(text: str) -> Clause:
    """A clause that no rule reads stays word for word."""
    return Clause(text, f'"{text}" is done', "act", understood=False)


def _antecedent(verb: Verb, clauses: list[Clause]) -> str:
    """The object that "it" means: of the previous clause, or for "close it" of the last act."""
    objects = [c.object for c in clauses if c.kind == "act" and c.object]
    if verb.kind == "act" and objects:
        return objects[-1]
    return clauses[-1].object if clauses else ""


def _make_clause(verb: Verb, thing: str, rest: str, direction: str) -> Clause:
    imperative, state, kind, means = verb.imperative, verb.state, verb.kind, verb.means
    if imperative.startswith(("push ", "flip ")) and (direction == "down" or thing.split()[-1] in _BUTTONS):
        means = "press"
    if kind == "pick" and thing.split()[-1] in FIXTURES:
        imperative, state, kind, means = "lift {o}", "{o} has been lifted", "act", "lift"
    if means == "pull" and direction in _UPWARDS:
        means = "lift"
    way: Literal["", "up", "down"] = "up" if means == "lift" else ""
    if imperative.split()[0] in _DIRECTED and direction in _UPWARDS | _DOWNWARDS:
        way = "up" if direction in _UPWARDS else "down"
    tool = rest.removeprefix("with ") if kind == "act" and rest.startswith(("with the ", "with a ")) else ""
    if tool:
        means, state = "tool", state.replace(" {rest}", "")
        imperative = imperative if "{rest}" in imperative else f"{imperative} {{rest}}"
    if direction and "{rest}" in imperative:
        imperative = imperative.replace("{o}", f"{{o}} {direction}")
        state = f"{{o}} is {_ENDS[direction]}" if direction in _ENDS else state
    if kind == "put":
        imperative, rest = _plain(imperative, thing, rest)
    if kind == "pick":
        rest = ""
    elif state == "{o} is" or (not rest and state.startswith("{o} is {rest}")):
        state = f"{{o}} has been {_participle(imperative.split()[0])}"
    several = bool(_SEVERAL.match(thing))
    if kind in ("put", "pick") and several:
        kind = "many"
        state = state.replace("{o} is", "{o} are").replace("{o} has", "{o} have")
    values = {"o": thing, "rest": rest}
    name = imperative.format(**values).strip()
    state = _as_state(state.format(**values)).strip()
    return Clause(name, state, kind, tool or thing, several, picked=bool(tool), means=means, way=way)


def _plain(imperative: str, thing: str, rest: str) -> tuple[str, str]:
    """Write each way of putting in one form, whatever the verb of the instruction."""
    if rest.startswith("from ") and " to " not in rest and rest.split()[-1].removesuffix("s") in CONTAINERS:
        rest = f"out of {_with_article(rest.removeprefix('from '))}"
    if imperative.split()[0] not in ("put", "move", "take"):
        return imperative, rest
    if rest.startswith(("out of", "off", "from", "away")) and " to " not in rest:
        return "take {o} {rest}", rest
    if rest.startswith("on ") and thing.split()[-1] == rest.split()[-1]:
        return "stack {o} {rest}", rest
    if rest.startswith(("in ", "on ", "at ")) and not rest.startswith("in front"):
        return "put {o} {rest}", rest
    if rest and imperative.startswith("put {o} {rest}"):
        return "move {o} {rest}", rest
    return imperative, rest


def _as_state(state: str) -> str:
    """Replace words of motion, wrong in a state: "is from left to right" by "is on the right side"."""
    state = re.sub(r"\b(is|are) (?:from\b.*\b)?to (?:the )?(left|right)$", r"\1 on the \2 side", state)
    state = re.sub(r"\b(is|are) from (?=the|a|an)", r"\1 away from ", state)
    return re.sub(r"\b(is|are) to (?!the (?:left|right) of)", r"\1 at ", state)


def _object_and_rest(text: str) -> tuple[str, str]:
    """("the red block", "in the yellow bowl"): with a plain preposition and the missing articles."""
    match = RELATION_PATTERN.search(text)
    if not match:
        return text.strip(), ""
    target = text[match.end() :].strip()
    relation = RELATIONS[match[1].lower()]
    if relation in ("in", "on", "out of", "off") or relation.endswith(" of") or relation == "next to":
        target = _with_article(target)
    return text[: match.start()].strip(), f"{relation} {target}".strip()


def _with_article(noun: str) -> str:
    """The noun with an article, unless it has one, or is named otherwise."""
    if determiner := _DETERMINER.match(noun):
        return determiner[0].lower() + noun[determiner.end() :]
    return noun if not noun or _NAMED.search(noun) else f"the {noun}"


def _participle(verb: str) -> str:
    irregular = {verb: verb for verb in ("put", "hit", "cut", "spread")} | {
        "take": "taken", "slide": "slid", "drag": "dragged", "tug": "tugged", "sweep": "swept",
        "chop": "chopped", "scrub": "scrubbed", "draw": "drawn", "tip": "tipped", "throw": "thrown",
    }  # fmt: skip
    return irregular.get(verb, verb + ("d" if verb.endswith("e") else "ed"))
