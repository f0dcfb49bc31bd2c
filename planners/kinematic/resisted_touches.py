"""Touches that the arm's command shows: something is in the way of the hand, or of the tool that it holds.

An arm that misses its command by itself tells when something is met, and is too little to say what was done.
Where its way turns or stops there as well, two signs agree.
"""

from collections.abc import Sequence

import numpy as np

from goalreel.planners.kinematic.clause import Clause
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle
from goalreel.planners.kinematic.touches import Touch, find_bends, is_at_a_thing, is_low, works

_AGREE_S = 0.3
"""Seconds within which the arm is held back and its way turns or stops."""
_TAKEN_S = 0.5
"""Seconds after a grasp in which the thing itself may hold the arm back."""
_AWAY = 0.1
"""Share of the arm's extent by which a tool has been taken elsewhere."""
_RISEN = 0.1
"""Share of the height's range by which a hand comes down and turns upwards again."""


def find_resisted_touch(clause: Clause, motion: ArmMotion) -> Touch | None:
    """Find the only touch of a recording where the hand is held back, and turns or stops at a thing there.

    None for a lift: its way turns upwards when it begins, held back or not.
    """
    start = None if clause.means == "lift" else motion.held_back()
    if start is None or not works(motion, start, len(motion)):
        return None
    at_a_thing = (is_at_a_thing(motion, bend, 0, len(motion)) for bend in _bends_at(start, motion))
    return Touch(start, len(motion)) if any(at_a_thing) else None


def find_tool_touch(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> Touch | None:
    """Find where the tool in the hand meets a thing, and is worked with: "pull the cup with the hook".

    There the arm is held back and its way turns or stops, elsewhere than where the tool was taken.
    """
    if len(clauses) != 1 or len(grasps) != 1 or not clauses[0].understood or not clauses[0].takes_tool:
        return None
    if motion.drives or motion.closes_on_the_way(grasps[0]):
        return None
    taken, end = grasps[0].contact, len(motion) if grasps[0].let_go is None else grasps[0].let_go
    start = motion.held_back(taken + round(_TAKEN_S * motion.fps))
    if start is None or not works(motion, start, end) or not _bends_at(start, motion):
        return None
    away = np.linalg.norm(motion.path[start] - motion.path[taken])
    return Touch(start, end) if away > _AWAY * motion.extent else None


def guess_touch(clause: Clause, motion: ArmMotion) -> Touch | None:
    """Guess when the only touch of a recording begins, where at most one sign shows it.

    A lift begins where the hand turns upwards, and others where the arm first does not follow its command.
    That is good enough to cut there, and not to say what was done.
    """
    start = _turn_upwards(motion) if clause.means == "lift" else None
    if start is None:
        start = motion.held_back()
    return None if start is None else Touch(start, len(motion))


def _bends_at(frame: int, motion: ArmMotion) -> list[int]:
    """The frames near another at which the arm turns or stands."""
    return [b for b in find_bends(motion, 0, len(motion)) if abs(b - frame) <= _AGREE_S * motion.fps]


def _turn_upwards(motion: ArmMotion) -> int | None:
    """The frame at which the hand has come down to a thing, and first turns upwards."""
    if motion.height is None:
        return None
    heights, least = motion.height, _RISEN * float(np.ptp(motion.height))
    rises = heights - np.minimum.accumulate(heights) > least
    turn = int(heights[: int(rises.argmax())].argmin()) if rises.any() else 0
    came_down = heights[: turn + 1].max() - heights[turn] > least
    return turn if came_down and is_low(motion, turn, 0, len(motion)) else None
