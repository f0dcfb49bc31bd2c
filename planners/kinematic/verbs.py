"""The English verbs that `clauses` knows, and the state that each leads to.

`{o}` is the object with its article, `{rest}` what follows it ("in the yellow bowl").
"""

from typing import Literal, NamedTuple

type VerbKind = Literal["put", "pick", "many", "act"]


class Verb(NamedTuple):
    """The imperative of a verb, and the state that it leads to."""

    kind: VerbKind
    """`put` (grasp and release), `pick` (grasp only), `many` (as many grasps as it takes) or `act`."""
    imperative: str
    state: str
    grasped: bool = True
    """Whether the hand closes on `{o}` itself, rather than on a tool or nothing."""


_PUT = Verb("put", "put {o} {rest}", "{o} is {rest}")
_MOVE = Verb("put", "move {o} {rest}", "{o} is {rest}")
_PICK = Verb("pick", "pick up {o}", "{o} is held in the gripper")
_TAKE = Verb("put", "take {o} {rest}", "{o} is {rest}")
_CLOSE = Verb("act", "close {o}", "{o} is closed")
_ON = Verb("act", "turn on {o}", "{o} is switched on")
_OFF = Verb("act", "turn off {o}", "{o} is switched off")
_DOWN = Verb("put", "put down {o}", "{o} rests on the surface, released")

VERBS: dict[str, Verb] = {
    "put": _PUT,
    "place": _PUT,
    "set": _PUT,
    "drop": _PUT,
    "lay": _PUT,
    "deposit": _PUT,
    "position": _PUT,
    "stack": Verb("put", "stack {o} {rest}", "{o} is {rest}"),
    "insert": Verb("put", "insert {o} {rest}", "{o} is {rest}"),
    "hang": Verb("put", "hang {o} {rest}", "{o} hangs {rest}"),
    "move": _MOVE,
    "bring": _MOVE,
    "transfer": _MOVE,
    "carry": _MOVE,
    "shift": _MOVE,
    "relocate": _MOVE,
    "slide": Verb("act", "slide {o} {rest}", "{o} is {rest}"),
    "push": Verb("act", "push {o} {rest}", "{o} is {rest}"),
    "pull": Verb("act", "pull {o} {rest}", "{o} is {rest}"),
    "drag": Verb("act", "drag {o} {rest}", "{o} is {rest}"),
    "take": _TAKE,
    "remove": _TAKE,
    "get": _TAKE,
    "pick up": _PICK,
    "pick": _PICK,
    "grasp": _PICK,
    "grab": _PICK,
    "lift up": _PICK,
    "lift": _PICK,
    "put down": _DOWN,
    "set down": _DOWN,
    "open": Verb("act", "open {o}", "{o} is open"),
    "close": _CLOSE,
    "shut": _CLOSE,
    "fold": Verb("act", "fold {o} {rest}", "{o} is folded {rest}"),
    "unfold": Verb("act", "unfold {o}", "{o} is unfolded"),
    "wipe": Verb("act", "wipe {o} {rest}", "{o} is wiped clean {rest}", grasped=False),
    "clean": Verb("act", "clean {o} {rest}", "{o} is clean", grasped=False),
    "pour": Verb("act", "pour {o} {rest}", "{o} has been poured {rest}", grasped=False),
    "press": Verb("act", "press {o}", "{o} is pressed", grasped=False),
    "turn on": _ON,
    "switch on": _ON,
    "turn off": _OFF,
    "switch off": _OFF,
    "turn": Verb("act", "turn {o} {rest}", "{o} is turned {rest}"),
    "rotate": Verb("act", "turn {o} {rest}", "{o} is turned {rest}"),
    "flip": Verb("act", "flip {o} {rest}", "{o} is flipped {rest}"),
    "stir": Verb("act", "stir {o} {rest}", "{o} is stirred", grasped=False),
    "cover": Verb("act", "cover {o} {rest}", "{o} is covered {rest}", grasped=False),
    "sort": Verb("many", "sort {o} {rest}", "{o} have been sorted {rest}"),
    "arrange": Verb("many", "arrange {o} {rest}", "{o} have been arranged {rest}"),
    "build": Verb("many", "build {o} {rest}", "{o} has been built {rest}"),
    "stow": Verb("many", "stow {o} {rest}", "{o} have been stowed {rest}"),
    "clear": Verb("many", "clear {o} {rest}", "{o} is empty {rest}"),
    "empty": Verb("many", "empty {o} {rest}", "{o} is empty {rest}"),
    "tidy": Verb("many", "tidy {o} {rest}", "{o} is tidy {rest}"),
    "unpack": Verb("many", "unpack {o} {rest}", "{o} is empty {rest}"),
}

CONTAINERS = frozenset(
    (
        "bag",
        "basket",
        "bin",
        "bowl",
        "box",
        "bucket",
        "cabinet",
        "can",
        "carton",
        "case",
        "container",
        "crate",
        "cup",
        "cupboard",
        "drawer",
        "fridge",
        "glass",
        "jar",
        "microwave",
        "mug",
        "oven",
        "pan",
        "pocket",
        "pot",
        "sink",
        "toaster",
    )
)
"""Things that one takes objects out of, rather than off."""

RELATIONS: dict[str, str] = {
    "on the left side of": "to the left of",
    "on the right side of": "to the right of",
    "to the left side of": "to the left of",
    "to the right side of": "to the right of",
    "to the left of": "to the left of",
    "to the right of": "to the right of",
    "on the left of": "to the left of",
    "on the right of": "to the right of",
    "left of": "to the left of",
    "right of": "to the right of",
    "in front of": "in front of",
    "on top of": "on",
    "next to": "next to",
    "inside of": "in",
    "inside": "in",
    "into": "in",
    "in": "in",
    "onto": "on",
    "atop": "on",
    "on": "on",
    "out of": "out of",
    "away from": "away from",
    "off of": "off",
    "off": "off",
    "from": "from",
    "beside": "next to",
    "behind": "behind",
    "between": "between",
    "under": "under",
    "above": "above",
    "over": "over",
    "towards": "towards",
    "toward": "towards",
    "against": "against",
    "through": "through",
    "with": "with",
    "by": "by",
    "to": "to",
}
"""Preposition -> the plain one; longer ones are tried first."""
