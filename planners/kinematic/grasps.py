"""Sort grasps into those that moved an object, those that failed, and closings on nothing.

The rules hold for any robot. An object keeps the fingers as far apart as it is wide, so the hand rests on it,
always about as far closed. An arm stands still while its hand closes on an object. An object that slipped is
grasped again where it was, and the hand that lost it opens in the air, where nothing is set down.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goalreel.planners.kinematic.clause import Clause
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle

_BRIEF = 1.0
"""Seconds up to which a hand may have held nothing."""
_STANDS = 0.4
"""Share of the arm's usual speed above which the hand closes while it passes by."""
_ALIKE = 0.15
"""Share of the hand's range by which the measured width of an object may vary."""
_RESTS = 0.5
"""Share of the time for which a hand with an object stays equally closed, at least."""
_TAKES_OFF = 0.1
"""Share of the height's range at which a rising hand has either lifted the object or lost it."""
_IN_THE_AIR = 1 / 3
"""Share of its rise that a hand goes down again, at least, before it sets an object down."""
_ELSEWHERE = 0.2
"""Share of the arm's extent beyond which two releases, or two grasps, are not at one place."""
_PREPARES = 0.1
"""Share of the arm's extent within which it has not yet gone anywhere."""


@dataclass(frozen=True, slots=True)
class FailedGrasp:
    """A grasp without success: contact begins at `cycle.contact`, and the object is lost at `end`."""

    cycle: Cycle
    end: int


def sort_grasps(clauses: Sequence[Clause], motion: ArmMotion) -> tuple[list[Cycle], list[FailedGrasp]]:
    """The cycles that moved an object, and the failed ones; closings on nothing are in neither."""
    cycles = list(motion.cycles)
    sure = [c for c in cycles if not _doubtful(c, motion)]
    if any(_rests(c, motion) for c in sure):
        sure = [c for c in sure if _rests(c, motion)]
    grasps = [c for c in cycles if c in sure or (_doubtful(c, motion) and _on_a_thing(c, sure, motion))]
    needed = sum(clause.kind != "act" or clause.picked for clause in clauses)
    if not needed:  # the words ask for no grasp: only the motion speaks for one
        grasps = [c for c in grasps if has_reached(c.grasp, motion) and not motion.closes_on_the_way(c)]
    grasps = sorted(grasps + _find_missed(grasps, needed, motion), key=lambda c: c.contact)
    empty: list[Cycle] = []
    for cycle in sorted(grasps, key=motion.carry_distance):
        if motion.failed(cycle) and (len(grasps) > needed or len(clauses) == 1):
            grasps.remove(cycle)
            empty.append(cycle)
    failed_grasps = [
        FailedGrasp(c, _opening(c, motion))
        for c in empty
        if _is_repeated(c, [*grasps, *empty], motion) or (not grasps and needed == len(clauses))
    ]
    if all(clause.kind in ("put", "pick") for clause in clauses):
        while len(grasps) > len(clauses) and (slipped := _find_slipped(grasps, motion)):
            grasps.remove(slipped)
            failed_grasps.append(FailedGrasp(slipped, _loss_frame(slipped, motion)))
    return grasps, sorted(failed_grasps, key=lambda t: t.cycle.contact)


def _find_missed(grasps: Sequence[Cycle], needed: int, motion: ArmMotion) -> list[Cycle]:
    """More grasps where the clauses need more than are sure: those that carried an object furthest."""
    others = [c for c in motion.cycles if c not in grasps and not motion.failed(c)]
    return sorted(others, key=motion.carry_distance, reverse=True)[: max(0, needed - len(grasps))]


def _opening(cycle: Cycle, motion: ArmMotion) -> int:
    return len(motion) if cycle.let_go is None else cycle.let_go


def _loss_frame(cycle: Cycle, motion: ArmMotion) -> int:
    """The frame at which the hand has risen without the object."""
    opening = _opening(cycle, motion)
    return min(opening, max(cycle.contact + 2, motion.rises(cycle.contact, opening, _TAKES_OFF)))


def _doubtful(cycle: Cycle, motion: ArmMotion) -> bool:
    """Whether a cycle is brief, or the last of several without an opening: the hand may only relax."""
    if cycle.release is None:
        return len(motion.cycles) > 1 or motion.failed(cycle)
    return cycle.release - cycle.contact <= _BRIEF * motion.fps


def _is_repeated(cycle: Cycle, others: Sequence[Cycle], motion: ArmMotion) -> bool:
    """Whether a later grasp is at the same place: then this closing was meant to be one."""
    places = [motion.path[c.contact] for c in others if c.contact > cycle.contact]
    contact_point = motion.path[cycle.contact]
    return any(np.linalg.norm(place - contact_point) <= _ELSEWHERE * motion.extent for place in places)


def _rests(cycle: Cycle, motion: ArmMotion) -> bool:
    closed = motion.closure(cycle)
    return bool((np.abs(closed - np.median(closed)) <= _ALIKE).mean() >= _RESTS)


def _passes(cycle: Cycle, motion: ArmMotion) -> bool:
    """Whether the arm does not stand while the hand closes."""
    usual = float(np.percentile(motion.speed, 80))
    return bool(motion.speed[cycle.grasp : cycle.contact + 1].mean() >= _STANDS * usual)


def has_reached(frame: int, motion: ArmMotion) -> bool:
    """Whether the arm has left the place where the recording begins: there it only prepares its hand."""
    away = np.linalg.norm(motion.path[frame] - motion.path[0])
    return bool(away > _PREPARES * motion.extent)


def _on_a_thing(cycle: Cycle, sure: Sequence[Cycle], motion: ArmMotion) -> bool:
    if _passes(cycle, motion):
        return False
    level = np.median(motion.closure(cycle))
    is_alike = [abs(level - np.median(motion.closure(other))) <= _ALIKE for other in sure]
    return any(is_alike) or not is_alike


def _find_slipped(cycles: Sequence[Cycle], motion: ArmMotion) -> Cycle | None:
    """The last cycle whose object stayed behind: it was grasped again where it was.

    The hand must have opened in the air, and not above the target of the next grasp: what is dropped into a
    box is no slip. Without a height there is no such evidence.
    """
    for cycle, after in reversed(list(itertools.pairwise(cycles))):
        if cycle.release is None or not in_the_air(cycle, motion):
            continue
        if motion.drives_between(cycle.contact, after.contact):
            continue
        start, end, next_contact = (motion.path[i] for i in (cycle.contact, cycle.release, after.contact))
        stayed = np.linalg.norm(next_contact - start) < np.linalg.norm(next_contact - end)
        if stayed and motion.releases_apart(cycle, after) > _ELSEWHERE * motion.extent:
            return cycle
    return None


def in_the_air(cycle: Cycle, motion: ArmMotion) -> bool:
    """Whether the hand opens up where it has risen to; False without a height."""
    if motion.height is None or cycle.release is None:
        return False
    heights = motion.height[cycle.contact : cycle.release + 1]
    rise = heights.max() - heights[0]
    return bool(
        rise > _TAKES_OFF * np.ptp(motion.height) and heights.max() - heights[-1] < _IN_THE_AIR * rise
    )
