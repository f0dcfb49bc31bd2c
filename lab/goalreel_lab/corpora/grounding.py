"""Changes between two layouts, and a Critic's words for them: places first, then faults, then a better order.

A place is a cell of 3 cm: `c0` .. from the left, `r0` .. from the back, as the front camera sees the table.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goalreel.tabletop.grammar import state_of
from goalreel.tabletop.scene import (
    COLOURS,
    SceneLayout,
    SubGoal,
    colour,
    displacement,
    inside,
    is_bowl,
    on,
    shows,
)
from goalreel.types import Verdict
from goalreel_lab.corpora.prompts import explicit, sentence, zone

DISTURBED = 0.02
"""Least shift of a thing that has moved (m)."""
CELL = 0.03
COLUMNS, ROWS = 22, 14
AT_WORK = "The arm is not away."
_LEFT, _BACK = -0.33, 0.31
_CLOSE = 0.14
"""A block this near to its wanted place just misses it (m)."""


@dataclass(frozen=True)
class Change:
    """Changes that a picture shows against the one before. Names are in the order of the layout before."""

    reached: bool
    """The sub-goal holds."""
    moved: tuple[str, ...]
    gone: tuple[str, ...]
    misshapen: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    """Things that the arm hides."""
    away: bool = True
    """The arm is out of the way, and its hand is empty."""

    def success(self, goal: SubGoal) -> bool:
        """Tell whether the sub-goal holds, all else is as it was, and the arm is out of the way."""
        whole = not self.gone and not self.misshapen
        return self.reached and not self.others(goal) and whole and self.away

    def others(self, goal: SubGoal) -> tuple[str, ...]:
        """Name the objects that moved and should not have."""
        return tuple(name for name in self.moved if name != goal.object)


def compare(
    layout_before: SceneLayout, now: SceneLayout, goal: SubGoal, misshapen: Sequence[str] = ()
) -> Change:
    """Compare two layouts; an object left out of `now` is gone."""
    both = [name for name in layout_before if name in now]
    return Change(
        reached=goal.object in now and goal.target in now and shows(now, goal),
        moved=tuple(n for n in both if displacement(now, layout_before, n) > DISTURBED),
        gone=tuple(n for n in layout_before if n not in now),
        misshapen=tuple(misshapen),
    )


def verdict_of(
    layout_before: SceneLayout, now: SceneLayout, after: SceneLayout, goal: SubGoal, change: Change
) -> Verdict:
    """Write the Critic's true answer; `after` is the layout wanted.

    A rejection carries an explicit order. While the arm is at work there is nothing to mend, and the
    rejection only says so.
    """
    if not change.away:
        return Verdict(success=False, reasoning=f"{_places(layout_before, now, change)} {AT_WORK}")
    if change.success(goal):
        text = f"{_places(layout_before, now, change)} {sentence(state_of(goal))} {_ELSE}"
        return Verdict(success=True, reasoning=text)
    faults = (fault for fault, _ in _faults(now, after, goal, change))
    return Verdict(
        success=False,
        reasoning=" ".join([_places(layout_before, now, change), *faults]),
        refined_prompt=explicit(goal, layout_before, after, advice(now, after, goal, change)),
    )


def whole_verdict(
    layout_before: SceneLayout, now: SceneLayout, after: SceneLayout, goals: Sequence[SubGoal], change: Change
) -> Verdict:
    """Write the true answer about a frame at the end of a whole task, for each sub-goal in turn.

    Of several sub-goals of one block the last counts. `change` is what happened since `layout_before`, the
    layout at the task's start. `after` is the target layout. A rejection has no order: no picture is redrawn.
    """
    places = _places(layout_before, now, change)
    if not change.away:
        return Verdict(success=False, reasoning=f"{places} {AT_WORK}")
    goal_of = {goal.object: goal for goal in goals}
    missed = {g: _missed(now, after, block, change)[0] for block, g in goal_of.items() if not shows(now, g)}
    sentences = [missed.get(goal) or sentence(state_of(goal)) for goal in goal_of.values()]
    moved = [fault for fault, _ in _touched([name for name in change.moved if name not in goal_of])]
    success = not missed and not moved
    text = " ".join([places, *sentences, *moved, *([_ELSE] if success else [])])
    return Verdict(success=success, reasoning=text)


def advice(now: SceneLayout, after: SceneLayout, goal: SubGoal, change: Change) -> str:
    """Say in sentences what to mind when a picture is drawn again; `after` is the layout wanted."""
    return " ".join(against for _, against in _faults(now, after, goal, change))


def warnings_for(goal: SubGoal, others: Sequence[str], start: NDArray[np.float64]) -> list[str]:
    """List every warning that an order may carry: about the block itself, and about each of the others."""
    templates = [_REALLY.format(goal.object), _SHAPE.format(goal.object), _LOSE.format(goal.object)]
    about = [form.format(name) for name in others for form in (_STAY, _LOSE, _SHAPE)]
    return [*templates, _NOT_AT.format(zone(start)), *about]


_ELSE = "All else is as it was."
_REALLY = "Really move the {}."
_SHAPE = "Keep the shape of the {}."
_LOSE = "Do not lose the {}."
_STAY = "Do not move the {}."
_NOT_AT = "It must not stay at the {}."
_NEAR = "Go all the way: it only just missed."


def _faults(now: SceneLayout, after: SceneLayout, goal: SubGoal, change: Change) -> list[tuple[str, str]]:
    """Say every fault of a picture, each with the advice against it."""
    block = goal.object
    faults = [(f"The {name} is gone.", _LOSE.format(name)) for name in change.gone]
    faults += [(f"The {name} is misshapen.", _SHAPE.format(name)) for name in change.misshapen]
    if not change.reached and block in now:
        faults.append(_missed(now, after, block, change))
    return faults + _touched(change.others(goal))


def _missed(now: SceneLayout, after: SceneLayout, block: str, change: Change) -> tuple[str, str]:
    """Say what is wrong with a block that misses its place, and the advice against it."""
    if block not in change.moved:
        return f"The {block} did not move.", _REALLY.format(block)
    if displacement(now, after, block) < _CLOSE:
        return f"The {block} only just misses its place.", _NEAR
    return f"The {block} is in the wrong place.", _NOT_AT.format(zone(now[block]))


def _touched(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(f"The {name} was moved.", _STAY.format(name)) for name in names]


def _places(layout_before: SceneLayout, now: SceneLayout, change: Change) -> str:
    """Say `red block c3 r5 -> c9 r4 in blue bowl; green block c1 r1 stays.`, blocks first, by colour."""
    sentences = (
        f"{name} {place(layout_before, name)} {_fate(now, name, change)}" for name in in_order(layout_before)
    )
    return "; ".join(sentences) + "."


def in_order(names: Iterable[str]) -> list[str]:
    """Sort names as they are told: blocks first, in the order of colours."""
    return sorted(names, key=lambda name: (is_bowl(name), list(COLOURS).index(colour(name))))


def _fate(now: SceneLayout, name: str, change: Change) -> str:
    if name in change.gone:
        return "gone"
    if name in (*change.held, *change.hidden):
        return "held" if name in change.held else "hidden"
    where = f"-> {place(now, name)}" if name in change.moved else "stays"
    return f"{where}, misshapen" if name in change.misshapen else where


def place(layout: SceneLayout, name: str) -> str:
    """Name the cell, and what the block is in or on, such as `c9 r4 in blue bowl`."""
    x, y, _ = layout[name]
    column = int(np.clip((y - _LEFT) // CELL, 0, COLUMNS - 1))
    row = int(np.clip((x - _BACK) // CELL, 0, ROWS - 1))
    return f"c{column} r{row}{_support(layout, name)}"


def _support(layout: SceneLayout, name: str) -> str:
    if is_bowl(name):
        return ""
    for other in layout:
        if is_bowl(other) and inside(layout, name, other):
            return f" in {other}"
        if other != name and not is_bowl(other) and on(layout, name, other):
            return f" on {other}"
    return ""
