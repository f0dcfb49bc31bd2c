"""Tell grasps that moved a thing from those in vain and from a hand that closes on nothing.

Rules of contact, not of any one robot: a thing keeps the fingers as far apart as it is wide, so the hand
rests on it, and every time about as far closed; an arm stands while its hand closes on a thing; and a thing
that slipped out of the fingers is taken again where it was, not where the hand opened.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goalreel.planners.kinematic.clauses import Clause
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle

_BRIEF = 1.0
"""Seconds: who holds a thing no longer may have held nothing."""
_STANDS = 0.4
"""Share of the arm's usual speed above which the hand closes in passing."""
_ALIKE = 0.15
"""Share of the hand's range by which one thing's width may seem to change."""
_RESTS = 0.5
"""Least share of the time in which a hand that holds a thing stays as far closed."""
_TAKES_OFF = 0.1
"""Share of the height's range: what has not come along by then stays behind."""


@dataclass(frozen=True, slots=True)
class Try:
    """A grasp in vain: the hand was on the thing from `cycle.held` on, and had it no more at `end`."""

    cycle: Cycle
    end: int


def sort_out(clauses: Sequence[Clause], motion: ArmMotion) -> tuple[list[Cycle], list[Try]]:
    """The cycles that moved something, and those in vain; what closed on nothing is in neither."""
    cycles = list(motion.cycles)
    sure = [c for c in cycles if not _doubtful(c, motion)]
    if any(_rests(c, motion) for c in sure):
        sure = [c for c in sure if _rests(c, motion)]
    kept = [c for c in cycles if c in sure or (_doubtful(c, motion) and _on_a_thing(c, sure, motion))]
    needed = sum(clause.kind != "act" for clause in clauses)
    kept = sorted(kept + _missed(kept, needed, motion), key=lambda c: c.held)
    tries: list[Try] = []
    for cycle in sorted(kept, key=motion.carried):
        in_vain = motion.failed(cycle) and (clauses[0].kind != "act" or _doubtful(cycle, motion))
        if in_vain and (len(kept) > needed or len(clauses) == 1):
            kept.remove(cycle)
            tries.append(Try(cycle, _opened(cycle, motion)))
    if all(clause.kind in ("put", "pick") for clause in clauses):
        while len(kept) > len(clauses) and (slipped := _slipped(kept, motion)):
            kept.remove(slipped)
            tries.append(Try(slipped, _left_behind(slipped, motion)))
    return kept, sorted(tries, key=lambda t: t.cycle.held)


def _missed(kept: Sequence[Cycle], needed: int, motion: ArmMotion) -> list[Cycle]:
    """What the words ask for, where too few are sure: those that carried most, if they carried anything."""
    others = [c for c in motion.cycles if c not in kept and not motion.failed(c)]
    return sorted(others, key=motion.carried, reverse=True)[: max(0, needed - len(kept))]


def _opened(cycle: Cycle, motion: ArmMotion) -> int:
    return len(motion) if cycle.let_go is None else cycle.let_go


def _left_behind(cycle: Cycle, motion: ArmMotion) -> int:
    """Where the hand had risen without the thing; without a height, where it opened."""
    opened = _opened(cycle, motion)
    if motion.height is None:
        return opened
    return min(opened, max(cycle.held + 2, motion.rises(cycle.held, opened, _TAKES_OFF)))


def _doubtful(cycle: Cycle, motion: ArmMotion) -> bool:
    """Brief, or the last of several and never opened again: a hand that relaxes looks like a grasp."""
    if cycle.release is None:
        return len(motion.cycles) > 1 or motion.failed(cycle)
    return cycle.release - cycle.held <= _BRIEF * motion.fps


def _rests(cycle: Cycle, motion: ArmMotion) -> bool:
    closed = motion.closure(cycle)
    return bool((np.abs(closed - np.median(closed)) <= _ALIKE).mean() >= _RESTS)


def _on_a_thing(cycle: Cycle, sure: Sequence[Cycle], motion: ArmMotion) -> bool:
    usual = float(np.percentile(motion.speed, 80))
    if motion.speed[cycle.grasp : cycle.held + 1].mean() >= _STANDS * usual:
        return False
    level = np.median(motion.closure(cycle))
    alike = [abs(level - np.median(motion.closure(other))) <= _ALIKE for other in sure]
    return any(alike) or not alike


def _slipped(cycles: Sequence[Cycle], motion: ArmMotion) -> Cycle | None:
    """The first cycle whose thing was taken again where it had been, not where the hand opened."""
    for cycle, after in itertools.pairwise(cycles):
        again = motion.path[after.held]
        if cycle.release is not None and np.linalg.norm(again - motion.path[cycle.held]) < np.linalg.norm(
            again - motion.path[cycle.release]
        ):
            return cycle
    return None
