"""Which end of a gripper's range is closed: evidence from a dataset's numbers, its names and its robot."""

import itertools
import re
from collections.abc import Iterator, Sequence

import numpy as np

from goalreel.planners.kinematic.commands import CLEAR, End, Evidence, HandTrace, both_ways, of_commands
from goalreel.planners.kinematic.counts import episodes_text, times_text
from goalreel.planners.kinematic.signals import Curve, arm_speed, moves, smooth, split_level

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
