"""Curves from a recording's numbers: how closed the hand is, how the arm moves, what it is told to do."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.layout import Layout
from goalreel.types import Recording

Curve = NDArray[np.float64]

_NOISE = 12.0  # a gripper moves if its range exceeds its median frame-to-frame change this many times
_STEADY = 8.0  # the same for an arm, whose range must exceed the mean change of its steps; white noise has 4
_TIGHT = 0.15  # share of the closing that may remain when the fingers touch the object: both may give way
_SLOW = 0.25  # share of its greatest speed below which a hand no longer closes, but squeezes
_STOPS = 0.1  # the same for a hand that is told to close, and is stopped by an object
_TWO_VALUES = 0.1  # share of its range within which a command that only says open or closed is at an end
_HALF_TURN = 3.2  # no angle in radians about 0 is greater
_TURNS = (2 * np.pi, 360.0, 4096.0)  # in radians, degrees and the ticks of servos
_WRAPS = 0.95  # share of a turn by which an angle jumps from one frame to the next
_UNIT = 0.02  # the length of a quaternion differs from 1 by this at most
_BETWEEN = 0.2  # share of frames that a gripper may spend in the middle half between its two levels


@dataclass(frozen=True, slots=True)
class Cycle:
    """One closing of the hand and its opening; the last three are None where the recording ends before."""

    grasp: int
    """Closing begins."""
    contact: int
    """The hand no longer closes fast: the fingers touch the object, if there is one. They may squeeze on."""
    release: int | None
    """Opening begins."""
    let_go: int | None
    """Halfway open, where the curve is steepest: one finger at least has surely left the object."""
    free: int | None
    """Open again."""


def smooth(values: NDArray[np.floating], fps: float) -> Curve:
    """Centred moving average of a fifth of a second over the first axis; the ends repeat."""
    values = np.asarray(values, np.float64)
    width = min(max(1, round(0.2 * fps)) | 1, 2 * len(values) - 1)
    if width == 1:
        return values
    half = width // 2
    padded = np.concatenate([np.repeat(values[:1], half, 0), values, np.repeat(values[-1:], half, 0)])
    total = np.cumsum(np.concatenate([np.zeros_like(padded[:1]), padded]), axis=0)
    return (total[width:] - total[:-width]) / width


def runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The spans [start, end) in which a mask holds."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def hand_signal(fingers: NDArray[np.floating]) -> Curve:
    """One curve for a hand of many joints, (n, joints) -> (n,): their mean, with joints turned round that run
    against the first one that moves as the others do (some parallel grippers have mirrored fingers)."""
    fingers = np.asarray(fingers, np.float64)
    centred = fingers - fingers.mean(axis=0)
    leader = centred[:, finger_leader(fingers)]
    return (fingers * np.where(leader @ centred < 0, -1.0, 1.0)).mean(axis=1)


def finger_leader(fingers: NDArray[np.floating]) -> int:
    """The first joint of a hand, (n, joints), that moves as the others do."""
    ranges = np.ptp(np.asarray(fingers, np.float64), axis=0)
    return int((ranges >= ranges.max() / 2).argmax())


def split_level(values: Curve) -> float:
    """The level between the two clusters of a curve (two-means, which is Otsu's threshold)."""
    level = (values.min() + values.max()) / 2
    for _ in range(20):
        low, high = values[values <= level], values[values > level]
        if not len(low) or not len(high):
            break
        earlier, level = level, (low.mean() + high.mean()) / 2
        if level == earlier:
            break
    return float(level)


def unwrap(values: NDArray[np.floating]) -> Curve:
    """Remove the jumps by a full turn from angles, (n, ...), and the changes of sign from quaternions.

    Angles are in radians, degrees or ticks, and have jumped by nearly a turn, which is also their range.
    """
    values = np.array(values, np.float64)
    if len(values) < 2:
        return values
    low, high = values.min(axis=0), values.max(axis=0)
    angles = np.maximum(high, -low) < _HALF_TURN
    jump = np.abs(np.diff(values, axis=0)).max(axis=0)
    wraps = [(2 * np.pi, angles & (jump >= np.pi))]
    for turn in _TURNS:
        is_range = np.abs(high - low - turn) < (1 - _WRAPS) * turn
        wraps.append((turn, ~angles & is_range & (jump > _WRAPS * turn)))
    for turn, chosen in wraps:
        if chosen.any():  # most never wrap
            values = np.where(chosen, np.unwrap(values, axis=0, period=turn), values)
    for i in find_turns(values)[::4] if values.ndim == 2 else ():
        turns = values[:, i : i + 4]
        flips = np.sum(turns[1:] * turns[:-1], axis=1) < 0
        turns[1:] *= np.where(np.cumsum(flips) % 2, -1, 1)[:, None]
    return values


def find_turns(values: NDArray[np.floating]) -> list[int]:
    """The dimensions of (n, dims) that are quaternions, four by four."""
    starts = range(values.shape[1] - 3)
    are = [i for i in starts if np.abs(np.linalg.norm(values[:, i : i + 4], axis=1) - 1).max() < _UNIT]
    return [dim for i in are for dim in range(i, i + 4)]


def two_levels(values: NDArray[np.floating]) -> float:
    """The share of a signal's variance that two levels explain, 0-1: 0.75 for a ramp, 1 for a switch.

    0 for a signal that does not move, or that stays between its extremes as an arm does.
    """
    values = unwrap(values)
    if not moves(values):
        return 0.0
    high = values > split_level(values)
    share, low_level = high.mean(), values[~high].mean()
    gap = values[high].mean() - low_level
    progress = (values - low_level) / gap
    is_switch = ((progress > 0.25) & (progress < 0.75)).mean() <= _BETWEEN
    return float(share * (1 - share) * gap**2 / values.var()) if is_switch else 0.0


def moves(values: Curve) -> bool:
    """Tell whether a gripper's curve shows a movement rather than noise."""
    if len(values) < 2:
        return False
    span = float(np.ptp(values))
    step = float(np.median(np.abs(np.diff(values))))
    return span > 1e-3 * max(1e-2, float(np.abs(values).max())) and span > _NOISE * step


def arm_moves(position: NDArray[np.floating]) -> bool:
    """Tell whether some dimension of an arm, (n, dims), goes further than its steps differ."""
    values = unwrap(position)
    if len(values) < 3 or not values.shape[1]:
        return False
    noise = _STEADY * np.abs(np.diff(values, n=2, axis=0)).mean(axis=0)
    least = 1e-3 * np.maximum(1e-2, np.abs(values).max(axis=0))
    return bool(np.any(np.ptp(values, axis=0) > np.maximum(noise, least)))


def arm_speed(position: NDArray[np.floating], fps: float) -> Curve:
    """Speed in position units a second, (n, dims) -> (n,), smoothed over a fifth of a second."""
    if len(position) < 2 or not position.shape[1]:
        return np.zeros(len(position))
    return smooth(np.linalg.norm(np.gradient(smooth(position, fps), axis=0), axis=1) * fps, fps)


def closure(
    fingers: NDArray[np.floating], fps: float, closed: str | None, threshold: float | None = None
) -> Curve:
    """A gripper's or hand's numbers, (n, joints), as one curve: 0 open, 1 closed.

    With a `threshold`, what is further beyond it than the open end is on this side counts as closed alike.
    Without `closed`, a hand of several joints with all values in [0, 1] has 1 as open (the convention of
    Inspire's hands), and any other hand starts open.
    """
    values = smooth(hand_signal(fingers), fps)
    if threshold is not None and closed is not None:
        minimum, maximum = 2 * threshold - values.max(), 2 * threshold - values.min()
        values = np.maximum(values, minimum) if closed == "low" else np.minimum(values, maximum)
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) / (high - low) if high > low else np.zeros(len(values))
    if closed is None:
        normalised = fingers.shape[1] > 1 and fingers.min() >= 0 and fingers.max() <= 1
        starts_low = np.median(scaled[:3]) <= 0.5
        closed = "high" if starts_low and not normalised else "low"
    return scaled if closed == "high" else 1 - scaled


_OPEN, _HOLDS = 0.2, (0.3, 0.75)  # closure of an open hand, and of one that a thing stops early


def cycles(closed: Curve, fps: float, command: Curve | None = None) -> list[Cycle]:
    """Find every grasp of a third of a second or more in a closure curve.

    A hand that starts closed holds nothing yet: it must open before its first grasp. A thing may stop it far
    earlier then, and be held to the end. A `command` that only says open or closed (1 closed) tells when a
    closing began that an object stopped at once.
    """
    level = split_level(closed)
    later = closed[int((closed[: len(closed) // 2] <= _OPEN).argmax()) :]
    if closed[0] > 1 - _OPEN and _HOLDS[0] < later.max() < min(_HOLDS[1], 1.2 * later[-1]):
        level = split_level(later)
    enter, leave = level + 0.05, level - 0.05
    spans, inside, start = list[tuple[int, int]](), bool(closed[0] > enter), 0
    for i, value in enumerate(closed):
        if not inside and value > enter:
            inside, start = True, i
        elif inside and value < leave:
            inside = False
            spans.append((start, i))
    if inside:
        spans.append((start, len(closed)))
    cycles = [_cycle(closed, a, b, fps) for a, b in spans if a > 0 and b - a >= fps / 3]
    return cycles if command is None or not has_two_values(command) else _by_command(cycles, closed, command)


def _cycle(closed: Curve, start: int, end: int, fps: float) -> Cycle:
    """Widen a crossing to the start and the end of the movement, at most a second on either side."""
    reach, flat = max(1, round(fps)), 0.1 / fps
    grasp = start
    while grasp > max(0, start - reach) and closed[grasp] - closed[grasp - 1] > flat:
        grasp -= 1
    level = float(np.median(closed[start:end]))
    is_near = closed[start:end] >= level - _TIGHT * (level - closed[grasp])
    contact = start + int(is_near.argmax())
    speed = np.diff(closed[grasp : contact + 1])
    fast = np.flatnonzero(speed >= _SLOW * speed.max(initial=0.0))
    contact = max(start, grasp + int(fast[-1]) + 1) if len(fast) else contact
    if end >= len(closed):
        return Cycle(grasp, contact, None, None, None)
    release = end
    while release > max(contact + 1, end - reach) and closed[release - 1] - closed[release] > flat:
        release -= 1
    free = end
    while free < min(len(closed) - 1, end + reach) and closed[free] - closed[free + 1] > flat:
        free += 1
    half = closed[release : free + 1] <= (closed[release] + closed[free]) / 2
    return Cycle(grasp, contact, release, release + int(half.argmax()), free)


def has_two_values(command: Curve) -> bool:
    """Tell whether a command of 0-1 only says open or closed."""
    return bool(np.all(np.abs(command - 0.5) >= 0.5 - _TWO_VALUES)) and bool(np.ptp(command))


def _by_command(cycles: Sequence[Cycle], closed: Curve, command: Curve) -> list[Cycle]:
    """Let each cycle begin with the command to close, and its contact where the hand then stops."""
    timed: list[Cycle] = []
    for cycle in cycles:
        opened = np.flatnonzero(command[: cycle.contact + 1] < 0.5)
        grasp = int(opened[-1]) + 1 if len(opened) else cycle.grasp
        if grasp > cycle.grasp or (timed and grasp < (timed[-1].free or 0)):
            timed.append(cycle)
            continue
        speed = np.diff(closed[grasp : cycle.contact + 1])
        top = np.maximum.accumulate(np.concatenate([[0.0], speed]))[1:]
        stops = np.flatnonzero((top >= _SLOW * speed.max(initial=0.0)) & (speed < _STOPS * top))
        contact = grasp + int(stops[0]) if len(stops) else cycle.contact
        timed.append(replace(cycle, grasp=grasp, contact=contact))
    return timed


_AHEAD = 0.3  # share of the arm's extent that a commanded place is ahead of the state at most, as a rule
_LATE_S, _REPEATS = 0.5, 1e-3  # so late a command repeats the state, within so much of the arm's extent
_RATE = 10.0  # steps a second, at most: shorter ones are mostly noise
_COMMANDS, _STEPS = 4, 2  # commands, and earlier steps, that tell the next step
_FOLLOWS = 0.8  # share of its steps that a fit explains, in squares, where an arm follows its command
_ROUNDS = 30  # rounds of the fit, each with less weight on what the one before did not explain
_ONWARDS = 0.5  # cosine from which a step misses what was expected by going on further
_OUTSIDE = 4.0  # median misses from which a step does not count for the fit


@dataclass(frozen=True, slots=True)
class ArmCommand:
    """The places of an arm in n frames, and how it is told to go on from there."""

    place: NDArray[np.float64]
    """(n, dims)."""
    lead: NDArray[np.float64]
    """(n, dims): how far a commanded place lies ahead, or a commanded velocity, in any unit."""

    def resistance(self, fps: float) -> Curve | None:
        """Compute how far each step misses what the commands make expect, in the arm's usual steps: (n,).

        A frame has the miss of the step, of a tenth of a second at least, that it lies in; zero where the arm
        goes on further than expected, as one that something lets go. None where the arm does not follow the
        commands.
        """
        stride = max(1, round(fps / _RATE))
        steps = np.diff(self.place[::stride], axis=0)
        starts = np.arange(0, len(self.place), stride)
        told = (np.add.reduceat(self.lead, starts) / np.diff([*starts, len(self.place)])[:, None])[:-1]
        usual = float(np.percentile(np.linalg.norm(steps, axis=1), 80)) if len(steps) else 0.0
        if len(steps) < 3 * (_COMMANDS + _STEPS) or usual <= 0:
            return None
        earlier = [_shift(told, k) for k in range(_COMMANDS)]
        earlier += [_shift(steps, k + 1) for k in range(_STEPS)]
        causes = np.stack(earlier, axis=-1)
        expected = causes @ _fit(causes.reshape(-1, len(earlier)), steps.reshape(-1))
        misses = np.linalg.norm(steps - expected, axis=1)
        onwards = ((steps - expected) * expected).sum(axis=1)
        fits = misses <= np.median(misses) * _OUTSIDE
        if (misses[fits] ** 2).sum() > (1 - _FOLLOWS) * (steps[fits] ** 2).sum():
            return None
        misses[onwards > _ONWARDS * misses * np.linalg.norm(expected, axis=1)] = 0.0
        return np.append(np.repeat(misses / usual, stride), np.zeros(stride))[: len(self.place)]


def read_command(recording: Recording, layout: Layout) -> ArmCommand | None:
    """Read how the arm is told to move; None where the action has no dimensions for its position."""
    position, dims = list(layout.position), min(recording.state.shape[1], recording.action.shape[1])
    if layout.summed or not position or max(position) >= dims:
        return None
    place, command = (v[:, position].astype(np.float64) for v in (recording.state, recording.action))
    lead, size = command - place, np.linalg.norm(np.ptp(place, axis=0))
    for late in range(min(len(place), round(_LATE_S * recording.fps) + 1)):
        if np.abs(command[late:] - place[: len(place) - late]).max() <= _REPEATS * size:
            return None  # it repeats where the arm was
    is_place = np.median(np.linalg.norm(lead, axis=1)) < _AHEAD * size
    return ArmCommand(unwrap(place), lead if is_place else command)


def _shift(values: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
    """The values of some steps before; zero where there were none."""
    return np.concatenate([np.zeros_like(values[:steps]), values])[: len(values)]


def _fit(causes: NDArray[np.float64], effects: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares with Tukey's weights."""
    weights: NDArray[np.float64] = np.ones(len(effects))
    factors: NDArray[np.float64] = np.zeros(causes.shape[1])
    for _ in range(_ROUNDS):
        root = np.sqrt(weights)
        factors = np.linalg.lstsq(causes * root[:, None], effects * root, rcond=None)[0].astype(np.float64)
        misses = np.abs(effects - causes @ factors)
        limit = max(_OUTSIDE * float(np.median(misses)), 1e-9)
        weights = np.clip(1 - (misses / limit) ** 2, 0, None) ** 2
    return factors
