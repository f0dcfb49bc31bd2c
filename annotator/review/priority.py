"""Which episodes a person should look at first: how much in doubt is what the models wrote. Pure.

A model's own doubt counts (a rejected picture, a low probability), a boundary where nothing in the motion
changes, and what is unlike the rest of the dataset. What people say of an episode changes none of it: the
queue stands still while it is worked off.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from goalreel.types import Storyboard, StoryboardStep

ENOUGH = 8
"""Lengths that a name must have before one of them can be unusual."""
UNUSUAL = 3.5
"""So many times the usual deviation (1.4826 medians of it) of a length's logarithm is unusual."""
SURE = 0.9
"""From this probability on the Critic is taken to be sure."""
_LEAST = 0.1
"""The usual deviation is not taken for less: a robot that repeats itself to the frame has hardly any."""


@dataclass(frozen=True, slots=True)
class EpisodeFacts:
    """What one episode's doubt is made of."""

    claims: tuple[tuple[float, str], ...]
    """Of its own: how much each counts, 0-1, and in words."""
    lengths: tuple[tuple[str, int], ...]
    """Name and frames of each step that has some."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """How much an episode is in doubt, 0-1, and why, what counts most first."""

    value: float = 0.0
    reasons: tuple[str, ...] = ()


def facts(board: Storyboard, unmoved: int = 0) -> EpisodeFacts:
    """What an episode's storyboard says of itself; `unmoved` of its boundaries have no motion near them."""
    spans = ((step.step.name, step.segment) for step in board.steps)
    claims = list(_claims(board))
    if unmoved:
        where = "a boundary" if unmoved == 1 else f"{unmoved} boundaries"
        claims.append((1 - 0.8**unmoved, f"{where} where the motion shows none"))
    return EpisodeFacts(tuple(claims), tuple((name, s.end - s.start) for name, s in spans if s is not None))


def unmoved(board: Storyboard, proposed: Sequence[int], slack: int) -> int:
    """How many inner boundaries have no proposal of the kinematics (frames) within `slack` frames.

    None, where it proposes nothing at all: then it cannot tell.
    """
    starts = sorted(step.segment.start for step in board.steps if step.segment is not None)[1:]
    return sum(all(abs(at - p) > slack for p in proposed) for at in starts) if proposed else 0


def doubts(episodes: Mapping[int, EpisodeFacts]) -> dict[int, Doubt]:
    """Episode -> how much in doubt it is among the others."""
    lengths: defaultdict[str, list[float]] = defaultdict(list)
    for found in episodes.values():
        for name, frames in found.lengths:
            lengths[name].append(math.log(frames))
    usual = {name: _usual(logs) for name, logs in lengths.items() if len(logs) >= ENOUGH}
    return {episode: _doubt([*found.claims, *_odd(found, usual)]) for episode, found in episodes.items()}


def _doubt(claims: Sequence[tuple[float, str]]) -> Doubt:
    sure = math.prod(1 - weight for weight, _ in claims)
    ordered = sorted(claims, key=lambda claim: -claim[0])
    return Doubt(round(1 - sure, 4), tuple(words for _, words in ordered))


def _claims(board: Storyboard) -> Iterator[tuple[float, str]]:
    if board.failure is not None:
        yield 1.0, "no plan"
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


def _usual(logs: Sequence[float]) -> tuple[float, float]:
    """The median, and 1.4826 medians of the deviation from it (which is sigma for a bell curve)."""
    middle = median(logs)
    return middle, max(_LEAST, 1.4826 * median(abs(log - middle) for log in logs))


def _odd(found: EpisodeFacts, usual: Mapping[str, tuple[float, float]]) -> Iterator[tuple[float, str]]:
    for name, frames in found.lengths:
        if name in usual:
            middle, deviation = usual[name]
            off = (math.log(frames) - middle) / deviation
            if abs(off) > UNUSUAL:
                yield 0.4, f"“{name}” is unusually {'long' if off > 0 else 'short'}"
