"""Where an arm's path has its joints: retreats, descents, lifts and pauses."""

from dataclasses import dataclass

import numpy as np

from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.signals import (
    Curve,
    Cycle,
    arm_speed,
    closure,
    cycles,
    hand_signal,
    moves,
    smooth,
    unwrap,
)
from goalreel.types import Recording

_CARRY = 0.05
"""A grasp that moves the arm less than this share of its extent carried nothing."""
_RISEN, _LOW = 0.15, 0.05
"""Shares of the height's range by which an open hand must have left a thing, and be back at it."""
_PUSH = 0.1
"""Share of the arm's extent that it must go while it is low to have pushed something."""


@dataclass(frozen=True, slots=True)
class ArmMotion:
    """An episode's arm in numbers. `path` is (n, dims) in the units recorded."""

    fps: float
    path: Curve
    speed: Curve
    height: Curve | None
    closed: Curve | None
    """How closed the hand is, 0-1; None where there is no hand, or it never moves."""
    cycles: tuple[Cycle, ...]

    def __len__(self) -> int:
        return len(self.path)

    @property
    def extent(self) -> float:
        """The size of the space the arm visits."""
        return float(np.linalg.norm(np.ptp(self.path, axis=0))) if self.path.shape[1] else 0.0

    def carried(self, cycle: Cycle) -> float:
        """How far the arm got from the grasp while it held on."""
        end = len(self) if cycle.release is None else cycle.release
        away = np.linalg.norm(self.path[cycle.grasp : end] - self.path[cycle.grasp], axis=1)
        return float(away.max(initial=0.0))

    def failed(self, cycle: Cycle) -> bool:
        """Carried nothing, or hardly anything within a second: closed on air, or slipped."""
        end = len(self) if cycle.release is None else cycle.release
        short = end - cycle.held <= self.fps
        return self.carried(cycle) < (3 * _CARRY if short else _CARRY) * self.extent

    def closure(self, cycle: Cycle) -> Curve:
        """How closed the hand is while it holds on, 0-1; never empty."""
        if self.closed is None:
            raise ValueError("no hand, no cycle")
        return self.closed[cycle.held : cycle.release]

    def holds(self, cycle: Cycle, frame: int) -> bool:
        """Whether the hand is not open at a frame because of this grasp."""
        return cycle.grasp <= frame < (len(self) if cycle.free is None else cycle.free)

    def between(self, before: Cycle, after: Cycle) -> int:
        """The first frame that belongs to the later of two grasps: the retreat belongs to the earlier."""
        opened = before.grasp if before.free is None else before.free
        return self.retreated(opened, after.grasp)

    def apart(self, first: Cycle, second: Cycle) -> float:
        """Distance from a release to the next grasp: small when the same thing is grasped again."""
        release = len(self) - 1 if first.release is None else first.release
        return float(np.linalg.norm(self.path[second.grasp] - self.path[release]))

    def retreated(self, start: int, end: int) -> int:
        """The first frame after the retreat that begins at `start`, before the next grasp at `end`.

        With a height: where it first comes within 5 % of its peak. Else the frame of the longest detour.
        """
        if end - start < 2:
            return end
        if self.height is not None:
            rise = self.height[start : end + 1] - self.height[start]
            if rise.max() > 0.05 * np.ptp(self.height):
                return min(end, start + 1 + int(np.argmax(rise >= 0.95 * rise.max())))
        return min(end, start + 1 + int(np.argmax(self._detour(start, end))))

    def rises(self, start: int, end: int, share: float = 0.03) -> int:
        """The first frame in [start, end) above `start` by more than a share of the height's range; `end` if
        there is none, `start` itself without a height."""
        if self.height is None or end - start < 2:
            return start
        above = self.height[start:end] - self.height[start] > share * np.ptp(self.height)
        return start + int(above.argmax()) if above.any() else end

    def drags(self, cycle: Cycle) -> bool:
        """Whether the hand never rises while it holds on; not without a height."""
        if self.height is None:
            return False
        held = self.height[cycle.held : cycle.release]
        return bool(held.max() - held[0] <= _LOW * np.ptp(self.height))

    def pushes(self, start: int, end: int) -> int | None:
        """Where the open hand, which let go at `start` and rose, is down again and goes on sideways.

        None where it is not so before `end`, as for an arm that comes to rest, and without a height.
        """
        if self.height is None or end - start < 2:
            return None
        above = (self.height[start:end] - self.height[start]) / max(float(np.ptp(self.height)), 1e-9)
        risen = int(np.argmax(above > _RISEN))
        low = risen + np.flatnonzero(above[risen:] < _LOW)
        if above.max(initial=0.0) <= _RISEN or not len(low):
            return None
        there = self.path[start + low]
        gone = np.linalg.norm(np.ptp(there, axis=0)) if len(low) > 1 else 0.0
        return start + int(low[0]) if gone > _PUSH * self.extent else None

    def _detour(self, start: int, end: int) -> Curve:
        """For every frame of [start, end]: how long the way is from the first to the last through it."""
        span = self.path[start : end + 1]
        return np.linalg.norm(span - span[0], axis=1) + np.linalg.norm(span - span[-1], axis=1)

    def pauses(self) -> list[tuple[int, int]]:
        """Interior spans, at least 0.3 s long, in which the arm nearly stands; longest first."""
        still = self.speed < 0.15 * np.percentile(self.speed, 80) if len(self) else np.zeros(0, bool)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], still.astype(int), [0]])))
        spans = [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
        rim = 0.5 * self.fps
        inner = [(a, b) for a, b in spans if a > rim and b < len(self) - rim and b - a >= 0.3 * self.fps]
        return sorted(inner, key=lambda s: (s[0] - s[1], s[0]))

    def upright(self, start: int, end: int, *, last: bool) -> int:
        """Where motion in [start, end) turns from sideways to vertical (`last`) or back (not `last`)."""
        if self.height is None or end - start < 2:
            return end if last else start
        velocity = np.gradient(self.path, axis=0)[start:end]
        rise = np.abs(np.gradient(self.height)[start:end])
        sideways = np.sqrt(np.maximum((velocity**2).sum(axis=1) - rise**2, 0))
        fast = np.hypot(rise, sideways) > 0.2 * np.percentile(np.hypot(rise, sideways), 90)
        found = np.flatnonzero(fast & (sideways > rise))
        if not len(found):
            return start if last else end
        return start + int(found[-1]) + 1 if last else start + int(found[0])


def read_motion(recording: Recording, layout: Layout) -> ArmMotion:
    """An episode's motion under a layout found or given (`layout.find_layout`)."""
    body = recording.state if recording.state.shape[1] else recording.action
    source = recording.state if layout.source == "state" else recording.action
    path = smooth(unwrap(body[:, list(layout.position)]), round(0.2 * recording.fps))
    height = None
    if layout.vertical is not None:
        height = smooth(body[:, layout.vertical], round(0.2 * recording.fps))
    closed = None
    if layout.gripper:
        fingers = source[:, list(layout.gripper)]
        if moves(hand_signal(fingers)):
            closed = closure(fingers, recording.fps, layout.closed)
    grasps = () if closed is None else tuple(cycles(closed, recording.fps))
    return ArmMotion(recording.fps, path, arm_speed(path, recording.fps), height, closed, grasps)
