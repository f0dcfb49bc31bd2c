"""The English verbs that `clauses` knows, and the state that each leads to.

`{o}` is the object with its article, `{rest}` what follows it ("in the yellow bowl").
"""

import re
from typing import Literal, NamedTuple

type VerbKind = Literal["put", "pick", "many", "act"]
type Means = Literal["grasp", "pull", "lift", "turn", "push", "press", "tool"]


class Verb(NamedTuple):
    """The imperative of a verb, and the state that it leads to."""

    kind: VerbKind
    """`put` (grasp and release), `pick` (grasp only), `many` (as many grasps as it takes) or `act`."""
    imperative: str
    state: str
    means: Means = "grasp"
    """What the hand does to `{o}`.

    - `grasp`: it closes on it.
    - `pull`: it closes or hooks on it.
    - `lift`: the same, and it goes up with it, as with a lever that stays where it is.
    - `turn`: it hooks on it (a door, a knob), or pushes along with its fingers around it.
    - `push`: it meets it on its way, or pushes along with its fingers around it.
    - `press`: it goes up to it and back.
    - `tool`: it works on it with something else.
    """


_PUT = Verb("put", "put {o} {rest}", "{o} is {rest}")
_MOVE = Verb("put", "move {o} {rest}", "{o} is {rest}")
_PICK = Verb("pick", "pick up {o}", "{o} is held in the gripper")
_TAKE = Verb("put", "take {o} {rest}", "{o} is {rest}")
_CLOSE = Verb("act", "close {o}", "{o} is closed", means="push")
_SWITCH = Verb("act", "toggle {o}", "{o} is switched", means="press")
_TURN = Verb("act", "turn {o} {rest}", "{o} is turned {rest}", means="turn")
_ON = Verb("act", "turn on {o}", "{o} is switched on", means="press")
_OFF = Verb("act", "turn off {o}", "{o} is switched off", means="press")
_DOWN = Verb("put", "put down {o}", "{o} rests on the surface, released")

_PUSHES = ("slide", "push", "shove", "nudge", "sweep", "roll", "knock over", "tip over", "topple")
RELEASES = ("drop", "throw", "toss")
"""Verbs of letting go, which is no putting unless the words say where."""
_PULLS = ("pull", "drag", "tug", "straighten")
_PRESSES = {
    "press": "is pressed",
    "click": "has been clicked",
    "hit": "has been hit",
    "poke": "has been poked",
    "tap": "has been tapped",
    "touch": "has been touched",
}
_TOOLS = ("hammer", "cut", "slice", "chop", "scoop", "spread", "brush", "scrub", "spray", "paint", "draw")

VERBS: dict[str, Verb] = {
    **dict.fromkeys(("put", "place", "set", "lay", "deposit", "position", "load"), _PUT),
    **{verb: Verb("put", f"{verb} {{o}} {{rest}}", "{o} is {rest}") for verb in RELEASES},
    "stack": Verb("put", "stack {o} {rest}", "{o} is {rest}"),
    "insert": Verb("put", "insert {o} {rest}", "{o} is {rest}"),
    "hang": Verb("put", "hang {o} {rest}", "{o} hangs {rest}"),
    **dict.fromkeys(("move", "bring", "transfer", "carry", "shift", "relocate"), _MOVE),
    **{verb: Verb("act", f"{verb} {{o}} {{rest}}", "{o} is {rest}", means="push") for verb in _PUSHES},
    **{verb: Verb("act", f"{verb} {{o}} {{rest}}", "{o} is {rest}", means="pull") for verb in _PULLS},
    **{verb: Verb("act", f"{verb} {{o}} {{rest}}", "{o} is {rest}", means="tool") for verb in _TOOLS},
    **{verb: Verb("act", f"{verb} {{o}}", f"{{o}} is {verb}ed", means="turn") for verb in ("lock", "unlock")},
    **{
        verb: Verb("act", f"{verb} {{o}}", f"{{o}} {state}", means="press")
        for verb, state in _PRESSES.items()
    },
    **dict.fromkeys(("toggle", "flip on", "flip off"), _SWITCH),
    "unplug": Verb("put", "unplug {o} {rest}", "{o} is unplugged"),
    "hook": Verb("put", "hook {o} {rest}", "{o} hangs {rest}"),
    **dict.fromkeys(("take", "remove", "get", "retrieve", "fetch", "extract"), _TAKE),
    **dict.fromkeys(("pick up", "pick", "grasp", "grab", "lift up", "lift", "raise", "seize"), _PICK),
    **dict.fromkeys(("put down", "set down"), _DOWN),
    "open": Verb("act", "open {o}", "{o} is open", means="turn"),
    **dict.fromkeys(("close", "shut"), _CLOSE),
    "fold": Verb("act", "fold {o} {rest}", "{o} is folded {rest}"),
    "unfold": Verb("act", "unfold {o}", "{o} is unfolded"),
    "wipe": Verb("act", "wipe {o} {rest}", "{o} is wiped clean {rest}", means="tool"),
    "clean": Verb("act", "clean {o} {rest}", "{o} is clean", means="tool"),
    "pour": Verb("act", "pour {o} {rest}", "{o} has been poured {rest}", means="tool"),
    **dict.fromkeys(("turn on", "switch on"), _ON),
    **dict.fromkeys(("turn off", "switch off"), _OFF),
    **dict.fromkeys(("turn", "rotate", "twist", "spin"), _TURN),
    "flip": Verb("act", "flip {o} {rest}", "{o} is flipped {rest}"),
    "stir": Verb("act", "stir {o} {rest}", "{o} is stirred", means="tool"),
    "cover": Verb("act", "cover {o} {rest}", "{o} is covered {rest}", means="tool"),
    "sort": Verb("many", "sort {o} {rest}", "{o} have been sorted {rest}"),
    "arrange": Verb("many", "arrange {o} {rest}", "{o} have been arranged {rest}"),
    "build": Verb("many", "build {o} {rest}", "{o} has been built {rest}"),
    "stow": Verb("many", "stow {o} {rest}", "{o} have been stowed {rest}"),
    "clear": Verb("many", "clear {o} {rest}", "{o} is empty {rest}"),
    "empty": Verb("many", "empty {o} {rest}", "{o} is empty {rest}"),
    "tidy": Verb("many", "tidy {o} {rest}", "{o} is tidy {rest}"),
    "unpack": Verb("many", "unpack {o} {rest}", "{o} is empty {rest}"),
}
VERB_PATTERN = re.compile(rf"^({'|'.join(sorted(VERBS, key=len, reverse=True))})(?![\w-])\s*", re.IGNORECASE)
"""A clause that starts with a verb of the table."""

_DIRECTIONS = (
    "open shut closed in out up down back away aside sideways forward forwards backward backwards left right "
    "inward inwards outward outwards upward upwards downward downwards over"
)
DIRECTIONS = frozenset(_DIRECTIONS.split())
"""Where a thing is pushed or pulled, without a preposition."""

_FIXTURES = (
    "lever handle door drawer window switch faucet tap knob valve crank blind blinds shutter gate flap hinge "
    "latch slider joystick dial"
)
FIXTURES = frozenset(_FIXTURES.split())
"""Things that stay where they are: who lifts or takes one pulls at it."""

_CONTAINERS = (
    "bag basket bin bowl box bucket cabinet can carton case container crate cup cupboard drawer fridge glass "
    "jar microwave mug oven pan pocket pot sink toaster"
)
CONTAINERS = frozenset(_CONTAINERS.split())
"""Things that one takes objects out of, rather than off."""

_SURFACES = (
    "table tabletop desk counter countertop worktop bench stove stovetop tray shelf board mat placemat rack "
    "floor ground bed sofa couch cabinet drawer sink"
)
SURFACES = frozenset(_SURFACES.split())
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
