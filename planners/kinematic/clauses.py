"""Parse an instruction into clauses in order, each with the state that it leads to.

Plain rules over English text, without a model. Text that no rule knows stays word for word.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from goalreel.planners.kinematic import wordings, words as english
from goalreel.planners.kinematic.words import (
    VERBS,
    Means,
    Verb,
    VerbKind,
    is_noun,
    is_plural,
    singular,
    words,
)
from goalreel.terms import KEEP

type Way = Literal["", "up", "down", "sideways"]


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
    """The picking up is named as a separate step, or with `tool` what the hand takes for it: the `object`."""
    means: Means = "grasp"
    """The hand's way with the object: "wipe the table" needs a tool, "open the door" only a push."""
    way: Way = ""
    """The direction in which the hand takes the object, by the words."""
    understood: bool = True
    """A rule has read every word of it."""
    unordered: bool = False
    """It is one of several that the instruction names in one breath ("put A and B in C")."""

    @property
    def grasps(self) -> bool:
        """The hand must close on the object."""
        return self.kind != "act" or self.means == "grasp" or self.picked

    @property
    def takes_tool(self) -> bool:
        """It names what the hand takes to do it."""
        return self.picked and self.means == "tool"

    @property
    def pulls(self) -> bool:
        """The hand may as well hook on the object."""
        return self.means in ("pull", "lift")

    @property
    def prompt(self) -> str:
        """The clause as an edit of a picture.

        >>> Clause("put the blue cube in the bowl", "the blue cube is in the bowl", "put").prompt
        'Put the blue cube in the bowl. Keep everything else unchanged.'
        """
        return f"{sentence(self.name)}. {KEEP}"


def sentence(text: str) -> str:
    """Write a capital in front, but for a name that has a capital of its own.

    >>> sentence("put it down"), sentence("iPad: put it down")
    ('Put it down', 'iPad: put it down')
    """
    first, _, _ = text.partition(" ")
    return f"{text[0].upper()}{text[1:]}" if first.islower() else text


_RETURN = re.compile(
    r"(?:[,.;]? *\b(?:and then|then|and|finally|after that)\b,?|[,.;]) +(?:please )?"
    r"(?:go|come|move|return|drive)(?: back)?(?: to)?(?: the| its| your)?"
    r" (?:home|start|starting|initial|rest|resting|neutral)(?: (?:position|pose))?[.!]? *$",
    re.IGNORECASE,
)
_JOIN = r"(?:\s*[,;.]\s*(?:and\s+)?(?:then\s+)?|\s+and\s+(?:then\s+)?|\s+then\s+)"
_STRONG = re.compile(
    r"\s*(?:;|\.(?=\s|$)"
    r"|,?\s*(?<![\w-])(?:and then|then|after that|afterwards|followed by|finally|lastly|next(?! to))(?![\w-])"
    r"[,:]?)\s*",
    re.IGNORECASE,
)
_WEAK = re.compile(r"\s*(?:,\s*and\b|,|(?<![\w-])and(?![\w-])|&)\s*", re.IGNORECASE)
# Relations to a single place: what follows "and" is no second one, as it is behind "between".
_SINGLE_PLACE = ("in", "on", "out of", "off", "from", "to", "to the left of", "to the right of")


def split_return(instruction: str) -> tuple[str, bool]:
    """Take off a last request to go home, which needs no contact; say whether there was one.

    >>> split_return("put the cup in the box and return to the home position.")
    ('put the cup in the box', True)
    """
    text = _RETURN.sub("", instruction)
    return (text, True) if text.strip() and text != instruction else (instruction, False)


_HAND = (
    r"(?=the |your |its |left |right |other )(?:(?:the|your|its) )?(?:robot(?:'s)? )?"
    r"(?:(?P<{}>left|right|other) )?(?:hand|arm|gripper)"
)
_BETWEEN = (
    r"from one (?:hand|arm|gripper) to the other(?: (?:hand|arm|gripper))?"
    r"|between (?:(?:the|both|two|your|its) )*(?:hands|arms|grippers)"
)
_HANDOVER = re.compile(
    rf"(?:^|{_JOIN})(?:hand-?over|(?P<verb>hand|pass|transfer|give|move|switch|put|place)) (?P<over>over )?"
    rf"(?P<thing>[^,;.]+?)(?P<back> over)?(?: from {_HAND.format('giver')})?"
    rf"(?P<to> (?:in)?(?:to)? {_HAND.format('taker')}| (?:{_BETWEEN}))?(?={_JOIN}\S|[.!]?\s*$)",
    re.IGNORECASE,
)
_WITH_HAND = re.compile(rf"\b(?:with|using|use) {_HAND.format('side')}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Passing:
    """A handover from hand to hand that the words ask for. Sides are `left`, `right` or "" where unnamed."""

    clause: Clause
    grasps: int
    """Grasps up to the one of the thing that is handed over."""
    giver: str = ""
    taker: str = ""


def split_handovers(instruction: str) -> tuple[str, list[Passing]]:
    """Take what hands a thing over out of the instruction of a robot with two hands.

    >>> text, (passing,) = split_handovers("pick up the cup with the right arm and pass it to the left arm.")
    >>> text, passing.clause.name, passing.giver, passing.taker
    ('pick up the cup', 'hand over the cup to the left hand', 'right', 'left')
    >>> split_handovers("transfer the cube between the hands, then put it in the box")[0]
    'pick up the cube, then put it in the box'
    """
    text = re.sub(rf"({_WITH_HAND.pattern}),(?: and)?(?: then)? ", r"\1 and ", " ".join(instruction.split()))
    first = _WITH_HAND.search(re.split(_JOIN, text, maxsplit=1)[0])
    text, rest, start = wordings.rewrite(text), "", 0
    passings: list[Passing] = []
    for match in _HANDOVER.finditer(text):
        is_over = (match["verb"] or "").lower() == "hand" and (match["over"] or match["back"])
        is_named = match["to"] or not match["verb"] or is_over
        thing, before = match["thing"].strip(), _joined(rest, text[start : match.start()])
        clauses = read(before) if before else []
        if PRONOUN.match(thing):
            thing = clauses[-1].object if clauses else ""
        elif is_noun(thing) and (not clauses or clauses[-1].object != _with_article(thing)):
            before = _joined(before, f"pick up {thing}")
            clauses = read(before)
        if not is_named or not is_noun(thing) or clauses[-1].object != _with_article(thing):
            continue
        rest, start = before, match.end()
        thing, taker = clauses[-1].object, (match["taker"] or "").lower()
        grasps = sum(clause.grasps for clause in clauses)
        giver = (match["giver"] or (first["side"] if first and grasps == 1 else None) or "").lower()
        giver = passings[-1].taker if passings else giver
        name = f"hand over {thing}{f' to the {taker} hand' if taker else ''}"
        state = f"{thing} is held in the {taker or 'other'} hand alone"
        sides = ("" if side == "other" else side for side in (giver, taker))
        passings.append(Passing(Clause(name, state, "act", thing, means="tool"), grasps, *sides))
    return (_joined(rest, text[start:]), passings) if passings else (instruction, [])


def _joined(first: str, second: str) -> str:
    return ", then ".join(filter(None, (first, re.sub(rf"^{_JOIN}", "", second).strip(" .!"))))


def _split(instruction: str) -> list[tuple[str, bool]]:
    """The text of each clause, and whether the instruction does not say which of several comes first.

    >>> [text for text, _ in _split("Open the drawer, then put the cup and the spoon in it.")]
    ['Open the drawer', 'put the cup in it', 'put the spoon in it']
    """
    parts: list[tuple[str, bool]] = []
    for strong in _STRONG.split(instruction):
        core = wordings.LEAD.sub("", strong).strip(" .,!?:")
        first = len(parts)
        for weak in _WEAK.split(core):
            piece = wordings.LEAD.sub("", weak).strip()
            if not piece:
                continue
            if len(parts) == first or english.VERB_PATTERN.match(piece):
                parts.append((piece, False))
            else:
                parts[-1:] = _complete(parts[-1][0], piece)
    return parts


def _complete(first: str, second: str) -> list[tuple[str, bool]]:
    """Complete "put A in B and C in D", and "put A and C in D", into two clauses; others are one."""
    one = [(f"{first} and {second}", False)]
    verb, relation = english.VERB_PATTERN.match(first), english.RELATION_PATTERN.search(second)
    if not verb or VERBS[verb[1].lower()].kind != "put" or not relation or relation.start() == 0:
        return one
    if before := english.RELATION_PATTERN.search(first, verb.end()):
        plain = english.RELATIONS[before[1].lower()]
        if plain != english.RELATIONS[relation[1].lower()] and plain not in _SINGLE_PLACE:
            return one  # "put A between B and C on D" names one thing
        return [(first, False), (f"{verb[1]} {second}", False)]
    things = [*first[verb.end() :].split(" and "), second[: relation.start()].strip()]
    return [(f"{verb[1]} {thing} {second[relation.start() :]}", True) for thing in things]


PRONOUN = re.compile(r"^(?:it|them|this|that)$", re.IGNORECASE)
_LAST_PRONOUN = re.compile(r"\b(?:it|them)$", re.IGNORECASE)
_SOURCE = re.compile(r"^(?:out of|off|from|away from)\b|^to the (?:left|right)$")
"""Words that follow a thing and name no other place for it."""
_EACH = re.compile(rf"^(?!between\b).*\b(?:each|every|both|all|{'|'.join(english.NUMBERS)}|\d+ )\b")
_TOOLS = words(
    "bat broom brush chopsticks cloth fork hammer key knife ladle paddle pen pencil pole rag rake rod ruler "
    "scissors scoop scraper screwdriver shovel spatula sponge spoon squeegee stick tongs tool towel tweezers "
    "wrench it"
)
"""Things with which one pushes or opens another; "the box with the red lid" is a box."""
_GRASPS = frozenset(("grasp", "grab", "seize", "pick", "grip", "hold", "take hold of", "get hold of"))
_OBJECTLESS = words("load set lay lower store unload return deliver")  # "set the table" names no thing to set
_DOWN = re.compile(r" down(?= (?:in|into|inside|on|onto|next to)\b)", re.IGNORECASE)  # "set it down on it"
_LET_GO = re.compile(r"(?:release|let go of) (?:it|them)", re.IGNORECASE)
_OF_A_HELD_THING = ("leave", "release", "let go of")  # something else of what the hand does not hold
_RESHAPES = words("fold cut slice chop")  # verbs whose "into" names no place, but a new form of the thing
_RANK = re.compile(
    r"\b(?:second|third|fourth|fifth|\dnd|\drd|\dth)\b.* from the (?:left|right|top|bottom|front|back|end)\b"
    r"|\b\w+est\b.* to "
)
"""One of several things, and what it is counted from: that must stay in the name."""
_NEED_A_PLACE = ("put ", "move ", "stack ", "insert ", "hang ")


@dataclass(frozen=True, slots=True)
class _Antecedent:
    """The thing that "it" means; empty where nothing was named before."""

    thing: str = ""
    several: bool = False
    is_object: bool = True
    """It can mean nothing else as the object of a clause: "put it in the box"."""
    is_place: bool = True
    """Nor can it at the end: "put the cup in it"."""

    def is_clear(self, noun: str, rest: str) -> bool:
        """Tell whether the pronouns of an object and of the text after it mean this thing alone."""
        last = _LAST_PRONOUN.search(rest)
        pronouns = [noun] if PRONOUN.match(noun) else []
        is_sure = self.is_object or not pronouns
        if last:
            pronouns.append(last[0])
            is_sure = is_sure and (self.is_place or rest.lower() == "with it")
        return is_sure and all((word.lower() == "them") == self.several for word in pronouns)


def _find_antecedent(verb: Verb, clauses: Sequence[Clause]) -> _Antecedent:
    """Find what "it" means: the object of the previous clause, or for "close it" of the last act."""
    if not clauses or not clauses[-1].object:
        return _Antecedent()
    last = clauses[-1]
    acts = [clause for clause in clauses if clause.kind == "act" and clause.object]
    chosen = acts[-1] if verb.kind == "act" and acts else last
    after = last.name.partition(last.object)[2].strip()
    is_free = not after or after in english.DIRECTIONS or bool(_SOURCE.match(after))
    if last.means == "tool" or (last.kind == "put" and after and verb.kind == "act"):
        is_free = False  # "take the milk out of the fridge and close it"
    is_object = is_free
    if chosen is not last:
        is_object = after.endswith(chosen.object)
    elif last.kind == "act":
        is_object = is_free and (verb.kind == "act" or all(clause.kind != "pick" for clause in clauses))
    if last.kind == verb.kind == "put" and last.name.startswith("move "):  # one sets down what one carries
        is_object = is_object or last.picked or verb.imperative == "put down {o}"
    is_place = chosen is last and last.kind == "act" and is_free
    return _Antecedent(chosen.object, chosen.several, is_object, is_place)


def _is_ambiguous(word: str, verb: Verb, noun: str, rest: str) -> bool:
    """Tell whether a clause may mean something else than its verb, which is `word` there, usually does."""
    last = singular(noun.split()[-1].lower()) if noun else ""
    if rest.startswith("with "):
        is_tool = verb.means == "tool" or rest.split()[-1].lower() in _TOOLS
        return verb.kind in ("put", "pick") or (verb.kind == "act" and not is_tool)
    if verb.imperative.startswith("take ") and rest.startswith("by "):
        return True
    if word in _OBJECTLESS and (not rest or rest.startswith("to ")):
        return not rest or word == "set"
    if last in english.FIXTURES and (word in _GRASPS or verb.kind == "put"):
        return word in _GRASPS or not rest.startswith(("in ", "on "))
    is_listing = " " in noun and not english.DETERMINER.match(noun) and not noun[-1].isdigit() and not rest
    return (
        (word == "hold" and bool(rest))
        or (word in _RESHAPES and rest.startswith("in "))
        or (verb.kind == "pick" and bool(_RANK.search(f"{noun} {rest}".lower())))
        or (verb.kind == "put" and bool(_EACH.match(rest)) and not is_plural(noun))
        or (verb.kind == "put" and is_listing and verb.imperative.startswith(_NEED_A_PLACE))
    )


_NAMED = re.compile(r"^\w+(?:'s|s')\s|(?:\d|\s[A-Z])$")  # "Anna's cup", "box A" and "obj1" have no article
_WAY = "|".join(sorted(english.DIRECTIONS))
_DIRECTION = re.compile(
    rf"^({_WAY})\s+(?=(?:the|a|an|your|this|that)\b)"
    rf"|(?<!\bthe)(?<!\bto)\s+({_WAY})$"
    rf"|\s+(?!in|over|left|right|out of|away from)({_WAY})(?=\s+(?:{english.RELATION_PATTERN.pattern}))",
    re.IGNORECASE,
)
"""Such as in "push down the lever", "slide the door open" and "pull the plate back out of the rack"."""
_PURPOSE = re.compile(
    r"^(.+?) to ((?:open|close|shut|lock|unlock|(?:turn|switch) o(?:n|ff)|move|lift|remove)\s.+)$",
    re.IGNORECASE,
)
_BUTTONS = words("button buttons key keys switch switches bell doorbell pedal")  # pressed, if one pushes them
_COVERS = words("lid cover cap top")  # things that close another
_OUTER = _COVERS | words("label sticker tape cork handle")  # things that are on a container, and not in it
_UPWARDS = words("up upward upwards")
_DOWNWARDS = words("down downward downwards")
_SIDEWAYS = words("aside sideways forward forwards backward backwards left right")
_TO_A_SIDE = ("to the left", "to the right", "towards ", "next to ", "around ")
_ALONG = words("push slide drag shove nudge sweep roll")  # along what a thing lies on, as a rule
_DIRECTED = words("push pull slide drag shove nudge tug")  # up or down; one may roll up a towel on a table
_PART = re.compile(r"on the |to the \w+ side", re.IGNORECASE)  # on the left of a table is not beside it
_ENDS = {"open": "open", "shut": "closed", "closed": "closed"}
_PARTICIPLES = {
    **dict.fromkeys(("put", "hit", "cut", "spread"), ""),
    "take": "taken", "slide": "slid", "drag": "dragged", "tug": "tugged", "sweep": "swept", "chop": "chopped",
    "scrub": "scrubbed", "draw": "drawn", "tip": "tipped", "throw": "thrown", "drop": "dropped",
    "flip": "flipped", "empty": "emptied", "tidy": "tidied",
}  # fmt: skip


def read(instruction: str) -> list[Clause]:
    """Parse an instruction to its clauses in order; empty only for an instruction without words.

    >>> [c.name for c in read("Pick up the red block and place it in the bowl, then close the drawer.")]
    ['put the red block in the bowl', 'close the drawer']
    """
    clauses: list[Clause] = []
    for text, unordered in _split(wordings.rewrite(" ".join(instruction.split()))):
        if clauses and clauses[-1].kind in ("act", "put") and _LET_GO.fullmatch(text):
            continue  # no step of its own, after "press the button" and "put it in the box"
        clause = replace(_clause(text, clauses), unordered=unordered)
        if clauses and (joined := _join(clauses[-1], clause)):
            clauses[-1] = joined
        else:
            clauses.append(clause)
    # Clauses whose common target the instruction names only once come in no order.
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


def _join(earlier: Clause, clause: Clause) -> Clause | None:
    """Join "pick up X" with what is then done with it: it is put, pulled, or a tool for another thing.

    So are "take X from Y" and "move X" with where it is put.
    """
    kinds, joined = (earlier.kind, clause.kind), None
    is_carried = earlier.name.startswith("take ") and earlier.kind == "put"
    is_carried = is_carried or (earlier.name.startswith("move ") and earlier.picked)
    if clause.object != earlier.object:
        covers = clause.name.startswith("close ") and not _COVERS.isdisjoint(earlier.object.split()[-1:])
        if kinds == ("pick", "act") and (covers or clause.means == "tool"):
            joined = replace(clause, object=earlier.object, means="tool", picked=True)
    elif kinds == ("many", "many"):
        joined = clause if earlier.name.startswith(("pick up ", "take ")) else None
    elif clause.kind == "put" and (is_carried or earlier.kind == "pick"):
        joined = replace(clause, picked=True)
    elif kinds == ("put", "put") and clause.name == f"put down {clause.object}":
        joined = earlier
    elif kinds == ("pick", "pick"):
        joined = replace(clause, picked=False)
    elif kinds == ("pick", "act"):
        joined = replace(clause, means=clause.means if clause.picked else "grasp", picked=True)
    return joined and replace(joined, understood=earlier.understood and clause.understood)


def _clause(text: str, clauses: list[Clause]) -> Clause:
    """Parse one clause; the earlier `clauses` tell what "it" is."""
    match = english.VERB_PATTERN.match(text)
    if not match:
        return _unread(text)
    verb = VERBS[match[1].lower()]
    if verb.kind == "act" and (purpose := _PURPOSE.match(text)):
        means, end = _clause(purpose[1], clauses), _clause(purpose[2], clauses)
        if PRONOUN.match(purpose[2].partition(" ")[2]):
            return means  # what opens by a handle may be another thing
        if means.understood and end.understood:
            return replace(means, name=f"{means.name} to {end.name}", state=end.state)
    it = _find_antecedent(verb, clauses)
    said, text, direction = text, text[match.end() :], ""
    if verb.kind == "put":
        text = wordings.without_source(_DOWN.sub("", text), verb.imperative.split()[0])
    if verb.kind == "act" and (named := _DIRECTION.search(text)):
        direction = next(filter(None, named.group(1, 2, 3))).lower()
        text = f"{text[: named.start()]} {text[named.end() :]}".strip()
    if verb.kind == "pick":
        text = text.removesuffix(" up")
    elif verb is VERBS["put"] and text.endswith(" down"):
        verb, text = VERBS["put down"], text.removesuffix(" down")
    noun, rest = _object_and_rest(text)
    if rest and verb.imperative == "put down {o}":
        verb = VERBS["put"]
    word, is_pronoun = match[1].lower(), bool(PRONOUN.match(noun))
    is_clear = it.is_clear(noun, rest) and not _is_ambiguous(word, verb, noun, rest)
    is_clear = is_clear and (word not in _OF_A_HELD_THING or is_pronoun or it.thing == noun)
    thing = it.thing if is_pronoun and it.thing else _with_article(noun)
    if it.thing:
        rest = re.sub(r"\b(?:it|them)$", it.thing, rest)
    if not thing:
        return _unread(said)
    clause = _make_clause(verb, thing, rest, direction)
    return replace(clause, understood=is_clear and is_noun(thing) and (not rest or english.is_place(rest)))


def _unread(text: str) -> Clause:
    """A clause that no rule reads stays word for word."""
    return Clause(text, f'"{text}" is done', "act", understood=False)


def _make_clause(verb: Verb, thing: str, rest: str, direction: str) -> Clause:
    kind, imperative, state, means = verb
    noun = thing.split()[-1]
    if imperative.startswith(("push ", "flip ")) and (direction == "down" or noun in _BUTTONS):
        means = "press"
    if kind == "pick" and singular(noun) in english.FIXTURES:
        imperative, state, kind, means = "lift {o}", "{o} has been lifted", "act", "lift"
    if means == "pull" and direction in _UPWARDS:
        means = "lift"
    way = _way(imperative.split()[0], means, rest, direction)
    tool = rest.removeprefix("with ") if kind == "act" and rest.startswith(("with the ", "with a ")) else ""
    if tool:
        means, state = "tool", state.replace(" {rest}", "")
    if "{rest}" not in imperative and (tool or (kind == "act" and (rest or direction))):
        imperative = f"{imperative} {{rest}}"
    if direction and "{rest}" in imperative:
        imperative = imperative.replace("{o}", f"{{o}} {direction}")
        state = f"{{o}} is {_ENDS[direction]}" if direction in _ENDS else state
    if kind == "put":
        imperative, rest = _plain(imperative, thing, rest)
    word = imperative.split()[0]
    participle = _PARTICIPLES.get(word, word + ("d" if word.endswith("e") else "ed")) or word
    if _is_passive(state, rest, means, direction):
        state = f"{{o}} has been {participle} {direction}"
    several = is_plural(thing)
    if state.startswith("{o} is empty") and (several or rest):
        state = f"{{o}} has been {participle} {{rest}}"
    state = state.replace("{o} have", "{o} has")
    if several:
        state = state.replace("{o} is", "{o} are").replace("{o} has", "{o} have")
    if kind in ("put", "pick") and several:
        kind = "many"
    name = imperative.format(o=thing, rest=rest).strip()
    state = _as_state(state.format(o=thing, rest=rest)).strip()
    return Clause(name, state, kind, tool or thing, several, picked=bool(tool), means=means, way=way)


def _way(word: str, means: Means, rest: str, direction: str) -> Way:
    """Tell the direction in which the hand takes the thing, by the words."""
    if word in _DIRECTED and direction in _UPWARDS | _DOWNWARDS:
        return "up" if direction in _UPWARDS else "down"
    is_aside = direction in _SIDEWAYS or rest.startswith(_TO_A_SIDE)
    is_along = word in _ALONG and not direction and not rest.startswith(("in ", "out of "))
    if means in ("push", "pull") and (is_aside or is_along):
        return "sideways"
    return "up" if means == "lift" else ""


def _is_passive(state: str, rest: str, means: Means, direction: str) -> bool:
    """Tell whether the words name no place where the thing then is: "push the button on the wall"."""
    if means == "press" and state.startswith("{o} is {rest}"):
        return True
    turned = direction and direction not in _ENDS and state.endswith((" turned {rest}", " flipped {rest}"))
    return state == "{o} is" or (not rest and (state.startswith("{o} is {rest}") or bool(turned)))


def _plain(imperative: str, thing: str, rest: str) -> tuple[str, str]:
    """Write each way of putting in one form, whatever the verb of the instruction."""
    source = rest.removeprefix("from ")
    if source != rest and " to " not in rest and rest.split()[-1].removesuffix("s") in english.CONTAINERS:
        rest = f"{'off' if thing.split()[-1] in _OUTER else 'out of'} {_with_article(source)}"
    if imperative.split()[0] in english.RELEASES and rest.startswith(("in ", "on ")):
        imperative = "put {o} {rest}"
    if imperative.split()[0] not in ("put", "move", "take"):
        return imperative, rest
    if rest.startswith(("out of", "off", "from", "away")) and " to " not in rest:
        imperative = "take {o} {rest}"
    elif rest.startswith("on ") and thing.split()[-1] == rest.split()[-1]:
        imperative = "stack {o} {rest}"
    elif rest.startswith(("in ", "on ", "at ")) and not rest.startswith("in front"):
        imperative = "put {o} {rest}"
    elif rest and imperative.startswith("put {o} {rest}"):
        imperative = "move {o} {rest}"
    return imperative, rest


def _as_state(state: str) -> str:
    """Replace words of motion, wrong in a state: "is from left to right" by "is on the right side"."""
    state = re.sub(r"\b(is|are) (?:from\b.*\b)?to (?:the )?(left|right)$", r"\1 on the \2 side", state)
    state = re.sub(r"\b(is|are) from (?=the|a|an)", r"\1 away from ", state)
    return re.sub(r"\b(is|are) to (?!the (?:left|right) of)", r"\1 at ", state)


def _object_and_rest(text: str) -> tuple[str, str]:
    """("the red block", "in the yellow bowl"): with a plain preposition and the missing articles."""
    match = english.RELATION_PATTERN.search(text)
    if not match:
        return text.strip(), ""
    target = text[match.end() :].strip()
    relation = english.RELATIONS[match[1].lower()]
    if _PART.match(match[1]) and target and singular(target.split()[-1].lower()) in english.SURFACES:
        relation = match[1].lower()
    if relation in ("in", "on", "out of", "off", "next to") or relation.endswith(" of"):
        target = _with_article(target)
    return text[: match.start()].strip(), f"{relation} {target}".strip()


def _with_article(noun: str) -> str:
    """The noun with an article, unless it has one, or is named otherwise."""
    if determiner := english.DETERMINER.match(noun):
        return determiner[0].lower() + noun[determiner.end() :]
    return noun if not noun or _NAMED.search(noun) else f"the {noun}"
