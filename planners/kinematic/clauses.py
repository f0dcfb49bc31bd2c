"""Parse an instruction to clauses in order, each with the state that it leads to.

Plain rules over English text, without a model. Text that no rule knows stays word for word.
"""

import re
from dataclasses import replace
from typing import Literal

from goalreel.planners.kinematic.ambiguity import PRONOUN, find_antecedent, is_ambiguous
from goalreel.planners.kinematic.clause import Clause
from goalreel.planners.kinematic.idioms import expand_idioms
from goalreel.planners.kinematic.nouns import DETERMINER, is_noun, is_place, is_plural, singular
from goalreel.planners.kinematic.splitting import split_instruction
from goalreel.planners.kinematic.verbs import (
    CONTAINERS,
    DIRECTIONS,
    FIXTURES,
    RELATION_PATTERN,
    RELATIONS,
    RELEASES,
    SURFACES,
    VERB_PATTERN,
    VERBS,
    Means,
    Verb,
)

_NAMED = re.compile(r"^\w+(?:'s|s')\s|(?:\d|\s[A-Z])$")
"""No article goes before "Anna's cup", "block 2", "box A" and "obj1"."""
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
_OUTER = _COVERS | {"label", "sticker", "tape", "cork", "handle"}
"""Things that are on a container, and not in it."""
_UPWARDS = frozenset(("up", "upward", "upwards"))
_DOWNWARDS = frozenset(("down", "downward", "downwards"))
_SIDEWAYS = frozenset(("aside", "sideways", "forward", "forwards", "backward", "backwards", "left", "right"))
_TO_A_SIDE = ("to the left", "to the right", "towards ", "next to ", "around ")
_ALONG = frozenset(("push", "slide", "drag", "shove", "nudge", "sweep", "roll"))
"""Verbs with which a thing goes along what it lies on, unless the words say otherwise."""
_DIRECTED = frozenset(("push", "pull", "slide", "drag", "shove", "nudge", "tug"))
"""Verbs with which "up" and "down" say where a thing goes; one may roll up a towel on a table."""
_PART = re.compile(r"on the |to the \w+ side", re.IGNORECASE)
"""Of what is a surface: "on the left of the table" is not beside it."""
_ENDS = {"open": "open", "shut": "closed", "closed": "closed"}


def read(instruction: str) -> list[Clause]:
    """Parse an instruction to its clauses in order; empty only for an instruction without words.

    >>> [c.name for c in read("Pick up the red block and place it in the bowl, then close the drawer.")]
    ['put the red block in the bowl', 'close the drawer']
    """
    clauses: list[Clause] = []
    for text, unordered in split_instruction(expand_idioms(" ".join(instruction.split()))):
        clause = replace(_clause(text, clauses), unordered=unordered)
        if clauses and (joined := _join(clauses[-1], clause)):
            clauses[-1] = joined
        else:
            clauses.append(clause)
    return _with_order(clauses, instruction)


def _join(pick: Clause, clause: Clause) -> Clause | None:
    """Join "pick up X" with what is then done with it: it is put, pulled, or a tool for another thing.

    So is "take X from Y" with where it is put.
    """
    understood = pick.understood and clause.understood
    if pick.name.startswith("take ") and pick.kind == clause.kind == "put" and clause.object == pick.object:
        return replace(clause, picked=True, understood=understood)
    if pick.kind != "pick":
        return None
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
    targets = [clause.name.split()[-1] if clause.kind in ("put", "many") else "" for clause in clauses]
    text = instruction.lower()
    return [
        replace(clause, unordered=clause.unordered or text.count(target.lower()) < targets.count(target))
        if target
        else clause
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
        if PRONOUN.match(purpose[2].partition(" ")[2]):
            return means  # what opens by a handle may be another thing
        if means.understood and end.understood:
            return replace(means, name=f"{means.name} to {end.name}", state=end.state)
    it = find_antecedent(verb, clauses)
    text, direction = _cut_direction(text[match.end() :]) if verb.kind == "act" else (text[match.end() :], "")
    if verb.kind == "pick":
        text = text.removesuffix(" up")
    elif verb.imperative == "put {o} {rest}" and text.endswith(" down"):
        verb, text = VERBS["put down"], text.removesuffix(" down")
    noun, rest = _object_and_rest(text)
    is_clear = it.is_clear(noun, rest) and not is_ambiguous(match[1].lower(), verb, noun, rest)
    thing = it.thing if PRONOUN.match(noun) and it.thing else _with_article(noun)
    if it.thing:
        rest = re.sub(r"\b(?:it|them)$", it.thing, rest)
    if not thing:
        return _unread(text)
    clause = _make_clause(verb, thing, rest, direction)
    return replace(clause, understood=is_clear and is_noun(thing) and (not rest or is_place(rest)))


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


def _make_clause(verb: Verb, thing: str, rest: str, direction: str) -> Clause:
    imperative, state, kind, means = verb.imperative, verb.state, verb.kind, verb.means
    if imperative.startswith(("push ", "flip ")) and (direction == "down" or thing.split()[-1] in _BUTTONS):
        means = "press"
    if kind == "pick" and singular(thing.split()[-1]) in FIXTURES:
        imperative, state, kind, means = "lift {o}", "{o} has been lifted", "act", "lift"
    if means == "pull" and direction in _UPWARDS:
        means = "lift"
    way: Literal["", "up", "down", "sideways"] = "up" if means == "lift" else ""
    if imperative.split()[0] in _DIRECTED and direction in _UPWARDS | _DOWNWARDS:
        way = "up" if direction in _UPWARDS else "down"
    elif means in ("push", "pull") and (direction in _SIDEWAYS or rest.startswith(_TO_A_SIDE)):
        way = "sideways"
    elif imperative.split()[0] in _ALONG and not direction and not rest.startswith(("in ", "out of ")):
        way = "sideways" if means in ("push", "pull") else way
    tool = rest.removeprefix("with ") if kind == "act" and rest.startswith(("with the ", "with a ")) else ""
    if tool:
        means, state = "tool", state.replace(" {rest}", "")
        imperative = imperative if "{rest}" in imperative else f"{imperative} {{rest}}"
    if kind == "act" and (rest or direction) and "{rest}" not in imperative:
        imperative = f"{imperative} {{rest}}"
    if direction and "{rest}" in imperative:
        imperative = imperative.replace("{o}", f"{{o}} {direction}")
        state = f"{{o}} is {_ENDS[direction]}" if direction in _ENDS else state
    if kind == "put":
        imperative, rest = _plain(imperative, thing, rest)
    if kind == "pick":
        rest = ""
    elif _is_passive(state, rest, means, direction):
        state = f"{{o}} has been {_participle(imperative.split()[0])} {direction}"
    several = is_plural(thing)
    if state.startswith("{o} is empty") and (several or rest):
        state = f"{{o}} has been {_participle(imperative.split()[0])} {{rest}}"
    state = state.replace("{o} have", "{o} has")
    if several:
        state = state.replace("{o} is", "{o} are").replace("{o} has", "{o} have")
    if kind in ("put", "pick") and several:
        kind = "many"
    values = {"o": thing, "rest": rest}
    name = imperative.format(**values).strip()
    state = _as_state(state.format(**values)).strip()
    return Clause(name, state, kind, tool or thing, several, picked=bool(tool), means=means, way=way)


def _is_passive(state: str, rest: str, means: Means, direction: str) -> bool:
    """Whether the words name no place where the thing then is: "push the button on the wall"."""
    if means == "press" and state.startswith("{o} is {rest}"):
        return True
    turned = direction and direction not in _ENDS and state.endswith((" turned {rest}", " flipped {rest}"))
    return state == "{o} is" or (not rest and (state.startswith("{o} is {rest}") or bool(turned)))


def _plain(imperative: str, thing: str, rest: str) -> tuple[str, str]:
    """Write each way of putting in one form, whatever the verb of the instruction."""
    if rest.startswith("from ") and " to " not in rest and rest.split()[-1].removesuffix("s") in CONTAINERS:
        relation = "off" if thing.split()[-1] in _OUTER else "out of"
        rest = f"{relation} {_with_article(rest.removeprefix('from '))}"
    if imperative.split()[0] in RELEASES and rest.startswith(("in ", "on ")):
        imperative = "put {o} {rest}"
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
    if _PART.match(match[1]) and target and singular(target.split()[-1].lower()) in SURFACES:
        relation = match[1].lower()
    if relation in ("in", "on", "out of", "off") or relation.endswith(" of") or relation == "next to":
        target = _with_article(target)
    return text[: match.start()].strip(), f"{relation} {target}".strip()


def _with_article(noun: str) -> str:
    """The noun with an article, unless it has one, or is named otherwise."""
    if determiner := DETERMINER.match(noun):
        return determiner[0].lower() + noun[determiner.end() :]
    return noun if not noun or _NAMED.search(noun) else f"the {noun}"


def _participle(verb: str) -> str:
    irregular = {verb: verb for verb in ("put", "hit", "cut", "spread")} | {
        "take": "taken", "slide": "slid", "drag": "dragged", "tug": "tugged", "sweep": "swept",
        "chop": "chopped", "scrub": "scrubbed", "draw": "drawn", "tip": "tipped", "throw": "thrown",
        "drop": "dropped", "flip": "flipped", "empty": "emptied", "tidy": "tidied",
    }  # fmt: skip
    return irregular.get(verb, verb + ("d" if verb.endswith("e") else "ed"))
