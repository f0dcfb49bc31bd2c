"""Lay the instruction's clauses over the grasps found: which clause happened when.

A sub-task is one clause: for putting things, one grasp, its release and the retreat after it.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from goalreel.planners.kinematic.clauses import Clause
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle

type Outcome = Literal["done", "failed"]


@dataclass(frozen=True, slots=True)
class ClauseSpan:
    """A clause on its frames [start, end), with the grasps that belong to it."""

    clause: Clause
    start: int
    end: int
    cycles: tuple[Cycle, ...] = ()
    outcome: Outcome = "done"


def align(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> list[ClauseSpan]:
    """Cut [0, n) into one part a clause, more where a clause takes several grasps ("sort the blocks").

    `grasps`: those that moved something. Where the motion shows fewer pieces than clauses, the last clauses
    share a part.
    """
    if len(grasps) >= len(clauses):
        return _by_grasp(clauses, grasps, motion)
    return _by_pause(clauses, grasps, motion)


def _by_grasp(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> list[ClauseSpan]:
    groups = _groups(clauses, grasps, motion)
    owners = _owners(clauses, len(groups))
    cuts = [0, *(motion.between(a[-1], b[0]) for a, b in itertools.pairwise(groups)), len(motion)]
    spans = itertools.pairwise(cuts)
    return [
        ClauseSpan(c, a, b, tuple(g)) for c, g, (a, b) in zip(owners, groups, spans, strict=True) if b > a
    ]


def _groups(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> list[list[Cycle]]:
    """One group of grasps a part. Surplus grasps join their neighbour, nearest in space first; those of
    "pull" or "fold", which may be done again and again, do not."""
    groups = [[g] for g in grasps]
    if any(c.kind == "many" for c in clauses) or all(c.kind == "act" for c in clauses):
        return groups
    while len(groups) > len(clauses):
        gaps = [motion.apart(a[-1], b[0]) for a, b in itertools.pairwise(groups)]
        i = gaps.index(min(gaps))
        groups[i : i + 2] = [groups[i] + groups[i + 1]]
    return groups


def _owners(clauses: Sequence[Clause], parts: int) -> list[Clause]:
    """A clause for every part. The surplus goes round the clauses about several things, then round the
    others that may take many grasps ("clear the bowl")."""
    times = [1] * len(clauses)
    takers = [i for i, c in enumerate(clauses) if c.kind == "many" and c.several]
    takers = takers or [i for i, c in enumerate(clauses) if c.kind == "many"] or list(range(len(clauses)))
    for k in range(parts - len(clauses)):
        times[takers[k % len(takers)]] += 1
    return [owner for c, n in zip(clauses, times, strict=True) for owner in _repeated(c, n)]


def _repeated(clause: Clause, times: int) -> list[Clause]:
    """Which object it was cannot be known from the motion, so the labels only count."""
    if times == 1:
        return [clause]
    return [
        replace(
            clause,
            name=f"{clause.name} ({k} of {times})",
            state=clause.state if k == times else f"{k} of {times} things done so that {clause.state}",
        )
        for k in range(1, times + 1)
    ]


def _by_pause(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> list[ClauseSpan]:
    """Fewer grasps than clauses: cut after each grasp and at the longest pauses with an empty hand."""
    cuts = [motion.between(a, b) for a, b in itertools.pairwise(grasps)]
    for start, end in motion.pauses():
        middle = (start + end) // 2
        if len(cuts) == len(clauses) - 1:
            break
        if not any(motion.holds(g, middle) for g in grasps):
            cuts.append(middle)
    edges = [0, *sorted(set(cuts)), len(motion)]
    owners = [*clauses[: len(edges) - 2], _joined(clauses[len(edges) - 2 :])]
    return [
        ClauseSpan(owner, a, b, tuple(g for g in grasps if a <= g.grasp < b))
        for owner, (a, b) in zip(owners, itertools.pairwise(edges), strict=True)
    ]


def _joined(clauses: Sequence[Clause]) -> Clause:
    if len(clauses) == 1:
        return clauses[0]
    return Clause(
        name=", then ".join(c.name for c in clauses),
        state=" and ".join(c.state for c in clauses),
        kind="act",
        object=clauses[-1].object,
        grasped=False,
    )


def split_pick(part: ClauseSpan, motion: ArmMotion) -> list[ClauseSpan]:
    """Picking up that the instruction names is done when the hand has closed; what follows is a part of its
    own: the placing asked for, or, after a lone "pick up X", putting it down where the recording shows it."""
    clause = part.clause
    if not part.cycles or not (clause.picked or clause.kind == "pick"):
        return [part]
    carried = max(part.cycles, key=motion.carried)
    cut = carried.held + 1
    if not part.start < cut < part.end or (clause.kind == "pick" and carried.release is None):
        return [part]
    return [
        replace(part, clause=pick_up(clause.object), end=cut),
        replace(part, clause=put_down(clause.object) if clause.kind == "pick" else clause, start=cut),
    ]


def pick_up(thing: str) -> Clause:
    """The clause of a thing taken in the hand."""
    return Clause(f"pick up {thing}", f"{thing} is held in the gripper", "pick", thing)


def put_down(thing: str) -> Clause:
    """What a recording shows after a lone "pick up X", though nobody asked for it."""
    return Clause(f"put down {thing}", f"{thing} has been put down", "put", thing)
