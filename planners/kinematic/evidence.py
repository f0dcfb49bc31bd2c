"""Whether an instruction and a motion explain each other: only then are the words more than a guess."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from goalreel.planners.kinematic.arms import ArmsMotion
from goalreel.planners.kinematic.clauses import Clause
from goalreel.planners.kinematic.counts import times_text
from goalreel.planners.kinematic.grasps import FailedGrasp, has_reached
from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle
from goalreel.planners.kinematic.touches import Touch

_COUNTS = {"two": 2, "both": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_AT_HOME = 0.15
"""Share of the arm's extent within which it is back where the recording begins."""
_AGAIN = 0.1
"""Share of the arm's extent within which an object is taken again where it was set down."""
_UPRIGHT = 0.5
"""What a hand that takes a thing up or down does so at least, in shares of what it goes sideways."""


def doubts(
    clauses: Sequence[Clause],
    grasps: Sequence[Cycle],
    failed_grasps: Sequence[FailedGrasp],
    motion: ArmMotion,
    unread: Sequence[str] = (),
    explained: bool = False,
) -> tuple[str, ...]:
    """Say why the words of a plan may be untrue; empty where every grasp has a clause, and the reverse.

    Args:
        clauses: of the instruction.
        grasps: those that moved an object.
        failed_grasps: those that did not.
        motion: of the recording.
        unread: the `hand_doubts`.
        explained: each clause, acts among them, has one contact (`touches.explain`).
    """
    reasons = (*_of_words(clauses, explained), *unread)
    if not all(motion.failed(failed.cycle) for failed in failed_grasps):
        reasons = (*reasons, "the hand carries something that counts as slipped")
    return tuple(dict.fromkeys((*reasons, *_of_grasps(clauses, grasps, motion, explained))))


def _of_words(clauses: Sequence[Clause], explained: bool) -> Iterator[str]:
    for clause in clauses:
        if not clause.understood:
            yield "no rule reads the whole instruction"
        elif clause.unordered:
            yield f'the instruction does not say when "{clause.name}" comes'
        elif clause.kind == "act" and not explained and not _takes_tool(clauses):
            yield _not_shown(clause)


def _takes_tool(clauses: Sequence[Clause]) -> bool:
    """Whether the only clause names what the hand takes to do it."""
    return len(clauses) == 1 and clauses[0].picked and clauses[0].means == "tool"


def _not_shown(clause: Clause) -> str:
    return f'the motion of a hand does not show "{clause.name}"'


def hand_doubts(arms: ArmsMotion, layout: Layout, idle: bool = False) -> Iterator[str]:
    """Say why what the hand does may be read wrongly; an `idle` hand grasps nothing, however it is read."""
    if arms.motion.closed is None:
        if not (idle and layout.gripper):
            yield "no gripper is seen to move: name it with --layout gripper=..."
        return
    if arms.at_once:
        yield "two hands hold something at once, and the words do not say which does what"
    if not idle and any(hand.closed is None for hand in layout.hands):
        yield "which end of the gripper is closed is not known: say --layout closed=low or closed=high"


def _of_grasps(
    clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion, explained: bool
) -> Iterator[str]:
    tool = _takes_tool(clauses)
    if any(clause.kind == "act" for clause in clauses) and not explained and not tool:
        return
    carried, needed = len(grasps), sum(clause.grasps for clause in clauses)
    collective = [clause for clause in clauses if clause.kind == "many"]
    if collective:
        if len(collective) > 1 or not _counts(collective[0], carried - needed + 1):
            yield f"the words do not tell what the hand takes in each of {carried} grasps"
    elif not explained and (
        carried < needed or (carried > needed and not _again(grasps, motion, carried - needed))
    ):
        yield f"the hand carries something {times_text(carried)}, and the words say {times_text(needed)}"
    if any(map(motion.failed, grasps)):
        yield "a grasp is taken for a success in which the hand carries nothing"
    if any(map(motion.closes_on_the_way, grasps)):
        yield "the hand closes on the way, where nothing is seen to be"
    if grasps and grasps[-1].release is None and not has_reached(grasps[-1], motion):
        yield "the hand closes before the arm goes anywhere, and is not seen to let go"


def way_doubts(
    clauses: Sequence[Clause], contacts: Sequence[Cycle | Touch], motion: ArmMotion
) -> Iterator[str]:
    """Say where the hand does not go up or down with the thing, and the words say so; a height must be known.

    Args:
        clauses: of the instruction.
        contacts: one for each clause.
        motion: of the recording.
    """
    for clause, contact in zip(clauses, contacts, strict=False):
        start = contact.start if isinstance(contact, Touch) else contact.contact
        end = contact.end if isinstance(contact, Touch) else contact.release
        if not clause.way or motion.height is None or start is None:
            continue
        heights = motion.height[start : max(start + 1, len(motion) if end is None else end)]
        rise = (heights - heights[0]) * (1 if clause.way == "up" else -1)
        path = motion.path[start : start + len(heights)]
        sideways = np.sqrt(np.maximum(((path - path[0]) ** 2).sum(axis=1) - rise**2, 0))
        if rise.max() < _UPRIGHT * sideways.max():
            yield f'the hand does not go {clause.way} with the thing, and the words say "{clause.name}"'


def end_doubts(
    clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion, returns: bool
) -> Iterator[tuple[int, str]]:
    """Say why the words of the last steps may be untrue, and from which frame on.

    Args:
        clauses: of the instruction.
        grasps: those that moved an object.
        motion: of the recording.
        returns: the instruction ends with a request to go home.
    """
    if grasps and _takes_tool(clauses):
        yield grasps[0].contact + 1, _not_shown(clauses[0])
    if clauses[-1].kind == "put" and grasps and grasps[-1].release is None:
        yield grasps[-1].contact + 1, "the hand does not let go at the end"
    if returns and np.linalg.norm(motion.path[-1] - motion.path[0]) > _AT_HOME * motion.extent:
        yield len(motion) - 1, "the arm does not end where it began, and the words send it home"


def _counts(clause: Clause, grasps: int) -> bool:
    """Whether a clause about several objects asks for so many grasps: "the two cups", or any number."""
    tokens = clause.object.lower().split()
    numbers = (int(word) if word.isdecimal() else _COUNTS.get(word) for word in tokens)
    number = next((n for n in numbers if n is not None), None)
    return clause.several and (grasps > 1 if number is None else grasps == number)


def _again(grasps: Sequence[Cycle], motion: ArmMotion, surplus: int) -> bool:
    """Whether the surplus grasps take again what was just set down."""
    same = sum(motion.apart(a, b) <= _AGAIN * motion.extent for a, b in itertools.pairwise(grasps))
    return same == surplus
