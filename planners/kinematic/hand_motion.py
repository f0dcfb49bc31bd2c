"""What a motion shows without any words: what the hand does, and whether the arm moves meanwhile.

Such phases name no object, so they are true of an episode whose instruction does not explain its motion.
"""

from collections.abc import Iterator

import numpy as np

from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.types import MotionPhase, Segment

CLOSES, OPENS = "the hand closes", "the hand opens"
_MOVES = "the arm moves with the hand {}"
_RESTS = "the arm rests with the hand {}"
HAND_MOTIONS = frozenset(
    (CLOSES, OPENS, *(text.format(hand) for text in (_MOVES, _RESTS) for hand in ("open", "closed")))
)
"""Every name of such a phase."""
_MOVED = 0.05
"""Share of the arm's extent that it must travel to have moved."""


def hand_phases(motion: ArmMotion) -> list[MotionPhase]:
    """The phases of the hand in order; frames of which nothing is sure belong to none.

    Empty without a hand that moves.
    """
    if motion.closed is None or not motion.cycles:
        return []
    minimum = min(float(motion.closed[c.contact : c.release].min()) for c in motion.cycles)
    phases: list[MotionPhase] = []
    for name, start, end in _spans(motion, minimum):
        if end > start:
            phases.append(MotionPhase(name=name, segment=Segment(start=start, end=end)))
    return phases


def _spans(motion: ArmMotion, minimum: float) -> Iterator[tuple[str, int, int]]:
    """(name, first frame, end); a hand closed by less than `least` holds nothing."""
    assert motion.closed is not None
    n, free = len(motion), 0
    for cycle in motion.cycles:
        grasp, contact = max(free, cycle.grasp), max(free, cycle.contact)
        if motion.closed[free:grasp].max(initial=0.0) < minimum:
            yield _arm(motion, free, grasp, "open"), free, grasp
        yield CLOSES, grasp, contact
        release = n if cycle.release is None else cycle.release
        yield _arm(motion, contact, release, "closed"), contact, release
        free = n if cycle.free is None else cycle.free
        yield OPENS, release, free
    if motion.closed[free:].max(initial=0.0) < minimum:
        yield _arm(motion, free, n, "open"), free, n


def _arm(motion: ArmMotion, start: int, end: int, hand: str) -> str:
    span = motion.path[start : end + 1]
    travel = float(np.linalg.norm(np.ptp(span, axis=0))) if len(span) else 0.0
    return (_MOVES if travel > _MOVED * motion.extent else _RESTS).format(hand)
