"""The English verbs that `clauses` knows, and the state that each leads to.

`{o}` is the object with its article, `{rest}` what follows it ("in the yellow bowl").
"""

from typing import Literal, NamedTuple

type VerbKind = Literal["put", "pick", "many", "act"]
type Means = Literal["grasp", "tool", "push", "press"]


class Verb(NamedTuple):
    """The imperative of a verb, and the state that it leads to."""

    kind: VerbKind
    """`put` (grasp and release), `pick` (grasp only), `many` (as many grasps as it takes) or `act`."""
    imperative: str
    state: str
    means: Means = "grasp"
    """What the hand does to `{o}`: it closes on it, works on it with a tool, or pushes or presses it."""


_PUT = Verb("put", "put {o} {rest}", "{o} is {rest}")
_MOVE = Verb("put", "move {o} {rest}", "{o} is {rest}")
_PICK = Verb("pick", "pick up {o}", "{o} is held in the gripper")
_TAKE = Verb("put", "take {o} {rest}", "{o} is {rest}")
_CLOSE = Verb("act", "close {o}", "{o} is closed", means="push")
_TURN = Verb("act", "turn {o} {rest}", "{o} is turned {rest}", means="push")
_ON = Verb("act", "turn on {o}", "{o} is switched on", means="press")
_OFF = Verb("act", "turn off {o}", "{o} is switched off", means="press")
_DOWN = Verb("put", "put down {o}", "{o} rests on the surface, released")

VERBS: dict[str, Verb] = {
    **dict.fromkeys(("put", "place", "set", "drop", "lay", "deposit", "position"), _PUT),
    "stack": Verb("put", "stack {o} {rest}", "{o} is {rest}"),
    "insert": Verb("put", "insert {o} {rest}", "{o} is {rest}"),
    "hang": Verb("put", "hang {o} {rest}", "{o} hangs {rest}"),
    **dict.fromkeys(("move", "bring", "transfer", "carry", "shift", "relocate"), _MOVE),
    "slide": Verb("act", "slide {o} {rest}", "{o} is {rest}", means="push"),
    "push": Verb("act", "push {o} {rest}", "{o} is {rest}", means="push"),
    "pull": Verb("act", "pull {o} {rest}", "{o} is {rest}"),
    "drag": Verb("act", "drag {o} {rest}", "{o} is {rest}"),
    **dict.fromkeys(("take", "remove", "get"), _TAKE),
    **dict.fromkeys(("pick up", "pick", "grasp", "grab", "lift up", "lift"), _PICK),
    **dict.fromkeys(("put down", "set down"), _DOWN),
    "open": Verb("act", "open {o}", "{o} is open", means="push"),
    **dict.fromkeys(("close", "shut"), _CLOSE),
    "fold": Verb("act", "fold {o} {rest}", "{o} is folded {rest}"),
    "unfold": Verb("act", "unfold {o}", "{o} is unfolded"),
    "wipe": Verb("act", "wipe {o} {rest}", "{o} is wiped clean {rest}", means="tool"),
    "clean": Verb("act", "clean {o} {rest}", "{o} is clean", means="tool"),
    "pour": Verb("act", "pour {o} {rest}", "{o} has been poured {rest}", means="tool"),
    "press": Verb("act", "press {o}", "{o} is pressed", means="press"),
    **dict.fromkeys(("turn on", "switch on"), _ON),
    **dict.fromkeys(("turn off", "switch off"), _OFF),
    **dict.fromkeys(("turn", "rotate"), _TURN),
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

_CONTAINERS = (
    "bag basket bin bowl box bucket cabinet can carton case container crate cup cupboard drawer fridge glass "
    "jar microwave mug oven pan pocket pot sink toaster"
)
CONTAINERS = frozenset(_CONTAINERS.split())
"""Things that one takes objects out of, rather than off."""

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
