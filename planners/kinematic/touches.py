"""Contact without a closing hand: where the arm turns or stops against something, and comes from above.

A hand that pushes, presses or opens a door changes no shape that tells of it. What tells is the way: it goes
to the thing, turns or stands there, and works on without rising. Without a height nothing of it is seen.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.clauses import Clause
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle

_REACH_S = 0.3
"""Seconds before and after a frame that give the directions of the way."""
_APART_S = 0.5
"""Seconds within which there is one turn or stop."""
_TURN = 0.5
"""Cosine of the least turn, 60 degrees."""
_STANDS = 0.3
"""Share of the arm's usual speed below which it stands."""
_SHORT = 0.02
"""Share of the arm's extent below which a way has no direction."""
_WAY = 0.1
"""Share of the arm's extent that a hand goes, at least, to push or to open something."""
_LOW = 1 / 3
"""Share of the heights at most at which the hand works."""
_RISEN = 0.05
"""Share of the height's range above which the arm has come from below, or goes up."""


@dataclass(frozen=True, slots=True)
class Touch:
    """A contact without a grasp."""

    start: int | None
    """The frame at which the hand is at the thing; None where it presses on in the direction it came from."""
    end: int
    """The frame from which it leaves; the end of the span if it does not."""


def explain(
    clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion
) -> list[Cycle | Touch] | None:
    """One contact for each clause, in order, where some clause is an act and nothing else fits as well.

    A put, a pick, a pull or a fold needs a grasp, a push or an opened door a touch; None where there are more
    or fewer, and for what needs a tool.
    """
    if all(c.kind != "act" for c in clauses) or not all(map(_is_plain, clauses)):
        return None
    gripped = [clause.means == "grasp" for clause in clauses]
    if sum(gripped) != len(grasps):
        return None
    contacts: list[Cycle | Touch] = []
    rest, start = list(grasps), 0
    for is_grasp, run in itertools.groupby(gripped):
        count = len(list(run))
        if is_grasp:
            contacts += rest[:count]
            start = len(motion) if (free := rest[count - 1].free) is None else free
            del rest[:count]
        else:
            touches = find_touches(motion, start, rest[0].grasp if rest else len(motion))
            if len(touches) != count:
                return None
            contacts += touches
    return contacts


def _is_plain(clause: Clause) -> bool:
    """Whether a rule has read one thing to do, without a tool."""
    is_one = clause.understood and not clause.unordered and clause.kind != "many"
    return is_one and clause.means != "tool" and " with " not in clause.name


def find_touches(motion: ArmMotion, start: int, end: int) -> list[Touch]:
    """Find the touches within [start, end), which are apart where the arm rises in between."""
    touches: list[Touch] = []
    first = last = None
    bends = _bends(motion, start, end)
    for frame in bends:
        if _comes_from_below(motion, start, frame):
            if first is not None and _works(motion, first, frame):
                touches.append(Touch(first, frame if last is None else last))
            first = last = None
        elif frame == bends[-1] and _leaves(motion, frame, end):
            is_start = first is not None and _works(motion, first, frame)
            return [*touches, Touch(first if is_start else None, frame)]
        elif first is not None:
            last = frame
        elif _is_at_a_thing(motion, frame, start, end):
            first = frame
    return [*touches, Touch(first, end)] if first is not None and _works(motion, first, end) else touches


def _works(motion: ArmMotion, start: int, end: int) -> bool:
    """Whether the hand goes some way from where it is at the thing."""
    away = np.linalg.norm(motion.path[start:end] - motion.path[start], axis=1)
    return bool(away.max(initial=0.0) > _WAY * motion.extent)


def _bends(motion: ArmMotion, start: int, end: int) -> list[int]:
    """The frames at which the arm turns or stands on its way through [start, end), in order."""
    usual = float(np.percentile(motion.speed, 80)) if len(motion) else 0.0
    moving = start + np.flatnonzero(motion.speed[start:end] > _STANDS * usual)
    if motion.height is None or not len(moving):
        return []
    near = max(2, round(_REACH_S * motion.fps))
    sharpness = np.maximum(_turns(motion, near), np.where(motion.speed < _STANDS * usual, 1.0, 0.0))
    found: list[int] = []
    for frame in np.argsort(-sharpness, kind="stable"):
        is_inside = moving[0] + near <= frame < moving[-1] - 1
        if sharpness[frame] < 1 - _TURN:
            break
        if is_inside and all(abs(frame - other) > _APART_S * motion.fps for other in found):
            found.append(int(frame))
    return sorted(found)


def _turns(motion: ArmMotion, near: int) -> NDArray[np.float64]:
    """1 minus the cosine of the turn at each frame: 0 straight on, 1 for 90 degrees, 2 for a return."""
    turns = np.zeros(len(motion))
    if len(motion) <= 2 * near:
        return turns
    before = motion.path[near:-near] - motion.path[: -2 * near]
    after = motion.path[2 * near :] - motion.path[near:-near]
    first, second = np.linalg.norm(before, axis=1), np.linalg.norm(after, axis=1)
    is_long = np.minimum(first, second) > _SHORT * motion.extent
    product = np.where(is_long, first * second, 1.0)
    turns[near:-near] = np.where(is_long, 1 - (before * after).sum(axis=1) / product, 0.0)
    return turns


def _comes_from_below(motion: ArmMotion, start: int, frame: int) -> bool:
    if motion.height is None:
        return False
    before = motion.height[max(start, frame - round(_APART_S * motion.fps)) : frame + 1]
    return bool(motion.height[frame] - before.min() > _RISEN * np.ptp(motion.height))


def _is_at_a_thing(motion: ArmMotion, frame: int, start: int, end: int) -> bool:
    """Whether the hand is as low as it goes to work, and no longer on its way down."""
    if motion.height is None:
        return False
    heights, height = motion.height[start:end], motion.height[frame]
    after = motion.height[frame : min(end, frame + round(_APART_S * motion.fps) + 1)]
    is_low = height - heights.min() <= _LOW * np.ptp(heights)
    return bool(is_low and height - after.min() <= _RISEN * np.ptp(motion.height))


def _leaves(motion: ArmMotion, frame: int, end: int) -> bool:
    """Whether the arm goes up from a frame until `end`."""
    return motion.height is not None and bool(
        motion.height[end - 1] - motion.height[frame] > _RISEN * np.ptp(motion.height)
    )
