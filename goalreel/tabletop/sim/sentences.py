"""The words of the tabletop: sub-goals as states, orders and instructions, and back."""

import re
from collections.abc import Mapping, Sequence

from goalreel.errors import InputError
from goalreel.tabletop.sim.phrases import PARAPHRASES
from goalreel.tabletop.sim.predicates import KINDS, TEXTS, GoalKind, SubGoal
from goalreel.tabletop.sim.scene import is_bowl

STATES = {
    "inside": "the {object} is in the {target}",
    "on": "the {object} is on top of the {target}",
    "left_of": "the {object} is to the left of the {target}",
    "right_of": "the {object} is to the right of the {target}",
    "in_front_of": "the {object} is in front of the {target}",
    "behind": "the {object} is behind the {target}",
    "out_of": "the {object} is out of the {target}",
}
"""What is true once a sub-goal is reached."""

_JOINTS = re.compile(r"first|then|and|finally|[\s,;.]+", re.IGNORECASE)
_THING = r"[a-z]+ (?:block|bowl)"

type Templates = Mapping[GoalKind, Sequence[str]]

_ORDERS: Templates = {kind: [TEXTS[kind]] for kind in KINDS}
_WANTED: Templates = {kind: [STATES[kind]] for kind in KINDS}
_CLAUSES: Templates = {kind: [t for t in PARAPHRASES[kind] if "{object}" in t] for kind in KINDS}


def state_of(goal: SubGoal) -> str:
    """Say the state that a sub-goal brings about, as a clause: `the red block is in the blue bowl`."""
    return STATES[goal.kind].format(object=goal.object, target=goal.target)


def order_of(goal: SubGoal, names: Sequence[str], warning: str = "") -> str:
    """Write the order to an image editor; `names` are all things on the table."""
    others = ", ".join(f"the {name}" for name in names if name != goal.object)
    return (
        f"{goal.text[0].upper()}{goal.text[1:]}. {warning}The arm ends up empty and out of the way. "
        f"Nothing else changes: {others}, the table, the background, the camera and the light."
    )


def read_order(prompt: str, names: Sequence[str]) -> SubGoal:
    """Read the sub-goal that an order begins with.

    Raises:
        InputError: it names none, or one that this table cannot have.
    """
    goals, _ = _search(prompt.partition(".")[0], _ORDERS)
    if len(goals) != 1:
        raise InputError(
            f"not an order for one block, such as 'put the red block in the blue bowl': {prompt!r}"
        )
    return _checked(goals[0], names)


def read_wanted(text: str, names: Sequence[str]) -> list[SubGoal]:
    """Read the sub-goals of which a wanted state, or an instruction, speaks.

    Raises:
        InputError: it has a part that is neither, or things that this table does not have.
    """
    for templates in (_WANTED, _CLAUSES):
        goals, rest = _search(text, templates)
        if goals and not _JOINTS.sub("", rest):
            return [_checked(goal, names) for goal in goals]
    raise InputError(f"this table offers {', '.join(names)}; cannot make out {text!r}")


def read_goals(text: str) -> list[SubGoal]:
    """Read every sub-goal that a text asks for or states, in order; empty where it speaks of none."""
    return _search(text, _CLAUSES)[0] or _search(text, _WANTED)[0]


def _search(text: str, templates: Templates) -> tuple[list[SubGoal], str]:
    """Find every clause in the order of the text, and what is left of the text without them."""
    goals: dict[int, SubGoal] = {}
    for kind, phrases in templates.items():
        for phrase in phrases:
            pattern = phrase.format(object=f"(?P<object>{_THING})", target=f"(?P<target>{_THING})")
            clause = re.compile(rf"\b{pattern}\b", re.IGNORECASE)
            for match in clause.finditer(text):
                goals[match.start()] = SubGoal(kind, match["object"].lower(), match["target"].lower())
            text = clause.sub(lambda m: " " * len(m[0]), text)
    return [goals[start] for start in sorted(goals)], text


def _checked(goal: SubGoal, names: Sequence[str]) -> SubGoal:
    for name in (goal.object, goal.target):
        if name not in names:
            raise InputError(f"there is no {name} here, but: {', '.join(names)}")
    needs_bowl = goal.kind in ("inside", "out_of")
    fits = is_bowl(goal.target) if needs_bowl else goal.kind != "on" or not is_bowl(goal.target)
    if is_bowl(goal.object) or goal.object == goal.target or not fits:
        raise InputError(f"cannot {goal.text}: only blocks move, into bowls, onto blocks or beside either")
    return goal
