"""A gripper's command against its state: what holds an object cannot follow its command."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.signals import Curve, split_level

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
