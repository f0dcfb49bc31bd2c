"""The order in which a person should review episodes: by the doubt about what the models wrote.

The doubt comes from the models (a rejected picture, a low probability), from boundaries without a change in
the motion, and from steps unlike the rest of the dataset. Verdicts of people do not change it, so that the
order of the queue stays the same during a review.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from goalreel.types import Storyboard, StoryboardStep

ENOUGH = 8
"""A name with fewer lengths has no unusual ones."""
UNUSUAL = 3.5
"""A length is unusual if its logarithm deviates by so many times the typical deviation."""
SURE = 0.9
"""The Critic is sure at this probability or above."""
_MIN_DEVIATION = 0.1
"""The least typical deviation: a robot that repeats itself to the frame has hardly any."""


@dataclass(frozen=True, slots=True)
class EpisodeFacts:
    """The reasons for doubt about one episode."""

    claims: tuple[tuple[float, str], ...]
    """The weight, 0-1, and the words of each reason in the episode itself."""
    lengths: tuple[tuple[str, int], ...]
    """Name and number of frames of each step with a segment."""


@dataclass(frozen=True, slots=True)
class Priority:
    """The doubt about an episode, 0-1, and the reasons for it, the heaviest first."""

    value: float = 0.0
    reasons: tuple[str, ...] = ()


def facts(board: Storyboard, unmoved: int = 0) -> EpisodeFacts:
    """Collect the reasons in an episode's storyboard; `unmoved` boundaries have no motion near them."""
    spans = ((step.step.name, step.segment) for step in board.steps)
    claims = list(_claims(board))
    if unmoved:
        where = "a boundary" if unmoved == 1 else f"{unmoved} boundaries"
        claims.append((1 - 0.8**unmoved, f"{where} where the motion shows none"))
    lengths = tuple((sys.intern(name), s.end - s.start) for name, s in spans if s is not None)
    return EpisodeFacts(tuple(claims), lengths)


def unmoved(board: Storyboard, proposed: Sequence[int], slack: int) -> int:
    """Count the inner boundaries without a proposal of the kinematics (frames) within `slack` frames.

    0 where the kinematics propose nothing at all.
    """
    starts = sorted(step.segment.start for step in board.steps if step.segment is not None)[1:]
    return sum(all(abs(at - p) > slack for p in proposed) for at in starts) if proposed else 0


def priorities(episodes: Mapping[int, EpisodeFacts]) -> dict[int, Priority]:
    """Episode -> its priority among the others."""
    lengths: defaultdict[str, list[float]] = defaultdict(list)
    for episode_facts in episodes.values():
        for name, frames in episode_facts.lengths:
            lengths[name].append(math.log(frames))
    typical = {name: _typical(logs) for name, logs in lengths.items() if len(logs) >= ENOUGH}
    return {e: _priority([*f.claims, *_unusual(f, typical)]) for e, f in episodes.items()}


def _priority(claims: Sequence[tuple[float, str]]) -> Priority:
    sure = math.prod(1 - weight for weight, _ in claims)
    ordered = sorted(claims, key=lambda claim: -claim[0])
    return Priority(round(1 - sure, 4), tuple(reason for _, reason in ordered))


def _claims(board: Storyboard) -> Iterator[tuple[float, str]]:
    if board.failure is not None:
        yield 1.0, "no plan"
    for doubt in dict.fromkeys(doubt for step in board.steps for doubt in step.step.doubts):
        yield 0.5, doubt
    for number, step in enumerate(board.steps, start=1):
        if step.unaligned:
            yield 0.6, f"step {number} not found in the recording"
        match step.status:
            case "unverified":
                yield 0.6, f"step {number} rejected by the Critic"
            case "failed":
                yield 0.7, f"step {number} has no picture"
            case "skipped":
                yield 0.5, f"step {number} never tried"
    lowest = min(_probabilities(board.steps), default=None)
    if lowest is not None:
        sure, number = lowest
        if sure < SURE:
            yield 0.9 * (1 - sure), f"probability {sure:.2f} of step {number}"


def _probabilities(steps: Sequence[StoryboardStep]) -> Iterator[tuple[float, int]]:
    for number, step in enumerate(steps, start=1):
        verdict = None if step.chosen is None else step.attempts[step.chosen].verdict
        if verdict is not None and verdict.probability is not None:
            yield verdict.probability, number


def _typical(logs: Sequence[float]) -> tuple[float, float]:
    """The median, and 1.4826 times the median deviation from it (sigma of a normal distribution)."""
    middle = median(logs)
    return middle, max(_MIN_DEVIATION, 1.4826 * median(abs(log - middle) for log in logs))


def _unusual(
    episode: EpisodeFacts, typical: Mapping[str, tuple[float, float]]
) -> Iterator[tuple[float, str]]:
    for name, frames in episode.lengths:
        if name in typical:
            middle, deviation = typical[name]
            off = (math.log(frames) - middle) / deviation
            if abs(off) > UNUSUAL:
                yield 0.4, f"“{name}” is unusually {'long' if off > 0 else 'short'}"
