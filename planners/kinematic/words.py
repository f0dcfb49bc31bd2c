"""English verbs, prepositions and nouns, as far as the rules know them.

There is no dictionary. What may be a verb, a second clause or another language is no plain noun.
"""

import itertools
import re
from typing import Literal, NamedTuple

type VerbKind = Literal["put", "pick", "many", "act"]
type Means = Literal["grasp", "pull", "lift", "turn", "push", "press", "tool"]


def words(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


class Verb(NamedTuple):
    """The imperative of a verb and the state that it leads to: `{o}` is the object, `{rest}` what follows."""

    kind: VerbKind
    """`put` (grasp and release), `pick` (grasp only), `many` (as many grasps as it takes) or `act`."""
    imperative: str
    state: str
    means: Means = "grasp"
    """The hand's way with `{o}`.

    - `grasp`: it closes on it.
    - `pull`: it closes or hooks on it.
    - `lift`: the same, and it goes up with it, as with a lever that stays where it is.
    - `turn`: it hooks on it (a door, a knob), or pushes along with its fingers around it.
    - `push`: it meets it on its way, or pushes along with its fingers around it.
    - `press`: it goes up to it and back.
    - `tool`: it works on it with something else.
    """


RELEASES = ("drop", "throw", "toss")  # verbs of letting go, which is no putting unless the words say where
_WITH_REST: dict[Means, str] = {
    "push": "slide, push, shove, nudge, sweep, roll, knock over, tip over, topple",
    "pull": "pull, drag, tug, straighten",
    "tool": "hammer, cut, slice, chop, scoop, spread, brush, scrub, spray, paint, draw",
}
_PRESSES = {"click": "clicked", "hit": "hit", "poke": "poked", "tap": "tapped", "touch": "touched"}
_ROWS: dict[str, Verb] = {
    "put, place, set, lay, deposit, position, load, lower, store, leave, drop off": Verb(
        "put", "put {o} {rest}", "{o} is {rest}"
    ),
    "move, bring, transfer, carry, shift, relocate, return, deliver": Verb(
        "put", "move {o} {rest}", "{o} is {rest}"
    ),
    "take, remove, get, retrieve, fetch, extract, unload, collect": Verb(
        "put", "take {o} {rest}", "{o} is {rest}"
    ),
    "put down, set down, release, let go of": Verb(
        "put", "put down {o}", "{o} rests on the surface, released"
    ),
    "hang": Verb("put", "hang {o} {rest}", "{o} hangs {rest}"),
    "hook": Verb("put", "hook {o} {rest}", "{o} hangs {rest}"),
    "unplug": Verb("put", "unplug {o} {rest}", "{o} is unplugged"),
    "pick up, pick, grasp, grab, lift up, lift, raise, seize, grip, hold, take hold of, get hold of": Verb(
        "pick", "pick up {o}", "{o} is held in the gripper"
    ),
    "fold": Verb("act", "fold {o} {rest}", "{o} is folded {rest}"),
    "unfold": Verb("act", "unfold {o}", "{o} is unfolded"),
    "flip": Verb("act", "flip {o} {rest}", "{o} is flipped {rest}"),
    "open": Verb("act", "open {o}", "{o} is open", "turn"),
    "close, shut": Verb("act", "close {o}", "{o} is closed", "push"),
    "lock": Verb("act", "lock {o}", "{o} is locked", "turn"),
    "unlock": Verb("act", "unlock {o}", "{o} is unlocked", "turn"),
    "turn, rotate, twist, spin": Verb("act", "turn {o} {rest}", "{o} is turned {rest}", "turn"),
    "turn on, switch on": Verb("act", "turn on {o}", "{o} is switched on", "press"),
    "turn off, switch off": Verb("act", "turn off {o}", "{o} is switched off", "press"),
    "toggle, flip on, flip off": Verb("act", "toggle {o}", "{o} is switched", "press"),
    "wipe": Verb("act", "wipe {o} {rest}", "{o} is wiped clean {rest}", "tool"),
    "clean": Verb("act", "clean {o} {rest}", "{o} is clean", "tool"),
    "pour": Verb("act", "pour {o} {rest}", "{o} has been poured {rest}", "tool"),
    "stir": Verb("act", "stir {o} {rest}", "{o} is stirred", "tool"),
    "cover": Verb("act", "cover {o} {rest}", "{o} is covered {rest}", "tool"),
    "sort": Verb("many", "sort {o} {rest}", "{o} have been sorted {rest}"),
    "arrange": Verb("many", "arrange {o} {rest}", "{o} have been arranged {rest}"),
    "build": Verb("many", "build {o} {rest}", "{o} has been built {rest}"),
    "stow": Verb("many", "stow {o} {rest}", "{o} have been stowed {rest}"),
    "clear": Verb("many", "clear {o} {rest}", "{o} is empty {rest}"),
    "empty": Verb("many", "empty {o} {rest}", "{o} is empty {rest}"),
    "tidy": Verb("many", "tidy {o} {rest}", "{o} is tidy {rest}"),
    "unpack": Verb("many", "unpack {o} {rest}", "{o} is empty {rest}"),
    "press": Verb("act", "press {o}", "{o} is pressed", "press"),
    **{
        verb: Verb("put", f"{verb} {{o}} {{rest}}", "{o} is {rest}")
        for verb in ("stack", "insert", "put away", *RELEASES)
    },
    **{
        verb: Verb("act", f"{verb} {{o}}", f"{{o}} has been {done}", "press")
        for verb, done in _PRESSES.items()
    },
    **{
        verb: Verb("act", f"{verb} {{o}} {{rest}}", "{o} is {rest}", means)
        for means, verbs in _WITH_REST.items()
        for verb in verbs.split(", ")
    },
}
VERBS: dict[str, Verb] = {verb: row for verbs, row in _ROWS.items() for verb in verbs.split(", ")}
VERB_PATTERN = re.compile(rf"^({'|'.join(sorted(VERBS, key=len, reverse=True))})(?![\w-])\s*", re.IGNORECASE)
"""A clause that starts with a verb of the table."""

DIRECTIONS = words(
    "open shut closed in out up down back away aside sideways forward forwards backward backwards left right "
    "inward inwards outward outwards upward upwards downward downwards over"
)
"""Ways to push or pull a thing, without a preposition."""
FIXTURES = words(
    "lever handle door drawer window switch faucet tap knob valve crank blind blinds shutter gate flap hinge "
    "latch slider joystick dial"
)
"""Things that stay where they are: who lifts or takes one pulls at it."""
CONTAINERS = words(
    "bag basket bin bowl box bucket cabinet can carton case container crate cup cupboard drawer fridge glass "
    "jar microwave mug oven pan pocket pot sink toaster"
)
"""Things that one takes objects out of, rather than off."""
SURFACES = words(
    "table tabletop desk counter countertop worktop bench stove stovetop tray shelf board mat placemat rack "
    "floor ground bed sofa couch cabinet drawer sink"
)
"""Things on the left side of which something lies on them, and not beside them."""

_PLAIN = (
    "in front of, next to, in, on, out of, away from, off, from, behind, between, under, above, over, "
    "towards, against, through, around, past, near, at, with, by, to"
)
_LEFT = ("on the left side of", "to the left side of", "to the left of", "on the left of", "left of")
RELATIONS: dict[str, str] = {
    **{relation: relation for relation in _PLAIN.split(", ")},
    **dict.fromkeys(_LEFT, "to the left of"),
    **dict.fromkeys((relation.replace("left", "right") for relation in _LEFT), "to the right of"),
    **dict.fromkeys(("inside of", "inside", "into"), "in"),
    **dict.fromkeys(("on top of", "onto", "atop"), "on"),
    "off of": "off",
    "beside": "next to",
    "toward": "towards",
}
"""Preposition -> the plain one; longer ones are tried first."""
RELATION_PATTERN = re.compile(
    rf"(?<![\w-])({'|'.join(sorted(map(re.escape, RELATIONS), key=len, reverse=True))})(?![\w-])",
    re.IGNORECASE,
)

_NUMBERS = "two three four five six seven eight nine ten eleven twelve"
NUMBERS = {word: number for number, word in enumerate(_NUMBERS.split(), 2)}
_DETERMINERS = words(
    "the a an one all every each both any some another my your its their our his her this that these those "
    + _NUMBERS
)
DETERMINER = re.compile(rf"^(?:{'|'.join(sorted(_DETERMINERS))}|it|them|\d+(?=\s))\b", re.IGNORECASE)
"""The beginning of a noun that needs no article."""
_ARTICLES = words("the a my your")
_SINGLE = words("the a an my your its their our his her this that these those another")  # a noun has one
# Verbs that are things behind an article: "the lock", "the red switch".
_THINGS = words("cover hammer plug screw lock switch tap brush roll hook spray paint press stack load touch")
_ADJECTIVES = words(
    "open empty clean closed lower upper full high low wide narrow big small large long short tall fast slow "
    "straight vertical horizontal dry wet hot cold deep flat tight loose steady level even"
)
"""Before a noun, and never its last word."""
_POSTMODIFIERS = words(
    "facing standing lying sitting leaning pointing containing filled labelled labeled marked named called "
    "placed located touching closest nearest farthest furthest adjacent opposite"
)
"""Behind a noun they begin a text that no rule reads; in front of one they are adjectives."""
_SIDES = words("left right")
_OTHERS = words(
    "and or but then to from until while so which who is are was be it them him her i you we not no if when "
    "where there here anywhere somewhere everywhere elsewhere wherever "
    "with without by for at as before after again once only also please using use up down "
    "back home away forward backward sideways together apart "
    "everything something anything nothing one ones me us itself himself herself yourself themselves "
    "most half few several many much more less neither either none nor never also very too so just "
    "twice thrice times now soon later today tomorrow first last ok okay ready instead "
    "being been held having sight pairs ep eps rep "
    "near past along across around upon within below beneath beyond per via than like because unless while "
    "except excluding besides minus rest remaining others etc almost nearly halfway partway "
    "counter-clockwise anti-clockwise upright upside closer nearer "
    "further farther far couple pair dozen lot lots handful volume temperature brightness "
    "mm cm m km oz inch inches foot degree degrees kg g gram grams ml l litre litres liter liters percent "
    "seconds sec minute minutes hour hours "
    "um uh er hmm oops teh hte tha "
    # of the robot itself, and of what no hand takes
    "arm arms hand hands gripper grippers robot wrist finger fingers joint elbow effector "
    "care turn turns look picture photo order break seat step steps action task rid nap walk speed pace "
    # of those who record
    "test demo trial attempt try success successful successfully failed failure fail done episode version "
    # of other languages
    "le la les un une des du der die das den dem ein eine el los las una lo il gli det dans et und y con "
    "o os um uma il i sur dans avec sous auf mit von zum zur neben sobre em para ke di ka dalam dari "
    "dan naar op het een ved med och og till nad pod "
    "bleu vert jaune rojo azul verde amarillo rosso blu giallo rot blau gelb vermelho amarelo"
)
COLOURS = words("red orange green blue yellow black white grey brown purple pink")
_COLOURS = COLOURS - {"orange"} | {"gray"}  # that are no nouns
_GLUED = re.compile(r"(?:in|on|to|of|into|onto|and)the")  # two words of which the space is missing
_MEASURE = re.compile(
    r"\d+(?!st$|nd$|rd$|th$)[a-z]+|(?:v|ep|episode|take|trial|try|demo|test|run|seed|task)\d+|\d{3,}|\w*clockwise\w*"
)
"""Such as 10cm, v2 or clockwise90; ep12 and 00042 name recordings."""
_LY = words("jelly belly lily fly supply family")  # words in -ly that are no adverbs
_PARTICIPLE = re.compile(r"(?!.*(?:seed|weed|reed|feed|bed|shed|sled)$)\w{3,}ed")
"""Behind a noun it says how the thing is to be: "put the towel folded on the shelf"."""
_VERB_WORDS = words(" ".join(VERBS)) | words(
    "go return reach look hold release let keep make wait screw plug kick"
)
_RELATION_WORDS = words(" ".join(RELATIONS)) - {"left", "right", "top"}
_PLURAL = re.compile(
    rf"^(?:(?:all|every|each|both|these|those|them|some|{_NUMBERS.replace(' ', '|')})\b"
    r"|(?:the |\w+ )*(?!(?:thermos|lens|gas|canvas|atlas)$)"
    r"(?:\w+[^s\Wiu]s|mice|children|people|men|women|feet|teeth|dice)$)",
    re.IGNORECASE,
)
_OWN_COLOUR = re.compile(r" that (?:has|have) an? \w+ of (?:its|their) own colou?r$")
_ACROSS = re.compile(r"from (?:the )?(?:left to|right to) (?:the )?(?:left|right)(?: side)?")
_PART_OF = re.compile(r"^(on|to) the (?:left|right)(?: side)? of(?= )")
_LONGEST = 4  # adjectives and noun together


def is_noun(text: str) -> bool:
    """Tell whether a text is one plain noun, or two joined by "of".

    >>> is_noun("the small red block"), is_noun("a cup of tea"), is_noun("the nail and go home")
    (True, True, False)
    >>> is_noun("the hammer"), is_noun("hammer"), is_noun("the hammer hit")
    (True, False, False)
    """
    first, joined, second = _OWN_COLOUR.sub("", text.lower()).partition(" of ")
    return _is_simple(first) and (not joined or _is_simple(second))


def is_place(text: str) -> bool:
    """Tell whether a text is one preposition and plain nouns.

    >>> is_place("in the yellow bowl"), is_place("from the counter to the plate")
    (True, False)
    """
    text = _PART_OF.sub(r"\1", text)
    if _ACROSS.fullmatch(text):
        return True
    relations = [relation for relation in RELATIONS.values() if text.startswith(f"{relation} ")]
    if not relations:
        return False
    relation = max(relations, key=len)
    noun = text[len(relation) :].strip()
    if relation == "between":
        nouns = noun.split(" and ")
        return all(map(is_noun, nouns)) and (len(nouns) > 1 or is_plural(noun))
    return is_noun(f"{noun} corner" if noun.split()[-1].lower() in _SIDES else noun)


def is_plural(noun: str) -> bool:
    """Tell whether a noun means several things.

    >>> is_plural("the red blocks"), is_plural("each block"), is_plural("two bags of rice")
    (True, True, True)
    >>> is_plural("a glass"), is_plural("a bag of chips")
    (False, False)
    """
    return bool(_PLURAL.match(noun.partition(" of ")[0]))


def singular(noun: str) -> str:
    """The singular of a regular plural, "boxes" or "blocks"; "glass" stays."""
    return noun[:-2] if re.search(r"(?:x|ch|sh|ss)es$", noun) else re.sub(r"(?<=[^s])s$", "", noun)


def _is_simple(text: str) -> bool:
    tokens = text.split()
    if len(tokens) > 1 and tokens[0] in _ARTICLES and tokens[-1] in _THINGS:
        return len(tokens) == 2 or _is_simple(f"{' '.join(tokens[:-1])} thing")
    nouns = list(itertools.dropwhile(lambda word: word in _DETERMINERS or word.isdecimal(), tokens))
    determiners = tokens[: len(tokens) - len(nouns)]
    if not 0 < len(nouns) <= _LONGEST or nouns[-1] in _COLOURS | _ADJECTIVES | _SIDES:
        return False
    colours = [i for i, word in enumerate(nouns) if word in _COLOURS]
    # A number or a letter is the name of the last of several: "block 2", "box A".
    lettered = len(nouns) > 1 and len(nouns[-1]) == 1 and nouns[-1].isascii()
    return not (
        (len(nouns) > 1 and _PARTICIPLE.fullmatch(nouns[-1]))
        or (len(determiners) > 1 and determiners[0] in ("a", "an"))
        or len({*determiners}) < len(determiners)
        or len(_SINGLE.intersection(determiners) - {"a"}) > 1  # "the A block" is named so
        or ("both" in determiners and not is_plural(nouns[-1]))
        or _POSTMODIFIERS.intersection(nouns[1:])
        or (colours and colours[-1] - colours[0] >= len(colours))  # "red block blue bowl"
        or any(len(word) == 1 or word.isdecimal() for word in nouns[:-1])
        or any(a == b for a, b in itertools.pairwise(nouns))
        or not all(map(_is_plain, nouns[:-1] if lettered else nouns))
    )


def _is_plain(word: str) -> bool:
    if not word.isascii() or not word.replace("-", "").replace("'", "").isalnum():
        return False
    if word in _ADJECTIVES:
        return True
    if _MEASURE.fullmatch(word) or _GLUED.fullmatch(word) or (word.endswith("ly") and word not in _LY):
        return False
    return word not in _OTHERS | _VERB_WORDS | _RELATION_WORDS | _DETERMINERS
