"""Held-out compositions: colour and place pairs, and kinds of sub-goal right after certain others.

Fixed for ever, as the splits are. A training seed whose episode has any of these gives no rows; a row of
another split carries their names, so that results on them are reported apart.
"""

from collections.abc import Sequence

from goalreel.tabletop.scene import SubGoal
from goalreel.tabletop.splits import split_of

PAIRS: dict[SubGoal, str] = {
    SubGoal("inside", "red block", "blue bowl"): "red block in blue bowl",
    SubGoal("inside", "yellow block", "purple bowl"): "yellow block in purple bowl",
    SubGoal("on", "green block", "orange block"): "green block on orange block",
}
FOLLOWS: dict[tuple[str, str], str] = {
    ("on", "out_of"): "out of after on",
    ("left_of", "behind"): "behind after left of",
    ("out_of", "in_front_of"): "in front of after out of",
}
"""(Kind, the kind of the next sub-goal) -> name."""
NAMES = (*PAIRS.values(), *FOLLOWS.values())


def held_out(goals: Sequence[SubGoal]) -> tuple[str, ...]:
    """Name the held-out compositions in a sequence of sub-goals, each once, in the order of NAMES."""
    names = {name for i in range(len(goals)) for name in held_out_step(goals, i)}
    return tuple(name for name in NAMES if name in names)


def held_out_step(goals: Sequence[SubGoal], index: int) -> tuple[str, ...]:
    """Name those that sub-goal `index` completes, by itself or right after the one before."""
    names = [PAIRS[goals[index]]] if goals[index] in PAIRS else []
    pair = (goals[index - 1].kind, goals[index].kind) if index else None
    return (*names, FOLLOWS[pair]) if pair in FOLLOWS else tuple(names)


def skipped(seed: int, goals: Sequence[SubGoal]) -> bool:
    """Tell whether an episode gives no rows: it is for training and has a held-out composition.

    Raises:
        ValueError: the seed belongs to no split.
    """
    return split_of(seed) == "train" and bool(held_out(goals))
