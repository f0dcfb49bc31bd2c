"""What the numbers alone tell of a segment, in words: how hand and arm move, where they end, what failed.

No object is named, so the texts are true whatever the instruction says. Lengths and places are in the units
of the recording.
"""

from collections.abc import Iterator

import numpy as np

from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.motion import ArmMotion, read_motion
from goalreel.types import Recording, Segment

_MOVED, _UP = 0.05, 0.1
"""Shares of the arm's extent, and of the height's range, that count as a movement."""
_OPEN = 0.5
"""A hand closed by less than this share of its range is open, where no grasp tells."""


class MotionDescription:
    """Describes the segments of one episode, under a complete layout (`layout.find_layout`)."""

    def __init__(self, recording: Recording, layout: Layout) -> None:
        body, names = recording.state, recording.state_names
        if not body.shape[1]:
            body, names = recording.action, recording.action_names
        self._body = body
        self._names = names if len(names) == body.shape[1] else [f"[{i}]" for i in range(body.shape[1])]
        self._hands = [(hand, read_motion(recording, hand)) for hand in layout.hands]

    def motion(self, segment: Segment) -> str:
        """How the robot moves."""
        parts = [", ".join(_moves(hand, m, segment, self._side(hand))) for hand, m in self._hands]
        return "; ".join(parts)

    def pose(self, segment: Segment) -> str:
        """Where the robot is at the last frame."""
        return "; ".join(self._pose(hand, m, segment.end - 1) for hand, m in self._hands)

    def failure(self, segment: Segment) -> str | None:
        """Why a step failed; None where the motion does not tell."""
        for hand, motion in self._hands:
            for cycle in motion.cycles if hand.closed else ():
                meets = cycle.grasp < segment.end and motion.holds(cycle, max(segment.start, cycle.grasp))
                if meets and motion.failed(cycle):
                    return f"the {self._side(hand)}hand closed and carried nothing"
        return None

    def _side(self, hand: Layout) -> str:
        return f"{hand.side} " if hand.side and len(self._hands) > 1 else ""

    def _pose(self, hand: Layout, motion: ArmMotion, frame: int) -> str:
        places = ", ".join(f"{self._names[i]} {self._body[frame, i]:.3g}" for i in hand.position)
        where = [f"the {self._side(hand)}arm is at {places}"] if places else []
        if motion.closed is not None and hand.closed:
            where.append(f"the {self._side(hand)}hand is {motion.closed[frame]:.0%} closed")
        return ", ".join(where)


def _moves(hand: Layout, motion: ArmMotion, segment: Segment, side: str) -> Iterator[str]:
    path = motion.path[segment.start : segment.end]
    extent = float(np.linalg.norm(np.ptp(path, axis=0))) if path.shape[1] else 0.0
    way = path[-1] - path[0]
    if extent <= _MOVED * motion.extent:
        yield f"the {side}arm rests"
    elif motion.height is None or hand.vertical not in hand.position:
        yield f"the {side}arm moves"
    else:
        rise = float(motion.height[segment.end - 1] - motion.height[segment.start])
        flat = np.delete(way, hand.position.index(hand.vertical))
        ways = [f"{'up' if rise > 0 else 'down'} by {abs(rise):.3g}"] if _rises(motion, rise) else []
        if (sideways := float(np.linalg.norm(flat))) > _MOVED * motion.extent:
            ways.append(f"sideways by {sideways:.3g}")
        yield f"the {side}arm moves {' and '.join(ways) or 'and comes back'}"
    if motion.closed is not None and hand.closed:
        yield f"the {side}hand {_hand(motion, segment)}"


def _rises(motion: ArmMotion, rise: float) -> bool:
    return motion.height is not None and abs(rise) > _UP * float(np.ptp(motion.height))


def _hand(motion: ArmMotion, segment: Segment) -> str:
    """What the hand does: each closing and opening in turn, else how it stays."""
    events = [(c.contact, "closes") for c in motion.cycles]
    events += [(c.let_go, "opens") for c in motion.cycles if c.let_go is not None]
    event_names = [word for frame, word in sorted(events) if segment.start <= frame < segment.end]
    if event_names:
        return ", then ".join(event_names)
    is_holding = any(motion.holds(cycle, segment.start) for cycle in motion.cycles)
    assert motion.closed is not None
    closed = is_holding or bool(np.median(motion.closed[segment.start : segment.end]) > _OPEN)
    return "stays closed" if closed else "stays open"
