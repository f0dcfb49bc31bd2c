"""Find which end of a gripper's range is closed, from a dataset's numbers, its names and its robot."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.layout import Layout, episodes_text, times_text, values_of
from goalreel.planners.kinematic.signals import (
    Curve,
    arm_speed,
    hand_signal,
    moves,
    smooth,
    split_level,
    unwrap,
)
from goalreel.types import Recording

type End = Literal["low", "high"]

_SQUEEZE = 0.03
"""Share of the hand's range by which a command lies beyond a state that follows no further."""
_SAME_UNITS = 0.15
"""Share of the hand's range by which a command may miss the state at the open end."""
CLEAR = 3.0
"""Something is clear at one end if it is this many times as much as at the other."""
_LIMIT = 0.9
"""Share of the frames of a squeeze from which on its hand always stops at its last value."""
_NEAR = 0.1
"""Share of the hand's range within which it rests closed, or a hold lies near the middle of all values."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a closed end: `weight` 1 is a hint, 2 a reason, 3 a strong one."""

    end: End
    weight: int
    reason: str


@dataclass(frozen=True, slots=True)
class HandTrace:
    """One hand in one episode of n frames."""

    hand: Curve
    """The gripper's value, (n,)."""
    command: Curve | None
    """Its command, (n,), in any units; None without one."""
    path: Curve
    """The arm's place, (n, dims)."""
    height: Curve | None
    fps: float


@dataclass(frozen=True)
class _Frames:
    """The frames of all episodes in which command and hand stand, as shares of the hand's range."""

    hands: Curve
    commands: Curve
    span: float
    units: Literal["same", "two commands", "other"]
    episodes: int


def of_commands(traces: Sequence[HandTrace]) -> Iterator[Evidence]:
    """What the commands say of the closed end; nothing without any."""
    frames = _steady_frames(traces)
    if frames is None:
        return
    if frames.units == "same":
        yield from _of_squeeze(frames, np.concatenate([trace.hand for trace in traces]))
    elif frames.units == "two commands":
        yield from _of_stops(*_stops(frames), frames.span)


def episodes_by_end(traces: Sequence[HandTrace]) -> dict[End, int]:
    """In how many episodes the commands alone tell that the hand closes at each end."""
    ends: list[End] = []
    for trace in traces:
        frames = _steady_frames([trace])
        if frames is not None and frames.units == "same":
            ends += [evidence.end for evidence in _of_squeeze(frames, trace.hand)]
    return {"low": ends.count("low"), "high": ends.count("high")}


def hold_level(traces: Sequence[HandTrace], end: End) -> float | None:
    """Find a value between an open hand and one that holds something, where the middle of all values is none.

    That is so where a hand rests closed on nothing, further than on any object. None where the middle tells,
    or no command does.
    """
    frames = _steady_frames(traces)
    sign = 1 if end == "low" else -1  # more is more open
    rests = sign * np.array([np.median(t.hand[part]) for t in traces for part in (slice(3), slice(-3, None))])
    if frames is None or frames.units == "other":
        return None
    if rests.min() > min((sign * trace.hand).min() for trace in traces) + _NEAR * frames.span:
        return None
    if frames.units == "two commands":
        stops = _stops(frames)
        holds, opens = stops if end == "low" else stops[::-1]
    else:
        squeezes = sign * (frames.hands - frames.commands) > _SQUEEZE * frames.span
        holds, opens = frames.hands[squeezes], frames.hands[~squeezes]
    if len(holds) < 3:
        return None
    hold = float(np.quantile(sign * holds, 0.9))
    opens = sign * opens[sign * opens > hold + 0.02 * frames.span]
    middle = sign * split_level(np.concatenate([trace.hand for trace in traces]))
    if len(opens) < 3 or hold < middle - _NEAR * frames.span:
        return None
    return sign * (hold + float(np.median(opens))) / 2


def _steady_frames(traces: Sequence[HandTrace]) -> _Frames | None:
    pairs = [(t, t.command) for t in traces if t.command is not None]
    if not pairs:
        return None
    commands = np.concatenate([command for _, command in pairs])
    hands = np.concatenate([trace.hand for trace, _ in pairs])
    size, span = float(np.ptp(commands)), float(np.ptp(hands))
    if not size or not span:
        return None
    steady = np.concatenate(
        [_steady(t.hand, span, t.fps / 3) & _steady(c, size, t.fps / 3) for t, c in pairs]
    )
    low, high = steady & (hands <= split_level(hands)), steady & (hands > split_level(hands))
    if min(low.sum(), high.sum()) < 3:
        return None
    offsets = (commands - hands) / span
    bias = min(abs(float(np.median(offsets[rest]))) for rest in (low, high))
    units: Literal["same", "two commands", "other"] = "other"
    if bias < _SAME_UNITS and size <= 2 * span <= 6 * size:
        units = "same"
    elif np.isin(np.round((commands - commands.min()) / size, 1), (0, 1)).mean() >= 0.95:
        units = "two commands"
    return _Frames(hands[steady], commands[steady], span, units, len(pairs))


def _steady(values: Curve, span: float, frames: float) -> NDArray[np.bool_]:
    """Frames at which a curve has stood for so many frames."""
    frames = max(1, round(frames))
    steady = np.zeros(len(values), bool)
    steady[frames:] = np.abs(values[frames:] - values[:-frames]) < 0.02 * span
    return steady


def _stops(frames: _Frames) -> tuple[Curve, Curve]:
    """Where the hand stands under either of two commands: the one that moves it low, and the other."""
    is_less = frames.commands < (frames.commands.min() + frames.commands.max()) / 2
    less, more = frames.hands[is_less], frames.hands[~is_less]
    return (less, more) if less.mean() < more.mean() else (more, less)


def _of_squeeze(frames: _Frames, hands: Curve) -> Iterator[Evidence]:
    """Weigh how far the command lies beyond the state where both stand, at either end and at all.

    An offset that is the same everywhere is one of calibration. A hand that always stops at the last of all
    its values (`hands`) may be at its own limit.
    """
    offsets = (frames.commands - frames.hands) / frames.span
    is_low = frames.hands <= split_level(hands)
    low, high = offsets[is_low], offsets[~is_low]
    lowest, highest = float(np.quantile(low, 0.2)), float(np.quantile(high, 0.8))
    below = min(-lowest, float(np.median(high)) - lowest)
    above = min(highest, highest - float(np.median(low)))
    if max(below, above) <= _SQUEEZE and (np.abs(offsets) < _SQUEEZE).mean() >= 0.2:
        below, above = -float(np.quantile(offsets, 0.1)), float(np.quantile(offsets, 0.9))
    if below > _SQUEEZE and below > CLEAR * above:
        stops = frames.hands[offsets < -_SQUEEZE] - hands.min()
        yield Evidence("low", _weight(stops, frames), _squeeze("below", below, max(0.0, above)))
    elif above > _SQUEEZE and above > CLEAR * below:
        stops = hands.max() - frames.hands[offsets > _SQUEEZE]
        yield Evidence("high", _weight(stops, frames), _squeeze("above", above, max(0.0, below)))


def _weight(stops: Curve, frames: _Frames) -> int:
    """Less where all but a few stops, as distances from the last value of the hand, lie there.

    In one or two episodes there may be only one thing to stop at.
    """
    is_limit = (stops < _SQUEEZE * frames.span).mean() >= _LIMIT
    return 2 if is_limit and frames.episodes > 2 else 3


def _squeeze(side: str, share: float, opposite: float) -> str:
    beyond = f"{share:.0%} of the range {side} the state"
    return f"where both stand the command lies {beyond}, on its other side {opposite:.0%}"


def _of_stops(low: Curve, high: Curve, span: float) -> Iterator[Evidence]:
    """A hand with two commands opens to one place, and closes to the width of what it holds."""
    spread_low, spread_high = (float(np.subtract(*np.quantile(v, (0.95, 0.05)))) / span for v in (low, high))
    for end, spread, opposite in both_ways(spread_low, spread_high):
        if spread > _SQUEEZE and spread > CLEAR * opposite:
            yield Evidence(
                end, 3, f"its {end} end varies by {spread:.0%} of the range, the other by {opposite:.0%}"
            )


def both_ways(low: float, high: float) -> tuple[tuple[End, float, float], tuple[End, float, float]]:
    """Each end, what is measured there, and what at the other."""
    return ("low", low, high), ("high", high, low)


def read_trace(recording: Recording, layout: Layout) -> HandTrace:
    """One hand in one episode, under a layout with its gripper and the arm."""
    body = recording.state if recording.state.shape[1] else recording.action
    hand = list(layout.gripper)
    height = None if layout.vertical is None else body[:, layout.vertical].astype(np.float64)
    return HandTrace(
        hand_signal(values_of(recording, layout.source)[:, hand]),
        _command(recording, layout),
        unwrap(body[:, list(layout.position)]),
        height,
        recording.fps,
    )


def _command(recording: Recording, layout: Layout) -> NDArray[np.float64] | None:
    """The command of a hand in the state: the action's dimensions of the same names, or the same indices."""
    if layout.source == "action" or not recording.action.shape[1]:
        return None
    hand = list(layout.gripper)
    if len(recording.state_names) == recording.state.shape[1] and recording.action_names:
        names = [recording.state_names[i] for i in hand]
        if not set(names) <= set(recording.action_names):
            return None
        hand = [recording.action_names.index(name) for name in names]
    elif recording.state.shape != recording.action.shape:
        return None
    return hand_signal(recording.action[:, hand])


_OPEN_NAME = re.compile(
    r"width|opening|openn?ess|aperture|(?:^|[^a-z])(?:open|gap)(?:$|[^a-z])", re.IGNORECASE
)
_CLOSED_NAME = re.compile(r"closed|closing|closure|(?:^|[^a-z])close(?:$|[^a-z])", re.IGNORECASE)
_CONVENTIONS: tuple[tuple[str, float, float, End, str], ...] = (
    (r"so_?-?10[01]|so_follower|koch|omx|lekiwi", -20, 120, "low", "lerobot's 0-100 grippers close at 0"),
    (r"aloha", -0.5, 1.6, "low", "ALOHA's grippers close at 0"),
    (r"openarm", -90, 10, "high", "OpenArm's grippers open at -65 degrees"),
    (r"robotiq|2f[_-]?(?:85|140)", -0.1, 256, "high", "Robotiq's grippers open at 0"),
    (r"inspire", -0.1, 1.1, "low", "Inspire's hands open at 1"),
)
"""A robot type or name, the range of its values, its closed end, and how to say so.

Sources: lerobot 0.6 (`koch_leader`: gripper_open_pos; `openarm_mini`), gym-aloha's README, Robotiq's manual
(position 0 is open, 255 closed), Unitree's documentation of Inspire's hands.
"""
_MOVED = 0.3
"""A hand moves in an episode that covers this share of its range over the dataset."""
_STANDS = 0.5
"""Share of the arm's usual speed below which the arm stands."""
_CARRY = 0.2
"""Share of its extent that an arm travels with an object."""
_RULE = 0.8
"""Share of the episodes from which on something holds as a rule."""


def closed_end(
    traces: Sequence[HandTrace], names: Sequence[str], robot_type: str | None, joints: int
) -> list[Evidence]:
    """Collect what speaks for either end, the strongest first.

    Args:
        traces: the hand in each episode.
        names: of its dimensions, or empty.
        robot_type: as in `meta/info.json`.
        joints: the number of its dimensions.
    """
    values = np.concatenate([trace.hand for trace in traces])
    span = float(np.ptp(values))
    moving = [t for t in traces if moves(t.hand) and np.ptp(t.hand) >= _MOVED * span]
    evidence = [*_of_names(names, robot_type, values, joints)]
    if moving:
        evidence += [*of_commands(moving), *_of_rest(moving)]
        evidence += [*_of_carries(moving), *_of_stands(moving)]
    return sorted(evidence, key=lambda e: -e.weight)


def _of_names(names: Sequence[str], robot_type: str | None, values: Curve, joints: int) -> Iterator[Evidence]:
    text = ", ".join(names)
    if joints == 1 and _OPEN_NAME.search(text):
        yield Evidence("low", 3, f"{text} says how open it is")
    elif joints == 1 and _CLOSED_NAME.search(text):
        yield Evidence("high", 3, f"{text} says how closed it is")
    low, high = float(values.min()), float(values.max())
    for pattern, minimum, maximum, end, reason in _CONVENTIONS:
        if (
            re.search(pattern, f"{robot_type or ''} {text}", re.IGNORECASE)
            and minimum <= low <= high <= maximum
        ):
            yield Evidence(end, 2, reason)
            return
    if joints > 1 and low >= 0 and 0.5 < high <= 1:
        yield Evidence("low", 2, "hands whose joints go from 0 to 1 open at 1")


def _of_rest(traces: Sequence[HandTrace]) -> Iterator[Evidence]:
    """A hand is open where an episode starts and where it ends, as a rule."""
    level = split_level(np.concatenate([trace.hand for trace in traces]))
    starts, ends = (
        float(np.mean([np.median(t.hand[part]) > level for t in traces]))
        for part in (slice(3), slice(-3, None))
    )
    several = len(traces) >= 3
    for closed, start, _ in both_ways(starts, 1 - starts):
        end, rest = (ends, "high") if closed == "low" else (1 - ends, "low")
        both = end >= _RULE
        if start >= _RULE and (both or several) and end > 1 - _RULE:
            where = f"starts{' and ends' if both else ''} at its {rest} end"
            share = min(start, end) if both else start
            reason = f"it {where} in {share:.0%} of {episodes_text(len(traces))}"
            yield Evidence(closed, 1, reason)


def _of_carries(traces: Sequence[HandTrace]) -> Iterator[Evidence]:
    """An arm stands where its hand takes an object, travels with it, and lets go low or standing."""
    counts = [[_carries(trace, high) for trace in traces] for high in (False, True)]
    low, high = sum(counts[0]), sum(counts[1])
    for end, count, opposite in both_ways(low, high):
        if count > opposite:
            clear = count >= 2 and count > CLEAR * opposite
            times = f"{times_text(int(count))} at its {end} end and {times_text(int(opposite))} at the other"
            yield Evidence(end, 1 + clear, f"the motion looks like carrying {times}")


def _of_stands(traces: Sequence[HandTrace]) -> Iterator[Evidence]:
    """An arm stands when its hand closes, and often moves on while it opens."""
    speeds: dict[bool, list[float]] = {False: [], True: []}
    for trace in traces:
        for start, _, high in level_spans(trace):
            if is_away(trace, start):
                speeds[high].append(_pace(trace, start))
    if min(map(len, speeds.values())) < 3:
        return
    to_low, to_high = (float(np.median(speeds[high])) for high in (False, True))
    for end, speed, opposite in both_ways(to_low, to_high):
        if speed < _STANDS and opposite > 2 * speed and opposite > speed + 0.1:
            speeds_text = f"{speed:.0%} of its usual speed against {opposite:.0%}"
            yield Evidence(end, 1, f"the arm is slower when the hand goes to its {end} end: {speeds_text}")


def _carries(trace: HandTrace, high: bool) -> int:
    """Count the spans at one end in which the arm may have carried something."""
    extent = _extent(trace)
    count = 0
    for start, end, is_high in level_spans(trace):
        if is_high != high or end == len(trace.hand):
            continue
        away = np.linalg.norm(trace.path[start:end] - trace.path[start], axis=1).max()
        count += bool(
            away >= _CARRY * extent
            and is_away(trace, start)
            and is_away(trace, end)
            and _pace(trace, start) < _STANDS
            and (_pace(trace, end) < _STANDS if trace.height is None else _are_low(trace.height, start, end))
        )
    return count


def level_spans(trace: HandTrace) -> list[tuple[int, int, bool]]:
    """The spans [start, end) after the first one in which a hand stays at one end, and whether it is high."""
    hand, n = smooth(trace.hand, round(0.2 * trace.fps)), len(trace.hand)
    is_high = hand > split_level(hand)
    edges = [*(np.flatnonzero(np.diff(is_high.astype(int))) + 1).tolist(), n]
    if not trace.path.shape[1] or not _extent(trace):
        return []
    return [(a, b, bool(is_high[a])) for a, b in itertools.pairwise(edges) if b - a >= trace.fps / 3]


def _extent(trace: HandTrace) -> float:
    return float(np.linalg.norm(np.ptp(trace.path, axis=0)))


def is_away(trace: HandTrace, frame: int) -> bool:
    """Whether the arm is neither where the episode starts nor where it ends."""
    at = trace.path[min(frame, len(trace.path) - 1)]
    rests = (trace.path[0], trace.path[-1])
    return all(np.linalg.norm(at - rest) >= 0.1 * _extent(trace) for rest in rests)


def _pace(trace: HandTrace, frame: int) -> float:
    """The arm's speed around a frame, as a share of its usual speed."""
    speed, reach = arm_speed(trace.path, trace.fps), max(1, round(0.2 * trace.fps))
    usual = float(np.percentile(speed, 80))
    return float(speed[max(0, frame - reach) : frame + reach + 1].mean() / usual) if usual else 0.0


def _are_low(height: Curve, *frames: int) -> bool:
    limit = height.min() + 0.5 * np.ptp(height)
    return all(height[frame] <= limit for frame in frames)
