"""Align the instruction's clauses with the grasps: the frames of each clause.

A sub-task is one clause: for putting things, one grasp, its release and the retreat after it.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from goalreel.planners.kinematic.clause import Clause
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle
from goalreel.planners.kinematic.touches import Touch

_LET_GO = "the hand lets go of the thing, and the words only pick it up"
type StepOutcome = Literal["done", "failed"]


@dataclass(frozen=True, slots=True)
class ClauseSpan:
    """A clause on its frames [start, end), with the grasps that belong to it."""

    clause: Clause
    start: int
    end: int
    cycles: tuple[Cycle, ...] = ()
    outcome: StepOutcome = "done"
    touch: Touch | None = None
    """The contact without a grasp that belongs to it."""
    note: str | None = None
    """What else is known of it (`Step.auxiliary_text`)."""
    doubts: tuple[str, ...] = ()
    """Why its words may be untrue, where the motion says so of it alone."""


def align(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> list[ClauseSpan]:
    """Cut [0, n) into one part for each clause, or several where it takes several grasps ("sort the blocks").

    `grasps` are those that moved an object. Where the motion shows fewer parts than clauses, the last
    clauses share a part.
    """
    if len(grasps) >= len(clauses):
        return _by_grasp(clauses, grasps, motion)
    return _by_pause(clauses, grasps, motion)


def align_contacts(
    clauses: Sequence[Clause], contacts: Sequence[Cycle | Touch], motion: ArmMotion
) -> list[ClauseSpan]:
    """Cut [0, n) into one part for each clause, with the contact that explains it (`touches.explain`)."""
    cuts = [motion.retreat_end(_end(a, motion), _start(b)) for a, b in itertools.pairwise(contacts)]
    spans = itertools.pairwise([0, *cuts, len(motion)])
    return [
        ClauseSpan(clause, a, b, touch=contact)
        if isinstance(contact, Touch)
        else ClauseSpan(clause, a, b, (contact,))
        for clause, contact, (a, b) in zip(clauses, contacts, spans, strict=True)
        if b > a
    ]


def _start(contact: Cycle | Touch) -> int:
    if isinstance(contact, Cycle):
        return contact.grasp
    return contact.end if contact.start is None else contact.start


def _end(contact: Cycle | Touch, motion: ArmMotion) -> int:
    if isinstance(contact, Touch):
        return contact.end
    return len(motion) if contact.free is None else contact.free


def _by_grasp(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> list[ClauseSpan]:
    groups = _groups(clauses, grasps, motion)
    owners = _owners(clauses, len(groups))
    cuts = [0, *(motion.between(a[-1], b[0]) for a, b in itertools.pairwise(groups)), len(motion)]
    spans = itertools.pairwise(cuts)
    return [
        ClauseSpan(c, a, b, tuple(g)) for c, g, (a, b) in zip(owners, groups, spans, strict=True) if b > a
    ]


def _groups(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> list[list[Cycle]]:
    """One group of grasps for each part. Surplus grasps join their neighbour, the nearest in space first.

    Those of "pull" or "fold" do not, as they may be repeated.
    """
    groups = [[g] for g in grasps]
    if any(c.kind == "many" for c in clauses) or all(c.kind == "act" for c in clauses):
        return groups
    while len(groups) > len(clauses):
        gaps = [motion.apart(a[-1], b[0]) for a, b in itertools.pairwise(groups)]
        i = gaps.index(min(gaps))
        groups[i : i + 2] = [groups[i] + groups[i + 1]]
    return groups


def _owners(clauses: Sequence[Clause], parts: int) -> list[Clause]:
    """A clause for every part.

    Surplus parts go in turn to the clauses about several objects, or else to those that may take many
    grasps ("clear the bowl"), or else to all.
    """
    times = [1] * len(clauses)
    takers = [i for i, c in enumerate(clauses) if c.kind == "many" and c.several]
    takers = takers or [i for i, c in enumerate(clauses) if c.kind == "many"] or list(range(len(clauses)))
    for k in range(parts - len(clauses)):
        times[takers[k % len(takers)]] += 1
    return [owner for c, n in zip(clauses, times, strict=True) for owner in _repeat(c, n)]


def _repeat(clause: Clause, times: int) -> list[Clause]:
    """Number the repetitions of a clause: the motion does not tell which object each is about.

    Words that no rule has read are never completed.
    """
    if times == 1 or not clause.understood:
        return [clause] * times
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
    owners = [*clauses[: len(edges) - 2], _join(clauses[len(edges) - 2 :])]
    return [
        ClauseSpan(owner, a, b, tuple(g for g in grasps if a <= g.grasp < b))
        for owner, (a, b) in zip(owners, itertools.pairwise(edges), strict=True)
    ]


def _join(clauses: Sequence[Clause]) -> Clause:
    if len(clauses) == 1:
        return clauses[0]
    return Clause(
        name=", then ".join(c.name for c in clauses),
        state=" and ".join(c.state for c in clauses),
        kind="act",
        object=clauses[-1].object,
        means="tool",
    )


def split_pick(part: ClauseSpan, motion: ArmMotion) -> list[ClauseSpan]:
    """Cut a part after the grasp if the instruction names the picking up.

    The rest is a part of its own: the placing or, after a lone "pick up X", the putting down that the
    recording shows.
    """
    clause = part.clause
    if clause.kind == "many" and clause.name.startswith("pick up ") and part.cycles:
        return [part] if part.cycles[-1].release is None else [replace(part, doubts=(_LET_GO,))]
    if not part.cycles or not (clause.picked or clause.kind == "pick"):
        return [part]
    longest = max(part.cycles, key=motion.carry_distance)
    cut = longest.contact + 1
    if not part.start < cut < part.end or (clause.kind == "pick" and longest.release is None):
        return [part]
    grasp = (grasp_of if motion.drags(longest) else pick_up)(clause.object)
    return [
        replace(part, clause=grasp, end=cut),
        replace(part, clause=put_down(clause.object) if clause.kind == "pick" else clause, start=cut),
    ]


def grasp_of(thing: str) -> Clause:
    """The clause of closing the hand on an object, where it is not lifted."""
    return Clause(f"grasp {thing}", f"the gripper is closed on {thing}", "act", thing)


def pick_up(thing: str) -> Clause:
    """The clause of grasping an object."""
    return Clause(f"pick up {thing}", f"{thing} is held in the gripper", "pick", thing)


def put_down(thing: str) -> Clause:
    """The clause of putting an object down, which a recording shows after a lone "pick up X"."""
    return Clause(f"put down {thing}", f"{thing} has been put down", "put", thing)
