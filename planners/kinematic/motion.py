"""The motion of a robot in an episode: grasps, lifts and pauses of its arms, drives of its base."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.roles import is_rate
from goalreel.planners.kinematic.signals import (
    ArmCommand,
    Curve,
    Cycle,
    arm_moves,
    arm_speed,
    closure,
    cycles,
    hand_signal,
    moves,
    read_command,
    smooth,
    unwrap,
)
from goalreel.types import Recording

_TRAVEL = 0.05
"""Metres or radians that a drive covers, at least."""
_LEAST_S, _GAP_S = 1.0, 0.5
"""Seconds that a drive takes, at least, and seconds that part two drives."""
_DRIVES = 0.15
"""Share of its greatest speed above which a base drives."""
_ARM_STANDS = 0.2
"""Share of its greatest speed below which an arm stands."""


def find_drives(recording: Recording, layout: Layout, arm_speed: Curve) -> list[tuple[int, int]]:
    """Spans of frames [start, end) in which the base drives and the arm stands, in order.

    Args:
        recording: of the robot.
        layout: with the dimensions of the base.
        arm_speed: (n,), as `signals.arm_speed` computes it.
    """
    if not layout.base or len(recording.timestamps) < 2:
        return []
    from_state = layout.base_source == "state"
    values = recording.state if from_state else recording.action
    names = recording.state_names if from_state else recording.action_names
    rates = [is_rate(names[i]) if len(names) == values.shape[1] else not from_state for i in layout.base]
    drives = np.zeros(len(values), bool)
    speeds = [
        _base_speed(values[:, i], rate, recording.fps) for i, rate in zip(layout.base, rates, strict=True)
    ]
    for speed in speeds:
        drives |= speed > _DRIVES * max(float(speed.max()), 1e-9)
    drives &= arm_speed <= _ARM_STANDS * arm_speed.max()
    gap, n = round(_GAP_S * recording.fps), len(values)
    spans = [(a if a >= gap else 0, b if n - b >= gap else n) for a, b in _spans(drives, gap)]
    return [
        (a, b)
        for a, b in spans
        if b - a >= _LEAST_S * recording.fps
        and max(float(speed[a:b].sum()) / recording.fps for speed in speeds) >= _TRAVEL
    ]


def _base_speed(values: NDArray[np.floating], rate: bool, fps: float) -> Curve:
    """How fast one dimension goes, (n,); 0 throughout for noise."""
    curve = values.astype(np.float64) if rate else unwrap(values)
    if not moves(curve):
        return np.zeros(len(curve))
    width = round(0.2 * fps)
    return np.abs(smooth(curve, width) if rate else smooth(np.gradient(smooth(curve, width)) * fps, width))


def _spans(mask: NDArray[np.bool_], gap: int) -> list[tuple[int, int]]:
    """Runs of frames of a mask; shorter gaps than `gap` are closed."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]]))).reshape(-1, 2)
    spans: list[tuple[int, int]] = []
    for start, end in edges.tolist():
        if spans and start - spans[-1][1] < gap:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


_CARRY = 0.05
"""With a smaller share of its extent between grasp and release, the arm carried nothing."""
_RISEN, _LOW = 0.15, 0.05
"""Shares of the height's range: an open hand above the first has left the object, below the second is
back."""
_PUSH = 0.1
"""Share of the arm's extent that a low hand must move to push an object."""
_SLOW = 0.4
"""Share of the arm's usual speed below which it stands."""
_NEAR = 0.1
"""Share of the arm's extent within which two places are one."""
_STRAIN = 0.5
"""Share of the usual command from which an arm that stands is held back by something."""
_IN_THE_WAY, _CLEARLY = 0.3, 5.0
"""What is in the way of an arm makes it miss so much of its usual step, and so many times its usual miss."""
_SETTLES_S = 1.0
"""Seconds of a recording before which is not known how the arm was told to move."""


@dataclass(frozen=True, slots=True)
class ArmMotion:
    """The motion of an arm in an episode. `path` is (n, dims) in the recording's own units."""

    fps: float
    path: Curve
    speed: Curve
    height: Curve | None
    closed: Curve | None
    """How closed the hand is, 0-1; None where there is no hand or it never moves."""
    cycles: tuple[Cycle, ...]
    hand: tuple[int, ...] = ()
    """The gripper's dimensions."""
    command: ArmCommand | None = None
    """How the arm is told to go on; None without such a command."""
    drives: tuple[tuple[int, int], ...] = ()
    """Frames [start, end) in which a mobile base drives and the arm stands."""
    is_still: bool = False
    """The arm's numbers show noise alone, or there are none."""

    def __len__(self) -> int:
        return len(self.path)

    @property
    def extent(self) -> float:
        """The size of the space that the arm visits."""
        return float(np.linalg.norm(np.ptp(self.path, axis=0))) if self.path.shape[1] else 0.0

    def carry_distance(self, cycle: Cycle) -> float:
        """The greatest distance of the arm from the place of the grasp, before the release."""
        end = len(self) if cycle.release is None else cycle.release
        away = np.linalg.norm(self.path[cycle.grasp : end] - self.path[cycle.grasp], axis=1)
        return float(away.max(initial=0.0))

    def failed(self, cycle: Cycle) -> bool:
        """Whether a grasp carried nothing, or hardly anything in a second: it closed on air or slipped."""
        end = len(self) if cycle.release is None else cycle.release
        if self.drives_between(cycle.contact, end):
            return False
        short = end - cycle.contact <= self.fps
        return self.carry_distance(cycle) < (3 * _CARRY if short else _CARRY) * self.extent

    def drives_between(self, start: int, end: int) -> bool:
        """Whether the base takes the arm elsewhere: then its places cannot be compared."""
        return any(start < b and a < end for a, b in self.drives)

    def closure(self, cycle: Cycle) -> Curve:
        """How closed the hand is from contact to release, 0-1; never empty."""
        if self.closed is None:
            raise ValueError("no hand, no cycle")
        return self.closed[cycle.contact : cycle.release]

    def holds(self, cycle: Cycle, frame: int) -> bool:
        """Whether this grasp keeps the hand from being open at a frame."""
        return cycle.grasp <= frame < (len(self) if cycle.free is None else cycle.free)

    def between(self, first: Cycle, second: Cycle) -> int:
        """The first frame that belongs to the second grasp; the retreat before it belongs to the first."""
        start = first.grasp if first.free is None else first.free
        return self.retreat_end(start, second.grasp)

    def apart(self, first: Cycle, second: Cycle) -> float:
        """Distance from a release to the next grasp: small when the same object is grasped again.

        Infinite where the base drives between them.
        """
        release = len(self) - 1 if first.release is None else first.release
        if self.drives_between(release, second.grasp):
            return float("inf")
        return float(np.linalg.norm(self.path[second.grasp] - self.path[release]))

    def _stop(self, cycle: Cycle) -> int:
        """The frame, no earlier than the contact, at which an arm that closes its hand on the way stops.

        That is where it first stands, or turns from down to up; the contact itself where it stood
        while the hand closed, and did not go down in the next second.
        """
        slow = self.speed < _SLOW * np.percentile(self.speed, 80)
        slow[: int(slow.argmin())] = False  # before it sets out
        end = len(self) if cycle.release is None else cycle.release
        slow_part = slow[cycle.contact : end]
        stop = cycle.contact + int(slow_part.argmax()) if slow_part.any() else end
        if slow[cycle.grasp : cycle.contact + 1].any():
            stop = cycle.contact
        if self.height is None:
            return stop
        second, enough = round(self.fps), 0.03 * np.ptp(self.height)
        heights = self.height[cycle.contact : max(stop, min(end, cycle.contact + second)) + 1]
        rises = heights - np.minimum.accumulate(heights) > enough
        low = int(heights[: int(rises.argmax()) + 1 if rises.any() else None].argmin())
        came_down = (
            self.height[max(0, cycle.contact - second) : cycle.contact + 1].max() - heights[low] > enough
        )
        if heights[0] - heights[low] > _LOW * np.ptp(self.height) or (rises.any() and came_down):
            return cycle.contact + low
        return stop

    def closes_on_the_way(self, cycle: Cycle) -> bool:
        """Whether the arm goes on to another place after its hand has closed, and stops there first."""
        if cycle.contact >= len(self) - 1:
            return False
        stop = min(self._stop(cycle), len(self) - 1)
        return bool(np.linalg.norm(self.path[stop] - self.path[cycle.contact]) > _NEAR * self.extent)

    def releases_apart(self, first: Cycle, second: Cycle) -> float:
        """Distance between two releases; infinite where one of them is not in the recording."""
        if first.release is None or second.release is None:
            return float("inf")
        return float(np.linalg.norm(self.path[first.release] - self.path[second.release]))

    def retreat_end(self, start: int, end: int) -> int:
        """The first frame after the retreat that begins at `start`, before the next grasp at `end`.

        With a height it is the first frame within 5 % of the peak, else the frame of the longest detour.
        """
        if end - start < 2:
            return end
        if self.height is not None:
            rise = self.height[start : end + 1] - self.height[start]
            if rise.max() > 0.05 * np.ptp(self.height):
                return min(end, start + 1 + int(np.argmax(rise >= 0.95 * rise.max())))
        return min(end, start + 1 + int(np.argmax(self._detour(start, end))))

    def rises(self, start: int, end: int, share: float = 0.03) -> int:
        """The first frame in [start, end) that is higher than `start` by a share of the height's range.

        `end` if there is none; `start` itself without a height.
        """
        if self.height is None or end - start < 2:
            return start
        above = self.height[start:end] - self.height[start] > share * np.ptp(self.height)
        return start + int(above.argmax()) if above.any() else end

    def drags(self, cycle: Cycle, share: float = _LOW) -> bool:
        """Whether the hand never rises before the release, by a share of the height's range.

        False without a height.
        """
        if self.height is None:
            return False
        heights = self.height[cycle.contact : cycle.release]
        return bool(heights.max() - heights[0] <= share * np.ptp(self.height))

    def pushes(self, start: int, end: int) -> int | None:
        """The frame at which the open hand, risen since the release at `start`, is down and moves sideways.

        None where it does not do so before `end`, as an arm that comes to rest, and without a height.
        """
        if self.height is None or end - start < 2:
            return None
        above = (self.height[start:end] - self.height[start]) / max(float(np.ptp(self.height)), 1e-9)
        risen = int(np.argmax(above > _RISEN))
        low = risen + np.flatnonzero(above[risen:] < _LOW)
        if above.max(initial=0.0) <= _RISEN or not len(low):
            return None
        if above[-1] < _LOW and np.linalg.norm(self.path[end - 1] - self.path[0]) <= _NEAR * self.extent:
            return None  # it has gone home, which is low
        low_path = self.path[start + low]
        distance = np.linalg.norm(np.ptp(low_path, axis=0)) if len(low) > 1 else 0.0
        return start + int(low[0]) if distance > _PUSH * self.extent else None

    def _detour(self, start: int, end: int) -> Curve:
        """For every frame of [start, end], the length of the way from the first through it to the last."""
        span = self.path[start : end + 1]
        return np.linalg.norm(span - span[0], axis=1) + np.linalg.norm(span - span[-1], axis=1)

    def strains(self, start: int) -> bool:
        """Whether the arm is told to go on as it usually is, from `start` to the end, where it stands."""
        if self.command is None:
            return False
        effort = self.command.effort
        return bool(np.median(effort[start:]) > _STRAIN * np.percentile(effort, 80) > 0)

    def held_back(self, start: int = 0) -> int | None:
        """The first frame from `start` on, and after a second, with something in the arm's way.

        None where none is known.
        """
        resistance = None if self.command is None else self.command.resistance(self.fps)
        if resistance is None:
            return None
        least = max(_IN_THE_WAY, _CLEARLY * float(np.median(resistance)))
        frames = np.flatnonzero(resistance > least)
        return next((int(frame) for frame in frames if frame >= max(start, _SETTLES_S * self.fps)), None)

    def pauses(self) -> list[tuple[int, int]]:
        """Spans of at least 0.3 s within the episode in which the arm nearly stands; longest first."""
        still = self.speed < 0.15 * np.percentile(self.speed, 80) if len(self) else np.zeros(0, bool)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], still.astype(int), [0]])))
        spans = [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
        rim = 0.5 * self.fps
        inner = [(a, b) for a, b in spans if a > rim and b < len(self) - rim and b - a >= 0.3 * self.fps]
        return sorted(inner, key=lambda s: (s[0] - s[1], s[0]))

    def upright(self, start: int, end: int, *, last: bool) -> int:
        """The frame in [start, end) at which motion turns from sideways to vertical (`last`), or back."""
        if self.height is None or end - start < 2:
            return end if last else start
        velocity = np.gradient(self.path, axis=0)[start:end]
        rise = np.abs(np.gradient(self.height)[start:end])
        sideways = np.sqrt(np.maximum((velocity**2).sum(axis=1) - rise**2, 0))
        fast = np.hypot(rise, sideways) > 0.2 * np.percentile(np.hypot(rise, sideways), 90)
        sideways_frames = np.flatnonzero(fast & (sideways > rise))
        if not len(sideways_frames):
            return start if last else end
        return start + int(sideways_frames[-1]) + 1 if last else start + int(sideways_frames[0])


def read_motion(recording: Recording, layout: Layout) -> ArmMotion:
    """Compute an episode's motion under a complete layout (`layout.find_layout`)."""
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
            closed = closure(fingers, recording.fps, layout.closed, layout.threshold)
    grasps = ()
    if closed is not None:
        grasps = tuple(cycles(closed, recording.fps, _command(recording, layout, closed)))
    speed = arm_speed(path, recording.fps)
    command = read_command(recording, layout)
    drives = tuple(find_drives(recording, layout, speed))
    motion = ArmMotion(
        fps=recording.fps,
        path=path,
        speed=speed,
        height=height,
        closed=closed,
        cycles=grasps,
        hand=layout.gripper,
        command=command,
        drives=drives,
        is_still=not arm_moves(body[:, list(layout.position)]),
    )
    return replace(motion, cycles=tuple(_from_lift(cycle, motion) for cycle in grasps))


def _from_lift(cycle: Cycle, motion: ArmMotion) -> Cycle:
    """Let the contact be no later than the lift: a hand that rises half closed holds, and may squeeze on."""
    if motion.closed is None or motion.height is None:
        return cycle
    closing = motion.closed[cycle.grasp : cycle.contact + 1]
    half = cycle.grasp + int((closing >= (closing[0] + closing[-1]) / 2).argmax())
    return replace(cycle, contact=min(cycle.contact, motion.rises(half, cycle.contact + 1)))


def _command(recording: Recording, layout: Layout, closed: Curve) -> Curve | None:
    """The command of the gripper, 1 closed, where the action has the names of the state."""
    same = recording.action_names == recording.state_names and recording.action.shape == recording.state.shape
    if layout.source != "state" or not same:
        return None
    command = hand_signal(recording.action[:, list(layout.gripper)])
    if not np.ptp(command) or not np.ptp(closed):
        return None
    command = (command - command.min()) / np.ptp(command)
    return command if np.corrcoef(command, closed)[0, 1] > 0 else 1 - command


@dataclass(frozen=True)
class ArmsMotion:
    """An episode's motion. Where two hands act, `motion` has the places of both, and their grasps in turn."""

    motion: ArmMotion
    sides: Mapping[Cycle, str]
    """Which hand makes each grasp, `left` or `right`; empty for a robot with one hand."""
    at_once: bool = False
    """Whether two hands are closed at the same time, as if both held something."""


def read_arms(recording: Recording, layout: Layout) -> ArmsMotion:
    """Compute an episode's motion under a complete layout. A hand that carries nothing is left out."""
    hands = [(hand, read_motion(recording, hand)) for hand in layout.hands]
    acting = [(hand, m) for hand, m in hands if not all(map(m.failed, m.cycles))]
    chosen, at_once = acting or hands[:1], _overlap([m for _, m in hands])
    sides = {cycle: hand.side for hand, m in chosen for cycle in m.cycles if layout.other and hand.side}
    if len(chosen) == 1:
        return ArmsMotion(chosen[0][1], sides, at_once)
    first, second = (m for _, m in chosen)
    path = np.concatenate([first.path, second.path], axis=1)
    speed = arm_speed(path, recording.fps)
    motion = ArmMotion(
        fps=recording.fps,
        path=path,
        speed=speed,
        height=None,
        closed=_either(first.closed, second.closed),
        cycles=_in_turn((*first.cycles, *second.cycles)),
        hand=(*first.hand, *second.hand),
        drives=tuple(find_drives(recording, layout, speed)),
        is_still=first.is_still and second.is_still,
    )
    return ArmsMotion(motion, sides, at_once)


def _either(first: Curve | None, second: Curve | None) -> Curve | None:
    """How closed the hand is that is closed more."""
    if first is None or second is None:
        return first if second is None else second
    return np.maximum(first, second)


def _in_turn(cycles: Sequence[Cycle]) -> tuple[Cycle, ...]:
    """The grasps in order, without those that begin while another hand holds something."""
    turns: list[Cycle] = []
    for cycle in sorted(cycles, key=lambda c: c.grasp):
        if not turns or (turns[-1].release is not None and cycle.grasp >= turns[-1].release):
            turns.append(cycle)
    return tuple(turns)


def _overlap(motions: Sequence[ArmMotion]) -> bool:
    """Whether the grasps of different hands overlap, but for those that are brief and carry nothing."""
    spans = [
        [
            (cycle.grasp, len(motion) if cycle.release is None else cycle.release)
            for cycle in motion.cycles
            if not motion.failed(cycle) or (cycle.release or len(motion)) - cycle.contact > motion.fps
        ]
        for motion in motions
    ]
    return any(
        a < d and c < b
        for first, second in itertools.combinations(spans, 2)
        for (a, b), (c, d) in itertools.product(first, second)
    )
