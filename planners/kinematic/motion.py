"""The motion of a robot in an episode: grasps, lifts and pauses of its arms, drives of its base."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic import roles, signals
from goalreel.planners.kinematic.layout import Layout, as_places, names_of, values_of
from goalreel.planners.kinematic.signals import ArmCommand, Curve, Cycle, moves, smooth, unwrap
from goalreel.types import Recording

_OPEN, _STOPS = 0.2, 0.25  # closure of an open hand, and share of its greatest speed below which it stops
_SETTLED = 0.1  # share of its greatest speed below which a hand has settled on a thing
# Shares of the arm's extent:
_CARRY = 0.05  # an arm that goes less far between grasp and release carried nothing
_NEAR = 0.1  # two places within it are one
# Shares of the height's range:
_LOW = 0.05  # a hand that rises less stays low
# Shares of what is usual:
_SLOW = 0.4  # the arm stands below this share of its speed
_STANDS = 0.15  # the same of an arm that waits
_STRAIN = 0.5  # something holds an arm back that stands and is told to go on by this share of the command
_IN_THE_WAY, _CLEARLY = 0.3, 5.0  # a step that meets something misses by this, and by so many usual misses
_ALONE_S = 0.5  # seconds for which a hand holds alone, at least, what it has taken from the other
_SETTLES_S = 1.0  # seconds of a recording before which is not known how the arm was told to move
_AXES = 3  # of a place in metres
# Of a mobile base:
_TRAVEL = 0.05  # metres or radians that a drive covers, at least
_LEAST_S, _GAP_S = 1.0, 0.5  # seconds that a drive takes, at least, and seconds that part two drives
_DRIVES, _ARM_STANDS = 0.15, 0.2  # shares of the greatest speed: a base drives above, an arm stands below


@dataclass(frozen=True, slots=True)
class Handover:
    """Two grasps of which the second takes what the first lets go."""

    given: Cycle
    taken: Cycle

    @property
    def at(self) -> int:
        """The frame at which the giving hand is halfway open."""
        assert self.given.let_go is not None
        return self.given.let_go


@dataclass(frozen=True, slots=True)
class ArmMotion:
    """The motion of an arm in an episode. `path` is (n, dims) in the recording's own units."""

    fps: float
    path: Curve
    speed: Curve
    height: Curve | None
    closed: Curve | None
    """Closure of the hand, 0-1; None where there is no hand or it never moves."""
    cycles: tuple[Cycle, ...]
    command: ArmCommand | None = None
    """The place or speed that the arm is told; None without such a command."""
    drives: tuple[tuple[int, int], ...] = ()
    """Frames [start, end) in which a mobile base drives and the arm stands."""
    is_still: bool = False
    """The arm's numbers show noise alone, or there are none."""
    sides: Mapping[Cycle, str] = field(default_factory=dict)
    """The hand that makes each grasp, `left` or `right`; empty for a robot with one."""
    handovers: tuple[Handover, ...] = ()
    """In order; what goes from hand to hand is held in one of the `cycles`, until the last hand lets go."""
    commanded: bool = False
    """Only the command of the hand is known, which says open or closed."""
    waits_unseen: bool = False
    """The arm waits for long while such a hand closes, and no picture shows when it has."""
    at_once: bool = False
    """Two hands are closed at the same time, as if both held something, and do not hand it over."""

    def __len__(self) -> int:
        return len(self.path)

    @property
    def extent(self) -> float:
        """The size of the space that the arm visits."""
        return float(np.linalg.norm(np.ptp(self.path, axis=0))) if self.path.shape[1] else 0.0

    @property
    def heights(self) -> Curve:
        """The height in each frame; 0 throughout without one."""
        return np.zeros(len(self)) if self.height is None else self.height

    @property
    def height_range(self) -> float:
        """The difference between the highest and the lowest frame; 0 without a height."""
        return float(np.ptp(self.heights))

    @property
    def usual_speed(self) -> float:
        """The speed that a fifth of the frames exceed."""
        return float(np.percentile(self.speed, 80)) if len(self) else 0.0

    def release(self, cycle: Cycle) -> int:
        """The frame at which a hand begins to open, or the end."""
        return len(self) if cycle.release is None else cycle.release

    def let_go(self, cycle: Cycle) -> int:
        """The frame at which a hand is halfway open, or the end."""
        return len(self) if cycle.let_go is None else cycle.let_go

    def free(self, cycle: Cycle) -> int:
        """The frame at which a hand is open again, or the end."""
        return len(self) if cycle.free is None else cycle.free

    def distance(self, first: int, second: int) -> float:
        """The distance of the arm's places in two frames."""
        return float(np.linalg.norm(self.path[first] - self.path[second]))

    def away(self, start: int, end: int, origin: int) -> Curve:
        """The distance of the arm, in each of [start, end), from where it is at `origin`."""
        return np.linalg.norm(self.path[start:end] - self.path[origin], axis=1)

    def carry_distance(self, cycle: Cycle) -> float:
        """The greatest distance of the arm from the place of the grasp, before the release."""
        return float(self.away(cycle.grasp, self.release(cycle), cycle.grasp).max(initial=0.0))

    def failed(self, cycle: Cycle) -> bool:
        """Tell whether a grasp carried nothing, or hardly anything in a second: it slipped or held air."""
        end = self.release(cycle)
        if self.drives_between(cycle.contact, end):
            return False
        short = end - cycle.contact <= self.fps
        return self.carry_distance(cycle) < (3 * _CARRY if short else _CARRY) * self.extent

    def drives_between(self, start: int, end: int) -> bool:
        """Tell whether the base takes the arm elsewhere: then its places cannot be compared."""
        return any(start < b and a < end for a, b in self.drives)

    def closure(self, cycle: Cycle) -> Curve:
        """Closure of the hand from contact to release, 0-1; never empty."""
        assert self.closed is not None
        return self.closed[cycle.contact : cycle.release]

    def holds(self, cycle: Cycle, frame: int) -> bool:
        """Tell whether this grasp keeps the hand from being open at a frame."""
        return cycle.grasp <= frame < self.free(cycle)

    def between(self, first: Cycle, second: Cycle) -> int:
        """The first frame that belongs to the second grasp; the retreat before it belongs to the first."""
        return self.retreat_end(first.grasp if first.free is None else first.free, second.grasp)

    def apart(self, first: Cycle, second: Cycle) -> float:
        """Distance from a release to the next grasp; infinite where the base drives between them."""
        release = min(self.release(first), len(self) - 1)
        drives = self.drives_between(release, second.grasp)
        return float("inf") if drives else self.distance(second.grasp, release)

    def lets_go_at(self, cycle: Cycle, taken: Cycle, near: float) -> bool:
        """Tell whether the hand opens within `near` of where it closed in `taken`, before or after."""
        if cycle.release is None or cycle.let_go is None:
            return False
        drives = self.drives_between(*sorted((cycle.release, taken.contact)))
        return not drives and bool(self.away(cycle.release, cycle.let_go + 1, taken.contact).min() < near)

    def _stop(self, cycle: Cycle) -> int:
        """The frame at which an arm that closes its hand on the way first stands, or turns from down to up.

        It is the contact itself where it stood while the hand closed, and did not go down in the next second.
        """
        slow = self.speed < _SLOW * self.usual_speed
        slow[: int(slow.argmin())] = False  # before it sets out
        end = self.release(cycle)
        slow_part = slow[cycle.contact : end]
        stop = cycle.contact + int(slow_part.argmax()) if slow_part.any() else end
        if slow[cycle.grasp : cycle.contact + 1].any():
            stop = cycle.contact
        if self.height is None:
            return stop
        second, enough = round(self.fps), 0.03 * self.height_range
        heights = self.height[cycle.contact : max(stop, min(end, cycle.contact + second)) + 1]
        rises = heights - np.minimum.accumulate(heights) > enough
        low = int(heights[: int(rises.argmax()) + 1 if rises.any() else None].argmin())
        before = self.height[max(0, cycle.contact - second) : cycle.contact + 1]
        came_down = before.max() - heights[low] > enough
        if heights[0] - heights[low] > _LOW * self.height_range or (rises.any() and came_down):
            return cycle.contact + low
        return stop

    def settles(self, cycle: Cycle) -> int:
        """The frame from contact on at which the hand no longer closes, slowly as it may."""
        assert self.closed is not None
        speed = np.diff(self.closed[cycle.grasp : self.release(cycle)])
        fastest = speed[: cycle.contact - cycle.grasp + 1].max(initial=0.0)
        still = np.flatnonzero(speed[cycle.contact - cycle.grasp :] < _SETTLED * fastest)
        return cycle.contact + int(still[0]) if len(still) else cycle.contact

    def goes_on(self, cycle: Cycle) -> int | None:
        """The frame at which the arm surely goes on with what a grasp holds: it rises or, if not, is away."""
        stop, release = min(self._stop(cycle), len(self) - 1), self.release(cycle)
        left = self.away(stop, release, stop) > _CARRY * self.extent
        if self.height is not None:
            heights = self.height[stop:release]
            risen = heights - np.minimum.accumulate(heights) > _LOW * self.height_range
            left = risen if risen.any() else left
        return stop + int(left.argmax()) if left.any() else None

    def closes_on_the_way(self, cycle: Cycle) -> bool:
        """Tell whether the arm goes on to another place after its hand has closed, and stops there first."""
        return self.distance(min(self._stop(cycle), len(self) - 1), cycle.contact) > _NEAR * self.extent

    def stays(self, start: int, end: int) -> int:
        """The last frame of [start, end) at which the arm stands, before it leaves its place at `start`."""
        away = self.away(start, end, start) > _NEAR * self.extent
        leaves = start + int(away.argmax()) if away.any() else end
        stands = np.flatnonzero(self.speed[start:leaves] < _STANDS * self.usual_speed)
        return start + int(stands[-1]) if len(stands) else start

    def retreat_end(self, start: int, end: int) -> int:
        """The first frame after the retreat that begins at `start`, before the next grasp at `end`.

        With a height it is the first frame within 5 % of the peak, else the frame of the longest detour.
        """
        if end - start < 2:
            return end
        if self.height is not None:
            rise = self.height[start : end + 1] - self.height[start]
            if rise.max() > 0.05 * self.height_range:
                return min(end, start + 1 + int(np.argmax(rise >= 0.95 * rise.max())))
        span = self.path[start : end + 1]
        detour = np.linalg.norm(span - span[0], axis=1) + np.linalg.norm(span - span[-1], axis=1)
        return min(end, start + 1 + int(np.argmax(detour)))

    def rises(self, start: int, end: int, share: float = 0.03) -> int:
        """The first frame in [start, end) that is higher than `start` by a share of the height's range.

        `end` if there is none; `start` itself without a height.
        """
        if self.height is None or end - start < 2:
            return start
        above = self.height[start:end] - self.height[start] > share * self.height_range
        return start + int(above.argmax()) if above.any() else end

    def takes_off(self, start: int, end: int, share: float) -> int:
        """The first frame in [start, end) that is higher than `start`, or away from it without a height, by a
        share of the height's range or of the extent; `end` if there is none."""
        if self.height is not None:
            return self.rises(start, end, share)
        away = self.away(start, end, start) > share * self.extent
        return start + int(away.argmax()) if away.any() else end

    def drags(self, cycle: Cycle, share: float = _LOW) -> bool:
        """Tell whether the hand never rises before the release, by a share of the height's range.

        False without a height.
        """
        heights = self.heights[cycle.contact : cycle.release]
        return self.height is not None and bool(heights.max() - heights[0] <= share * self.height_range)

    def strains(self, start: int) -> bool:
        """Tell whether the arm is told to go on as usual, from `start` to the end, where it stands."""
        if self.command is None:
            return False
        effort = np.linalg.norm(self.command.lead, axis=1)
        return bool(np.median(effort[start:]) > _STRAIN * np.percentile(effort, 80) > 0)

    def held_back(self, start: int = 0) -> int | None:
        """The first frame from `start` on, and after a second, with something in the arm's way.

        None where none is known.
        """
        resistance = None if self.command is None else self.command.resistance(self.fps)
        if resistance is None:
            return None
        least = max(_IN_THE_WAY, _CLEARLY * float(np.median(resistance)))
        has_left = self.away(0, len(self), 0) > _NEAR * self.extent
        frames = np.flatnonzero((resistance > least) & has_left)
        return next((int(frame) for frame in frames if frame >= max(start, _SETTLES_S * self.fps)), None)

    def pauses(self) -> list[tuple[int, int]]:
        """Spans of at least 0.3 s within the episode in which the arm nearly stands; longest first."""
        rim = 0.5 * self.fps
        still = signals.runs(self.speed < _STANDS * self.usual_speed)
        inner = [(a, b) for a, b in still if a > rim and b < len(self) - rim and b - a >= 0.3 * self.fps]
        return sorted(inner, key=lambda span: span[0] - span[1])

    def upright(self, start: int, end: int, *, last: bool) -> int:
        """The frame in [start, end) at which motion turns from sideways to vertical (`last`), or back."""
        if self.height is None or end - start < 2:
            return end if last else start
        velocity = np.gradient(self.path, axis=0)[start:end]
        rise = np.abs(np.gradient(self.height)[start:end])
        sideways = np.sqrt(np.maximum((velocity**2).sum(axis=1) - rise**2, 0))
        speed = np.hypot(rise, sideways)
        frames = np.flatnonzero((speed > 0.2 * np.percentile(speed, 90)) & (sideways > rise))
        if not len(frames):
            return start if last else end
        return start + int(frames[-1]) + 1 if last else start + int(frames[0])


def read_motion(recording: Recording, layout: Layout) -> ArmMotion:
    """Compute an episode's motion under a complete layout (`robot.find_layout`)."""
    recording, fps = as_places(recording, layout), recording.fps
    body = values_of(recording, "body")
    place = body[:, list(layout.position)]
    path = smooth(unwrap(place), fps)
    path = _evened(path) if layout.vertical is None or len(layout.position) > _AXES else path
    closed, grasps, commanded = None, (), False
    fingers = values_of(recording, layout.source)[:, list(layout.gripper)]
    signal = signals.hand_signal(fingers) if layout.gripper else None
    if signal is not None and moves(signal):
        closed = signals.closure(fingers, fps, layout.closed, layout.threshold)
        commanded = signals.has_two_values((signal - signal.min()) / np.ptp(signal))
        grasps = signals.cycles(closed, fps, _hand_command(recording, layout, closed))
    speed = signals.arm_speed(path, fps)
    motion = ArmMotion(
        fps=fps,
        path=path,
        speed=speed,
        height=None if layout.vertical is None else smooth(body[:, layout.vertical], fps),
        closed=closed,
        cycles=tuple(grasps),
        commanded=commanded,
        command=signals.read_command(recording, layout),
        drives=tuple(_find_drives(recording, layout, speed)),
        is_still=not signals.arm_moves(place),
    )
    return replace(motion, cycles=tuple(_hold(cycle, motion) for cycle in grasps))


def _evened(path: Curve) -> Curve:
    """Divide each dimension that moves by the root of its range: metres would not count beside angles, and
    of equal ranges a joint that hardly moves would count as much as the others."""
    moving = [i for i in range(path.shape[1]) if signals.arm_moves(path[:, [i]])]
    return path[:, moving] / np.sqrt(np.ptp(path[:, moving], axis=0)) if moving else path


def _hold(cycle: Cycle, motion: ArmMotion) -> Cycle:
    """Let the contact be where the hand first stops, if it closes on only as the arm goes on, or where the
    arm rises with a hand half closed: what it holds may be squeezed later, or slow fingers close further.

    A hand that prepares itself goes on to the thing in between.
    """
    assert motion.closed is not None
    opened = np.flatnonzero(motion.closed[: cycle.grasp] <= _OPEN)
    frees = [c.free for c in motion.cycles if c.free is not None and c.grasp < cycle.grasp]
    start = max([int(opened[-1]), *frees]) if len(opened) else cycle.grasp
    if cycle.grasp - start >= motion.fps / 3:
        speed = np.diff(motion.closed[start : cycle.grasp + 1])
        fastest = int(speed.argmax())
        slow = np.flatnonzero(speed[fastest:] < _STOPS * speed[fastest])
        if len(slow):  # else the hand closes ever faster
            stop = start + fastest + int(slow[0])
            if motion.distance(cycle.grasp, cycle.contact) > motion.distance(cycle.grasp, stop):
                cycle = replace(cycle, grasp=start, contact=stop)
    if motion.height is None:
        return cycle
    closing = motion.closed[cycle.grasp : cycle.contact + 1]
    half = cycle.grasp + int((closing >= (closing[0] + closing[-1]) / 2).argmax())
    return replace(cycle, contact=min(cycle.contact, motion.rises(half, cycle.contact + 1)))


def _hand_command(recording: Recording, layout: Layout, closed: Curve) -> Curve | None:
    """The command of the gripper, 1 closed, where the action has the names of the state."""
    same = recording.action_names == recording.state_names and recording.action.shape == recording.state.shape
    if layout.source != "state" or not same:
        return None
    command = signals.hand_signal(recording.action[:, list(layout.gripper)])
    if not np.ptp(command) or not np.ptp(closed):
        return None
    command = (command - command.min()) / np.ptp(command)
    return command if np.corrcoef(command, closed)[0, 1] > 0 else 1 - command


def _find_drives(recording: Recording, layout: Layout, arm_speed: Curve) -> list[tuple[int, int]]:
    """Spans of frames [start, end) in which the base drives and the arm stands, in order."""
    if not layout.base or len(recording.timestamps) < 2:
        return []
    values, names = values_of(recording, layout.base_source), names_of(recording, layout.base_source)
    n, fps = len(values), recording.fps
    rates = [roles.is_rate(names[i]) if names else layout.base_source == "action" for i in layout.base]
    speeds = [_base_speed(values[:, i], rate, fps) for i, rate in zip(layout.base, rates, strict=True)]
    drives = np.any([speed > _DRIVES * max(float(speed.max()), 1e-9) for speed in speeds], axis=0)
    drives &= arm_speed <= _ARM_STANDS * arm_speed.max()
    spans, gap = list[tuple[int, int]](), round(_GAP_S * fps)
    for start, end in signals.runs(drives):
        if spans and start - spans[-1][1] < gap:
            start = spans.pop()[0]
        spans.append((start, end))
    spans = [(a if a >= gap else 0, b if n - b >= gap else n) for a, b in spans]
    travels = [max(float(speed[a:b].sum()) / fps for speed in speeds) for a, b in spans]
    return [
        (a, b)
        for (a, b), travel in zip(spans, travels, strict=True)
        if b - a >= _LEAST_S * fps and travel >= _TRAVEL
    ]


def _base_speed(values: NDArray[np.floating], rate: bool, fps: float) -> Curve:
    """The speed of one dimension, (n,); 0 throughout for noise."""
    curve = values.astype(np.float64) if rate else unwrap(values)
    if not moves(curve):
        return np.zeros(len(curve))
    return np.abs(smooth(curve if rate else np.gradient(smooth(curve, fps)) * fps, fps))


def read_arms(recording: Recording, layout: Layout) -> ArmMotion:
    """Compute an episode's motion under a complete layout. A hand that carries nothing is left out.

    Where two hands act, it has the places of both, and their grasps in turn; a handover belongs to one grasp.
    """
    hands = [(hand, read_motion(recording, hand)) for hand in layout.hands]
    acting = [(hand, m) for hand, m in hands if not all(map(m.failed, m.cycles))] or hands[:1]
    arms = [m for _, m in acting]
    turns, handovers = _in_turn(arms)
    at_once = _overlap([m for _, m in hands], {(h.given, h.taken) for h in handovers})
    sides = {cycle: hand.side for hand, m in acting for cycle in m.cycles if layout.other and hand.side}
    if len(arms) == 1:
        return replace(arms[0], sides=sides, at_once=at_once)
    path = np.concatenate([arm.path for arm in arms], axis=1)
    speed = signals.arm_speed(path, recording.fps)
    curves = [arm.closed for arm in arms if arm.closed is not None]
    return ArmMotion(
        fps=recording.fps,
        path=path,
        speed=speed,
        height=None,
        closed=np.max(curves, axis=0) if curves else None,
        cycles=tuple(turns),
        drives=tuple(_find_drives(recording, layout, speed)),
        is_still=all(arm.is_still for arm in arms),
        sides=sides,
        handovers=tuple(handovers),
        at_once=at_once,
    )


def _in_turn(arms: Sequence[ArmMotion]) -> tuple[list[Cycle], list[Handover]]:
    """The grasps in order, and where one takes over what another holds: these are one grasp.

    Others that begin while another hand holds something are left out.
    """
    turns, handovers = list[Cycle](), list[Handover]()
    grasps = sorted(((cycle, arm) for arm in arms for cycle in arm.cycles), key=lambda grasp: grasp[0].grasp)
    holds, holder = grasps[0] if grasps else (None, None)
    for cycle, arm in grasps:
        if not turns or holds is None or (holds.release is not None and cycle.grasp >= holds.release):
            turns.append(cycle)
        elif holder is not None and _takes_over(holds, holder, cycle, arm):
            turns[-1] = replace(turns[-1], release=cycle.release, let_go=cycle.let_go, free=cycle.free)
            handovers.append(Handover(holds, cycle))
        else:
            continue
        holds, holder = cycle, arm
    return turns, handovers


def _takes_over(given: Cycle, giver: ArmMotion, taken: Cycle, taker: ArmMotion) -> bool:
    """Tell whether one hand takes what another one has carried: both stand until the first lets go."""
    if given.release is None or given.let_go is None or giver.failed(given) or taker.failed(taken):
        return False
    carries = giver.away(given.contact, taken.grasp, given.contact).max(initial=0.0)
    both = slice(taken.contact, given.release + 1)
    return (
        giver is not taker
        and taken.contact <= given.let_go < taker.release(taken) - _ALONE_S * taker.fps
        and bool(carries > _CARRY * giver.extent)
        and all(
            np.linalg.norm(np.ptp(arm.path[both], axis=0)) <= _NEAR * arm.extent
            for arm in (giver, taker)
            if taken.contact <= given.release
        )
    )


def _overlap(motions: Sequence[ArmMotion], handovers: Collection[tuple[Cycle, Cycle]]) -> bool:
    """Tell whether grasps of different hands overlap, but for `handovers` and for brief ones in vain."""
    grasps = [
        [c for c in motion.cycles if not motion.failed(c) or motion.release(c) - c.contact > motion.fps]
        for motion in motions
    ]
    return any(
        a.grasp < motions[0].release(b) and b.grasp < motions[0].release(a)
        for first, second in itertools.combinations(grasps, 2)
        for a, b in itertools.product(first, second)
        if (a, b) not in handovers and (b, a) not in handovers
    )
