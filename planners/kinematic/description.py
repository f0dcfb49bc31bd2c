"""Describe a motion without the words of an instruction: segments, phases of the hand and possible cuts.

No object is named, so the texts are true whatever the instruction says. Lengths and places are in the units
of the recording.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from goalreel.planners.kinematic import robot, signals
from goalreel.planners.kinematic.layout import Layout, check_recording, names_of, values_of
from goalreel.planners.kinematic.motion import ArmMotion, read_arms, read_motion
from goalreel.types import MotionPhase, Recording, Segment

_MOVED, _UP = 0.05, 0.1  # shares of the arm's extent, and of the height's range, that count as a movement
_OPEN = 0.5  # a hand closed by less than this share of its range is open, where no grasp tells


class MotionDescription:
    """Describes the segments of one episode, under a complete layout (`layout.find_layout`)."""

    def __init__(self, recording: Recording, layout: Layout) -> None:
        self._body = values_of(recording, "body")
        self._names = names_of(recording, "body") or [f"[{i}]" for i in range(self._body.shape[1])]
        self._hands = [(hand, read_motion(recording, hand)) for hand in layout.hands]

    def motion(self, segment: Segment) -> str:
        """Describe how the robot moves."""
        return "; ".join(", ".join(_moves(hand, m, segment, self._side(hand))) for hand, m in self._hands)

    def pose(self, segment: Segment) -> str:
        """Describe where the robot is at the last frame."""
        return "; ".join(self._pose(hand, m, segment.end - 1) for hand, m in self._hands)

    def failure(self, segment: Segment) -> str | None:
        """Say why a step failed; None where the motion does not tell."""
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
    if not _moved(path, motion):
        yield f"the {side}arm rests"
    elif motion.height is None or hand.vertical not in hand.position:
        yield f"the {side}arm moves"
    else:
        rise = float(motion.height[segment.end - 1] - motion.height[segment.start])
        flat = np.delete(path[-1] - path[0], hand.position.index(hand.vertical))
        is_rise = abs(rise) > _UP * motion.height_range
        ways = [f"{'up' if rise > 0 else 'down'} by {abs(rise):.3g}"] if is_rise else []
        if (sideways := float(np.linalg.norm(flat))) > _MOVED * motion.extent:
            ways.append(f"sideways by {sideways:.3g}")
        yield f"the {side}arm moves {' and '.join(ways) or 'and comes back'}"
    if motion.closed is not None and hand.closed:
        yield f"the {side}hand {_hand(motion, motion.closed, segment)}"


def _moved(path: signals.Curve, motion: ArmMotion) -> bool:
    """Tell whether the arm has moved on part of its path."""
    return len(path) > 0 and bool(np.linalg.norm(np.ptp(path, axis=0)) > _MOVED * motion.extent)


def _hand(motion: ArmMotion, closure: signals.Curve, segment: Segment) -> str:
    """Describe the hand: each closing and opening in turn, else how it stays."""
    events = [(c.contact, "closes") for c in motion.cycles]
    events += [(c.let_go, "opens") for c in motion.cycles if c.let_go is not None]
    words = [word for frame, word in sorted(events) if segment.start <= frame < segment.end]
    is_holding = any(motion.holds(cycle, segment.start) for cycle in motion.cycles)
    is_closed = is_holding or np.median(closure[segment.start : segment.end]) > _OPEN
    return ", then ".join(words) or ("stays closed" if is_closed else "stays open")


CLOSES, OPENS = "the hand closes", "the hand opens"
_ARM = "the arm {} with the hand {}"
HAND_MOTIONS = frozenset(
    (CLOSES, OPENS, *(_ARM.format(does, hand) for does in ("moves", "rests") for hand in ("open", "closed")))
)
"""Every name of a phase of the hand."""


def hand_phases(motion: ArmMotion) -> list[MotionPhase]:
    """The phases of the hand in order; frames of which nothing is sure belong to none.

    Empty without a hand that moves, and where one takes over from another.
    """
    if motion.closed is None or not motion.cycles or motion.handovers:
        return []
    return [
        MotionPhase(name=name, segment=Segment(start=start, end=end))
        for name, start, end in _spans(motion, motion.closed)
        if end > start
    ]


def _spans(motion: ArmMotion, closure: signals.Curve) -> Iterator[tuple[str, int, int]]:
    """(name, first frame, end); a hand less closed than in every grasp holds nothing."""
    least = min(float(motion.closure(cycle).min()) for cycle in motion.cycles)

    def arm(start: int, end: int, hand: str) -> tuple[str, int, int]:
        does = "moves" if _moved(motion.path[start : end + 1], motion) else "rests"
        return _ARM.format(does, hand), start, end

    n, free = len(motion), 0
    for cycle in motion.cycles:
        grasp, contact = max(free, cycle.grasp), max(free, cycle.contact)
        if closure[free:grasp].max(initial=0.0) < least:
            yield arm(free, grasp, "open")
        yield CLOSES, grasp, contact
        release = max(contact, motion.release(cycle))
        yield arm(contact, release, "closed")
        free = max(release, motion.free(cycle))
        yield OPENS, release, free
    if closure[free:].max(initial=0.0) < least:
        yield arm(free, n, "open")


type Cue = Literal["closed", "opened", "still", "slow"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A frame that may be a boundary, and why."""

    frame: int
    cue: Cue
    """`closed`: the hand has closed. `opened`: it begins to open, or is half open. `still`: the middle of a
    pause. `slow`: the arm is slowest within half a second."""


def proposals(recording: Recording, layout: Layout | None = None) -> tuple[Proposal, ...]:
    """List possible boundaries, rather too many than too few: ascending frames inside (0, n), each once.

    Raises:
        Unsegmentable: `check_recording` refuses the recording, or `layout` does not fit it.
    """
    check_recording(recording)
    motion = read_arms(recording, robot.find_layout(recording, layout))
    opened = [f for c in motion.cycles for f in (c.release, c.let_go) if f is not None]
    opened += [handover.at for handover in motion.handovers]
    every: list[tuple[Cue, list[int]]] = [
        ("slow", _slow(motion)),
        ("still", [(start + end) // 2 for start, end in motion.pauses()]),
        ("opened", opened),
        ("closed", [cycle.contact for cycle in motion.cycles]),
    ]
    cues = {frame: cue for cue, frames in every for frame in frames}  # the surest one of a frame is last
    return tuple(Proposal(frame, cues[frame]) for frame in sorted(cues) if 0 < frame < len(motion))


def _slow(motion: ArmMotion) -> list[int]:
    """Frames below half of the arm's usual speed that are the slowest within half a second on either side."""
    speed, reach = motion.speed, max(1, round(0.5 * motion.fps))
    slow = np.flatnonzero(speed < 0.5 * motion.usual_speed)
    windows = [(int(i), speed[max(0, i - reach) : i + reach + 1]) for i in slow]
    return [i for i, window in windows if speed[i] == window.min()]
