"""Lay the instruction's clauses over the grasps found: which clause happened when.

A sub-task is one clause: for putting things, one grasp, its release and the retreat after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from goalreel.planners.kinematic.clauses import Clause
from goalreel.planners.kinematic.motion import Motion
from goalreel.planners.kinematic.signals import Cycle
import itertools

_CARRY = 0.05
"""A grasp that moves nothing this far (share of the arm's extent) is dropped first."""


@dataclass(frozen=True, slots=True)
class Part:
    """A clause on its frames [start, end), with the grasps that belong to it."""

    clause: Clause
    start: int
    end: int
    cycles: tuple[Cycle, ...] = ()


def align(clauses: Sequence[Clause], motion: Motion) -> list[Part]:
    """Cut [0, n) into one part a clause, more where a clause takes several grasps ("sort the blocks").

    Where the motion shows fewer pieces than clauses, the last clauses share a part.
    """
    grasps = _real_grasps(clauses, motion)
    if len(grasps) >= len(clauses) or (len(clauses) == 1 and not grasps):
        parts = _by_grasp(clauses, grasps, motion)
    else:
        parts = _by_pause(clauses, grasps, motion)
    return [piece for part in parts for piece in _split_pick(part, motion)]


def _real_grasps(clauses: Sequence[Clause], motion: Motion) -> list[Cycle]:
    """Drop grasps that carried nothing, as long as every clause keeps one; and a last one never released."""
    grasps = list(motion.cycles)
    by_carry = sorted(grasps, key=motion.carried)
    for cycle in by_carry:
        if len(grasps) > len(clauses) and motion.carried(cycle) < _CARRY * motion.extent:
            grasps.remove(cycle)
    return grasps


def _by_grasp(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: Motion) -> list[Part]:
    groups = _groups(clauses, grasps, motion)
    owners = _owners(clauses, len(groups))
    cuts = [
        0,
        *(_between(a[-1], b[0], motion) for a, b in itertools.pairwise(groups)),
        len(motion),
    ]
    return [
        Part(clause, start, end, tuple(group))
        for clause, group, start, end in zip(owners, groups, cuts, cuts[1:], strict=False)
        if end > start
    ]


def _between(before: Cycle, after: Cycle, motion: Motion) -> int:
    return motion.retreated(before.release if before.free is None else before.free, after.grasp)


def _groups(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: Motion) -> list[list[Cycle]]:
    """One group of grasps a part. Surplus grasps join their neighbour: nearest in space first."""
    groups = [[g] for g in grasps] or [[]]
    if any(c.kind == "many" for c in clauses):
        return groups
    while len(groups) > len(clauses):
        gaps = [motion.apart(a[-1], b[0]) for a, b in itertools.pairwise(groups)]
        i = gaps.index(min(gaps))
        groups[i : i + 2] = [groups[i] + groups[i + 1]]
    return groups


def _owners(clauses: Sequence[Clause], parts: int) -> list[Clause]:
    """A clause for every part: those that take many grasps share the surplus, first ones first."""
    many = [i for i, c in enumerate(clauses) if c.kind == "many"]
    extra = parts - len(clauses)
    owners: list[Clause] = []
    for i, clause in enumerate(clauses):
        times = 1
        if i in many:
            rank = many.index(i)
            times += extra // len(many) + (rank < extra % len(many))
        owners += [clause] if times == 1 else [_nth(clause, k, times) for k in range(1, times + 1)]
    return owners


def _nth(clause: Clause, number: int, total: int) -> Clause:
    """Which object it was cannot be known from the motion, so the label only counts."""
    state = clause.state if number == total else f"{clause.state}: {number} of {total} objects done"
    return replace(clause, name=f"{clause.name} ({number} of {total})", state=state)


def _by_pause(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: Motion) -> list[Part]:
    """Fewer grasps than clauses: cut after each grasp and at the longest pauses with an empty hand."""
    cuts = [_between(a, b, motion) for a, b in itertools.pairwise(grasps)]
    for start, end in motion.pauses():
        middle = (start + end) // 2
        if len(cuts) == len(clauses) - 1:
            break
        if not any(_holds(g, middle, motion) for g in grasps):
            cuts.append(middle)
    edges = [0, *sorted(set(cuts)), len(motion)]
    owners = [*clauses[: len(edges) - 2], _joined(clauses[len(edges) - 2 :])]
    return [
        Part(owner, a, b, tuple(g for g in grasps if a <= g.grasp < b))
        for owner, a, b in zip(owners, edges, edges[1:], strict=False)
    ]


def _holds(cycle: Cycle, frame: int, motion: Motion) -> bool:
    return cycle.grasp <= frame < (len(motion) if cycle.free is None else cycle.free)


def _joined(clauses: Sequence[Clause]) -> Clause:
    if len(clauses) == 1:
        return clauses[0]
    return Clause(
        ", then ".join(c.name for c in clauses),
        " and ".join(c.state for c in clauses),
        "act",
        clauses[-1].object,
    )


def _split_pick(part: Part, motion: Motion) -> list[Part]:
    """A lone "pick up X" is done when X is up; letting go of it afterwards is a part of its own."""
    clause = part.clause
    if clause.kind != "pick" or not part.cycles or part.cycles[-1].release is None:
        return [part]
    up = motion.lifted(part.cycles[-1])
    if not part.start < up < part.end:
        return [part]
    down = Clause(f"put down {clause.object}", f"{clause.object} is released", "put", clause.object)
    return [Part(clause, part.start, up, part.cycles), Part(down, up, part.end, part.cycles)]
