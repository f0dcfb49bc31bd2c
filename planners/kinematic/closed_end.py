"""Find which end of a gripper's range is closed, from a dataset's numbers, its names and its robot."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic import signals
from goalreel.planners.kinematic.layout import Layout, episodes_text, times_text, values_of
from goalreel.planners.kinematic.signals import Curve, hand_signal, split_level
from goalreel.types import Recording

type End = Literal["low", "high"]

_OPEN_NAME = re.compile(
    r"width|opening|openn?ess|aperture|(?:^|[^a-z])(?:open|gap)(?:$|[^a-z])", re.IGNORECASE
)
_CLOSED_NAME = re.compile(r"closed|closing|closure|(?:^|[^a-z])close(?:$|[^a-z])", re.IGNORECASE)
# A robot type or name, the range of its values, its closed end, and how to say so. Sources: lerobot 0.6
# (`koch_leader`: gripper_open_pos; `openarm_mini`), gym-aloha's README, Robotiq's manual (position 0 is open,
# 255 closed), Unitree's documentation of Inspire's hands.
_CONVENTIONS: tuple[tuple[str, float, float, End, str], ...] = (
    (r"so_?-?10[01]|so_follower|koch|omx|lekiwi", -20, 120, "low", "lerobot's 0-100 grippers close at 0"),
    (r"aloha", -0.5, 1.6, "low", "ALOHA's grippers close at 0"),
    (r"openarm", -90, 10, "high", "OpenArm's grippers open at -65 degrees"),
    (r"robotiq|2f[_-]?(?:85|140)", -0.1, 256, "high", "Robotiq's grippers open at 0"),
    (r"inspire", -0.1, 1.1, "low", "Inspire's hands open at 1"),
)
# Shares of the hand's range:
_SQUEEZE = 0.03  # a command lies as far beyond a state that follows no further
_SAME_UNITS = 0.15  # a command may miss the state by it at the open end
_SWITCH = 1.5  # a command of two values that goes further is in other units: -1 to 1 for a hand from 0 to 1
_NEAR = 0.1  # it rests closed within it, or a hold lies within it of the middle of all values
_MOVED = 0.3  # a hand moves in an episode that covers it
# Others:
_CLEAR = 3.0  # something is clear at one end if it is this many times as much as at the other
_LIMIT = 0.9  # share of the frames of a squeeze from which on its hand always stops at its last value
_STANDS = 0.5  # share of the arm's usual speed below which the arm stands
_CARRY = 0.2  # share of its extent that an arm travels with an object
_RULE = 0.8  # share of the episodes from which on something holds as a rule


class Evidence(NamedTuple):
    """A reason for a closed end: `weight` 1 is a hint, 2 a reason, 3 a strong one."""

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

    @property
    def extent(self) -> float:
        """The size of the space that the arm visits."""
        return float(np.linalg.norm(np.ptp(self.path, axis=0)))

    def pace(self, frame: int) -> float:
        """The arm's speed around a frame, as a share of its usual speed."""
        speed, reach = signals.arm_speed(self.path, self.fps), max(1, round(0.2 * self.fps))
        usual = float(np.percentile(speed, 80))
        return float(speed[max(0, frame - reach) : frame + reach + 1].mean() / usual) if usual else 0.0

    def is_away(self, frame: int) -> bool:
        """Tell whether the arm is neither where the episode starts nor where it ends."""
        place = self.path[min(frame, len(self.path) - 1)]
        return all(np.linalg.norm(place - self.path[rest]) >= 0.1 * self.extent for rest in (0, -1))

    def level_spans(self) -> list[tuple[int, int, bool]]:
        """The spans [start, end) after the first one in which a hand stays at one end, and if it is high."""
        hand = signals.smooth(self.hand, self.fps)
        is_high = hand > split_level(hand)
        edges = [*(np.flatnonzero(np.diff(is_high.astype(int))) + 1).tolist(), len(hand)]
        if not self.path.shape[1] or not self.extent:
            return []
        return [(a, b, bool(is_high[a])) for a, b in itertools.pairwise(edges) if b - a >= self.fps / 3]


def read_trace(recording: Recording, layout: Layout) -> HandTrace:
    """One hand in one episode, under a layout with its gripper and the arm.

    The command of a hand in the state are the action's dimensions of the same names, or the same indices.
    """
    body, hand, action = values_of(recording, "body"), list(layout.gripper), recording.action
    command = None
    if layout.source == "state" and action.shape[1] and not {*hand} & {*layout.summed}:
        dims = None
        if len(recording.state_names) == recording.state.shape[1] and recording.action_names:
            names, order = [recording.state_names[i] for i in hand], list(recording.action_names)
            dims = [order.index(name) for name in names] if {*names} <= {*order} else None
        elif recording.state.shape == action.shape:
            dims = hand
        command = None if dims is None else hand_signal(action[:, dims])
    return HandTrace(
        hand_signal(values_of(recording, layout.source)[:, hand]),
        command,
        signals.unwrap(body[:, list(layout.position)]),
        None if layout.vertical is None else body[:, layout.vertical].astype(np.float64),
        recording.fps,
    )


def closed_end(traces: Sequence[HandTrace], names: Sequence[str], robot_type: str | None) -> list[Evidence]:
    """Collect what speaks for either end, the strongest first; the hand's dimensions may have no `names`."""
    values = np.concatenate([trace.hand for trace in traces])
    moving = [t for t in traces if signals.moves(t.hand) and np.ptp(t.hand) >= _MOVED * np.ptp(values)]
    evidence = [*_of_names(names, robot_type, values)]
    for rule in (_of_commands, _of_rest, _of_carries) if moving else ():
        evidence += rule(moving)
    return sorted(evidence, key=lambda e: -e.weight)


def _of_names(names: Sequence[str], robot_type: str | None, values: Curve) -> Iterator[Evidence]:
    text = ", ".join(names)
    if len(names) == 1 and _OPEN_NAME.search(text):
        yield Evidence("low", 3, f"{text} says how open it is")
    elif len(names) == 1 and _CLOSED_NAME.search(text):
        yield Evidence("high", 3, f"{text} says how closed it is")
    low, high = float(values.min()), float(values.max())
    for pattern, minimum, maximum, end, reason in _CONVENTIONS:
        named = re.search(pattern, f"{robot_type or ''} {text}", re.IGNORECASE)
        if named and minimum <= low <= high <= maximum:
            yield Evidence(end, 2, reason)
            return


def _of_rest(traces: Sequence[HandTrace]) -> Iterator[Evidence]:
    """A hand is open where an episode starts and where it ends, as a rule."""
    level = split_level(np.concatenate([trace.hand for trace in traces]))
    parts = (slice(3), slice(-3, None))
    starts, ends = (float(np.mean([np.median(t.hand[part]) > level for t in traces])) for part in parts)
    for closed, start, _ in _both_ways(starts, 1 - starts):
        end, rest = (ends, "high") if closed == "low" else (1 - ends, "low")
        both = end >= _RULE
        if start >= _RULE and (both or len(traces) >= 3) and end > 1 - _RULE:
            where = f"starts{' and ends' if both else ''} at its {rest} end"
            share = min(start, end) if both else start
            yield Evidence(closed, 1, f"it {where} in {share:.0%} of {episodes_text(len(traces))}")


def _of_carries(traces: Sequence[HandTrace]) -> Iterator[Evidence]:
    """An arm stands where its hand takes an object, travels with it, and lets go low or standing."""
    low, high = (sum(_carries(trace, at_high) for trace in traces) for at_high in (False, True))
    for end, count, opposite in _both_ways(low, high):
        # Without a height, one of three episodes may look so by chance.
        if count > opposite and (count > 1 or len(traces) < 3 or traces[0].height is not None):
            clear = count >= 2 and count > _CLEAR * opposite
            times = f"{times_text(int(count))} at its {end} end and {times_text(int(opposite))} at the other"
            yield Evidence(end, 1 + clear, f"the motion looks like carrying {times}")


def _carries(trace: HandTrace, high: bool) -> int:
    """Count the spans at one end in which the arm may have carried something."""

    def lets_go(start: int, end: int) -> bool:
        if trace.height is None:
            return trace.pace(end) < _STANDS
        return max(trace.height[[start, end]]) <= trace.height.min() + 0.5 * np.ptp(trace.height)

    return sum(
        bool(np.linalg.norm(trace.path[a:b] - trace.path[a], axis=1).max() >= _CARRY * trace.extent)
        and trace.is_away(a)
        and trace.is_away(b)
        and trace.pace(a) < _STANDS
        and lets_go(a, b)
        for a, b, is_high in trace.level_spans()
        if is_high == high and b < len(trace.hand)
    )


def _both_ways(low: float, high: float) -> tuple[tuple[End, float, float], tuple[End, float, float]]:
    """Each end, what is measured there, and what at the other."""
    return ("low", low, high), ("high", high, low)


type _Units = Literal["same", "two commands", "other"]


@dataclass(frozen=True)
class _Frames:
    """The frames of all episodes in which command and hand stand: what holds an object cannot follow."""

    hands: Curve
    commands: Curve
    span: float
    units: _Units
    episodes: int

    def stops(self) -> tuple[Curve, Curve]:
        """The hand's values under either of two commands: the one that moves it low, and the other."""
        is_less = self.commands < (self.commands.min() + self.commands.max()) / 2
        less, more = self.hands[is_less], self.hands[~is_less]
        return (less, more) if less.mean() < more.mean() else (more, less)


def _steady_frames(traces: Sequence[HandTrace]) -> _Frames | None:
    pairs = [(t, t.command) for t in traces if t.command is not None]
    if not pairs:
        return None
    commands = np.concatenate([command for _, command in pairs])
    hands = np.concatenate([trace.hand for trace, _ in pairs])
    size, span = float(np.ptp(commands)), float(np.ptp(hands))
    if not size or not span:
        return None
    is_switch = np.isin(np.round((commands - commands.min()) / size, 1), (0, 1)).mean() >= 0.95
    told = [_settled(c, size) if is_switch else _steady(c, size, t.fps) for t, c in pairs]
    steady = np.concatenate(told) & np.concatenate([_steady(t.hand, span, t.fps) for t, _ in pairs])
    low, high = steady & (hands <= split_level(hands)), steady & (hands > split_level(hands))
    if min(low.sum(), high.sum()) < 3:
        return None
    offsets = (commands - hands) / span
    bias = min(abs(float(np.median(offsets[rest]))) for rest in (low, high))
    units: _Units = "two commands" if is_switch else "other"
    if bias < _SAME_UNITS and size <= (_SWITCH if is_switch else 2) * span and span <= 3 * size:
        units = "same"
    return _Frames(hands[steady], commands[steady], span, units, len(pairs))


def _steady(values: Curve, span: float, fps: float) -> NDArray[np.bool_]:
    """Frames at which a curve has stood for a third of a second."""
    count = max(1, round(fps / 3))
    steady = np.zeros(len(values), bool)
    steady[count:] = np.abs(values[count:] - values[:-count]) < 0.02 * span
    return steady


def _settled(command: Curve, size: float) -> NDArray[np.bool_]:
    """The later half of the time that each command lasts: a slow hand begins to follow it late."""
    edges = [0, *(np.flatnonzero(np.abs(np.diff(command)) > size / 2) + 1).tolist(), len(command)]
    return np.concatenate([np.arange(b - a) >= (b - a) / 2 for a, b in itertools.pairwise(edges)])


def _of_commands(traces: Sequence[HandTrace]) -> Iterator[Evidence]:
    frames = _steady_frames(traces)
    if frames is not None and frames.units == "same":
        yield from _of_squeeze(frames, np.concatenate([trace.hand for trace in traces]))
    elif frames is not None and frames.units == "two commands":
        # A hand with two commands opens to one place, and closes to the width of what it holds.
        low, high = (float(np.subtract(*np.quantile(v, (0.95, 0.05)))) / frames.span for v in frames.stops())
        for end, spread, opposite in _both_ways(low, high):
            if spread > max(_SQUEEZE, _CLEAR * opposite):
                beside = f"the other by {opposite:.0%}"
                yield Evidence(end, 3, f"its {end} end varies by {spread:.0%} of the range, {beside}")


def _of_squeeze(frames: _Frames, hands: Curve) -> Iterator[Evidence]:
    """Weigh how far the command lies beyond the state where both stand, at either end and at all.

    An offset that is the same everywhere is one of calibration. A hand that always stops at the last of all
    its values (`hands`) may be at its own limit; in one or two episodes there may be only one thing.
    """
    offsets = (frames.commands - frames.hands) / frames.span
    is_low = frames.hands <= split_level(hands)
    low, high = offsets[is_low], offsets[~is_low]
    lowest, highest = float(np.quantile(low, 0.2)), float(np.quantile(high, 0.8))
    below = min(-lowest, float(np.median(high)) - lowest)
    above = min(highest, highest - float(np.median(low)))
    if max(below, above) <= _SQUEEZE and (np.abs(offsets) < _SQUEEZE).mean() >= 0.2:
        below, above = -float(np.quantile(offsets, 0.1)), float(np.quantile(offsets, 0.9))
    for end, beyond, opposite in _both_ways(below, above):
        if beyond <= max(_SQUEEZE, _CLEAR * opposite):
            continue
        if end == "low":
            side, stops = "below", frames.hands[offsets < -_SQUEEZE] - hands.min()
        else:
            side, stops = "above", hands.max() - frames.hands[offsets > _SQUEEZE]
        is_limit = (stops < _SQUEEZE * frames.span).mean() >= _LIMIT
        shares = f"{beyond:.0%} of the range {side} the state, on its other side {max(0.0, opposite):.0%}"
        weight = 2 if is_limit and frames.episodes > 2 else 3
        yield Evidence(end, weight, f"where both stand the command lies {shares}")


def episodes_by_end(traces: Sequence[HandTrace]) -> dict[End, int]:
    """Count the episodes in which the commands alone tell that the hand closes at each end."""
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
    hands = np.concatenate([trace.hand for trace in traces])
    if frames is None or frames.units == "other" or rests.min() > (sign * hands).min() + _NEAR * frames.span:
        return None
    squeezes = sign * (frames.hands - frames.commands) > _SQUEEZE * frames.span
    holds, opens = frames.hands[squeezes], frames.hands[~squeezes]
    if frames.units == "two commands":
        holds, opens = frames.stops()[::sign]
    if len(holds) < 3:
        return None
    hold = float(np.quantile(sign * holds, 0.9))
    opens = sign * opens[sign * opens > hold + 0.02 * frames.span]
    middle = sign * split_level(hands)
    if len(opens) < 3 or hold < middle - _NEAR * frames.span:
        return None
    return sign * (hold + float(np.median(opens))) / 2
