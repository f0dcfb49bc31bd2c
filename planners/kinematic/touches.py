"""Contact without a closing hand: where the arm turns or stops against something, and comes from above.

A hand that pushes, presses or opens a door changes no shape that tells of it. What tells is the way: it goes
to the thing, turns or stands there, and works on without rising. Without a height nothing of it is seen.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.clause import Clause
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle
from goalreel.planners.kinematic.verbs import Means

_REACH_S = 0.3
"""Seconds before and after a frame that give the directions of the way."""
_PRESS_S = 0.5
"""Seconds that a press takes, until the hand stops or turns back."""
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
_DRAG = 0.15
"""Share of the height's range that a hand which drags rises at most."""
_LOW = 1 / 3
"""Share of the heights at most at which the hand works."""
_STILL_DOWN = 0.18
"""Share of its last descent that a hand may still go down when it is at the thing."""
_RISEN = 0.05
"""Share of the height's range above which the arm has come from below, or goes up."""


@dataclass(frozen=True, slots=True)
class Touch:
    """A contact without a grasp."""

    start: int | None
    """The frame at which the hand is at the thing; None where it presses on in the direction it came from."""
    end: int
    """The frame from which it leaves; the end of the span if it does not."""

    def contains(self, frame: int) -> bool:
        """Whether the hand is at the thing in a frame."""
        return self.start is not None and self.start <= frame < self.end


def explain(
    clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion
) -> list[Cycle | Touch] | None:
    """One contact for each clause, in order, where some clause is an act and nothing else fits as well.

    A put, a pick or a fold needs a grasp, a pull a grasp or a touch, and a push or an opened door a touch, or
    a grasp that drags; None where there are more or fewer, and for what needs a tool.
    """
    if all(c.kind != "act" for c in clauses) or not all(map(_is_plain, clauses)):
        return None
    if len(grasps) == len(clauses) and all(map(_takes, clauses, grasps, itertools.repeat(motion))):
        pairs = zip(clauses, grasps, strict=True)
        return [g if c.grasps or c.pulls else _drag(g, motion) for c, g in pairs]
    if all(c.means == "press" for c in clauses):
        touches = find_presses(motion, 0, len(motion))
        squeezed = all(any(t.contains(g.contact) for t in touches) for g in grasps)
        return [*touches] if squeezed and len(touches) == len(clauses) else None
    if sum(clause.grasps for clause in clauses) != len(grasps):
        return None
    contacts: list[Cycle | Touch] = []
    rest, start = list(grasps), 0
    for is_grasp, run in itertools.groupby(clauses, lambda clause: clause.grasps):
        means: list[Means] = [clause.means for clause in run]
        if is_grasp:
            contacts += rest[: len(means)]
            start = len(motion) if (free := rest[len(means) - 1].free) is None else free
            del rest[: len(means)]
        else:
            touches = _find(means, motion, start, rest[0].grasp if rest else len(motion))
            if len(touches) != len(means):
                return None
            contacts += touches
    return contacts


def is_one_touch(clauses: Sequence[Clause], grasps: Sequence[Cycle]) -> bool:
    """Whether the words ask for one contact without a grasp, and the hand makes no grasp."""
    return (
        len(clauses) == 1
        and clauses[0].kind == "act"
        and not clauses[0].grasps
        and not grasps
        and _is_plain(clauses[0])
    )


def _find(means: Sequence[Means], motion: ArmMotion, start: int, end: int) -> list[Touch]:
    """Find the touches of clauses in a row; none where some are presses and others are not."""
    if "press" in means:
        return find_presses(motion, start, end) if set(means) == {"press"} else []
    return find_touches(motion, start, end, hooks="push" not in means)


def _takes(clause: Clause, grasp: Cycle, motion: ArmMotion) -> bool:
    """Whether a grasp may be what a clause asks for: a push that drags, too."""
    is_push = clause.means in ("push", "turn")
    return clause.grasps or clause.pulls or (is_push and motion.drags(grasp, _DRAG))


def _drag(grasp: Cycle, motion: ArmMotion) -> Touch:
    """A grasp as the touch of a hand that pushes along with its fingers around the thing."""
    return Touch(grasp.contact + 1, len(motion) if grasp.let_go is None else grasp.let_go)


def _is_plain(clause: Clause) -> bool:
    """Whether a rule has read one thing to do, without a tool."""
    is_one = clause.understood and not (clause.unordered or clause.several or clause.kind == "many")
    return is_one and clause.means != "tool" and " with " not in clause.name


def find_touches(motion: ArmMotion, start: int, end: int, hooks: bool = False) -> list[Touch]:
    """Find the touches within [start, end), which are apart where the arm rises in between.

    With `hooks` the hand comes down to a handle: it is also at it where it is first as low as it goes.
    """
    touches: list[Touch] = []
    first = last = None
    bends = find_bends(motion, start, end)
    if hooks and motion.height is not None and end > start:
        heights = motion.height[start:end]
        low = start + int((heights - heights.min() <= _RISEN * np.ptp(motion.height)).argmax())
        if low > start and all(abs(low - bend) > _APART_S * motion.fps for bend in bends):
            bends = sorted((*bends, low))
    for frame in bends:
        if _comes_from_below(motion, start, frame) or (first is not None and _rises(motion, first, frame)):
            if first is not None and works(motion, first, frame):
                touches.append(Touch(first, frame if last is None else last))
            first, last = frame if is_at_a_thing(motion, frame, start, end) else None, None
        elif frame == bends[-1] and _leaves(motion, frame, end):
            is_start = first is not None and works(motion, first, frame)
            return [*touches, Touch(first if is_start else None, frame)]
        elif first is not None:
            last = frame
        elif is_at_a_thing(motion, frame, start, end):
            first = frame
    return [*touches, Touch(first, end)] if first is not None and works(motion, first, end) else touches


def find_presses(motion: ArmMotion, start: int, end: int) -> list[Touch]:
    """Find where the hand presses within [start, end): it stops away from where it began, and turns back.

    A hand that stays where it stops presses if its command goes on. The contact begins before the stop.
    """
    usual = float(np.percentile(motion.speed, 80)) if len(motion) else 0.0
    turns = _turns(motion, _near(motion))
    stops = [
        frame
        for frame in find_bends(motion, start, end)
        if (motion.speed[frame] < _STANDS * usual or turns[frame] > 1)
        and not _comes_from_below(motion, start, frame)
    ]
    moving = start + np.flatnonzero(motion.speed[start:end] > _STANDS * usual)
    rest = int(moving[-1]) + 1 if len(moving) else end
    if end == len(motion) >= rest + _near(motion) and motion.strains(rest):
        stops.append(rest)
    touches: list[Touch] = []
    for stop in stops:
        place = motion.path[stop]
        if np.linalg.norm(place - motion.path[start]) <= _WAY * motion.extent:
            continue
        last, previous_end = end if stop == rest else stop, touches[-1].end if touches else start
        is_near = np.linalg.norm(place - motion.path[previous_end]) <= 2 * _WAY * motion.extent
        if touches and is_near and not _rises(motion, previous_end, stop):
            touches[-1] = Touch(touches[-1].start, last)
        else:
            touches.append(Touch(max(start, stop - round(_PRESS_S * motion.fps)), last))
    return touches


def works(motion: ArmMotion, start: int, end: int) -> bool:
    """Whether the hand goes some way from where it is at the thing."""
    away = np.linalg.norm(motion.path[start:end] - motion.path[start], axis=1)
    return bool(away.max(initial=0.0) > _WAY * motion.extent)


def find_bends(motion: ArmMotion, start: int, end: int) -> list[int]:
    """The frames at which the arm turns or stands on its way through [start, end), in order."""
    usual = float(np.percentile(motion.speed, 80)) if len(motion) else 0.0
    moving = start + np.flatnonzero(motion.speed[start:end] > _STANDS * usual)
    if motion.height is None or not len(moving):
        return []
    near = _near(motion)
    sharpness = np.maximum(_turns(motion, near), np.where(motion.speed < _STANDS * usual, 1.0, 0.0))
    frames: list[int] = []
    for frame in np.argsort(-sharpness, kind="stable"):
        is_inside = moving[0] + near <= frame < moving[-1] - 1
        if sharpness[frame] < 1 - _TURN:
            break
        if is_inside and all(abs(frame - other) > _APART_S * motion.fps for other in frames):
            frames.append(int(frame))
    return sorted(frames)


def _near(motion: ArmMotion) -> int:
    return max(2, round(_REACH_S * motion.fps))


def _turns(motion: ArmMotion, near: int) -> NDArray[np.float64]:
    """1 minus the cosine of the turn at each frame: 0 straight on, 1 for 90 degrees, 2 for a return."""
    turns = np.zeros(len(motion))
    if len(motion) <= 2 * near:
        return turns
    approach = motion.path[near:-near] - motion.path[: -2 * near]
    after = motion.path[2 * near :] - motion.path[near:-near]
    first, second = np.linalg.norm(approach, axis=1), np.linalg.norm(after, axis=1)
    is_long = np.minimum(first, second) > _SHORT * motion.extent
    product = np.where(is_long, first * second, 1.0)
    turns[near:-near] = np.where(is_long, 1 - (approach * after).sum(axis=1) / product, 0.0)
    return turns


def _comes_from_below(motion: ArmMotion, start: int, frame: int) -> bool:
    if motion.height is None:
        return False
    heights = motion.height[max(start, frame - round(_APART_S * motion.fps)) : frame + 1]
    return bool(motion.height[frame] - heights.min() > _RISEN * np.ptp(motion.height))


def _rises(motion: ArmMotion, start: int, end: int) -> bool:
    """Whether the arm goes up and down again between two frames."""
    if motion.height is None:
        return False
    heights = motion.height[start : end + 1]
    return bool(heights.max() - max(heights[0], heights[-1]) > 2 * _RISEN * np.ptp(motion.height))


def is_at_a_thing(motion: ArmMotion, frame: int, start: int, end: int) -> bool:
    """Whether the hand is as low as it goes to work, and no longer on its way down."""
    if motion.height is None:
        return False
    height, span = motion.height[frame], round(_APART_S * motion.fps)
    came = motion.height[max(0, frame - span) : frame + 1].max() - height
    goes = height - motion.height[frame : min(end, frame + span + 1)].min()
    comes_down = goes > max(_RISEN * float(np.ptp(motion.height)), _STILL_DOWN * came)
    return not comes_down and is_low(motion, frame, start, end)


def is_low(motion: ArmMotion, frame: int, start: int, end: int) -> bool:
    """Whether the hand is among the lowest places of [start, end)."""
    if motion.height is None:
        return False
    heights = motion.height[start:end]
    return bool(motion.height[frame] - heights.min() <= _LOW * np.ptp(heights))


def _leaves(motion: ArmMotion, frame: int, end: int) -> bool:
    """Whether the arm goes up from a frame until `end`, more than along."""
    if motion.height is None:
        return False
    rises = motion.height[frame:end] - motion.height[frame]
    top = frame + int((rises >= 0.9 * rises.max()).argmax())
    way = float(np.linalg.norm(motion.path[top] - motion.path[frame]))
    return bool(rises.max() > max(_RISEN * float(np.ptp(motion.height)), 0.5 * way))
