"""The steps of labelled episodes carried over to another episode of the task.

Alignment projects each boundary of each example onto the episode. Then all examples look together for the
place nearby that is most alike, in the features that move at the labelled boundaries. No knowledge of the
robot, of its hand or of the language is needed.

What is carried over is tested on the examples themselves: each is predicted from the others (`measurement`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import numpy as np
from numpy.typing import NDArray

from goalreel import claims, files
from goalreel.planners.examples.outsiders import Evidence, is_dear, leaps, moved, refusal, way_to
from goalreel.planners.examples.warp import (
    RATE,
    Numbers,
    Scale,
    features_of,
    resample,
    warp,
)
from goalreel.types import Plan, Recording, Segment, Step


@dataclass(frozen=True, eq=False)
class Example:
    """An episode of a robot whose steps somebody labelled."""

    id: str
    """For messages: "episode 3"."""
    numbers: str
    """Digest that identifies the recording in any dataset (`numbers_of`)."""
    instruction: str
    fps: float
    timestamps: NDArray[np.float64]
    """Seconds since the episode's start, (frames,)."""
    state: NDArray[np.float64]
    """(frames, dimensions); there may be none."""
    action: NDArray[np.float64]
    steps: tuple[Step, ...]
    segments: tuple[Segment, ...]
    """One a step, in order."""
    by: str
    """Maker of the labels, as in `goalreel.claims.Claim.by`."""
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()

    @property
    def plan(self) -> Plan:
        """Its steps as they are, said to be by who labelled it."""
        steps = tuple(step.model_copy(update={"by": self.by}) for step in self.steps)
        return Plan(steps=steps, segments=self.segments)


def numbers_of(recording: Recording) -> str:
    """A digest that identifies a recording in any dataset, from its times, states and actions.

    The id counts too where only the times are recorded.
    """
    numbers = [values.tobytes() for values in (recording.state, recording.action)]
    return files.digest(recording.timestamps.tobytes(), *numbers, "" if any(numbers) else recording.id)


def digest_of(examples: Sequence[Example]) -> str | None:
    """A digest of these examples; None where there are none."""
    parts = (f"{e.numbers} {e.instruction} {e.fps} {e.plan.model_dump_json()}" for e in examples)
    return files.digest(*parts)[:16] if examples else None


type Shape = tuple[tuple[int, int], ...]
"""The boundaries where each step starts and ends: 0 is the episode's start, 1 its first boundary."""

TOLERANCE_S = 0.5  # a boundary is found again within this
ENOUGH = 0.8  # share of the boundaries to be found again before labels are carried over
_NEARBY = 10  # samples around its projection in which a boundary is looked for
_AROUND = 6  # samples on both sides of a boundary that are compared
_PRICE = 0.002  # price of a sample away from the projection
_APART = 4  # samples by which projections may be away from the place that was found, before they disagree
_AGAIN = 2  # samples within which most examples find a boundary in each other, where it is sure
_MOST = 0.8
_SAME_S = 0.2  # seconds within which two labelled edges are one boundary
_CONTRAST = 0.05  # a place that is elsewhere as alike, but for this share, is not found for sure
_SLOWER = 1.25  # times as long as the longest example: compared at the examples' pace too
_STILL = 0.005  # ranges in a sample by which a dimension that stands still may change


@dataclass(frozen=True)
class Measurement:
    """The share of their own boundaries that the examples of a task predict, each from the others."""

    instruction: str
    examples: int
    found: int
    boundaries: int
    """0 where there is one example: nothing is measured."""
    median_error_s: float | None = None
    alike: int = 0
    """Further instructions among the examples, which differ in a few words."""
    by: str = claims.PERSON
    """Maker of the labels, as in `goalreel.claims.Claim.by`; with commas between where there are several."""

    @property
    def enough(self) -> bool:
        """False where too few boundaries are found again, so that more labels are needed."""
        return self.found >= ENOUGH * self.boundaries

    def __str__(self) -> str:
        text = f'"{self.instruction}"' + (f" and {self.alike} like it" if self.alike else "")
        labelled = f"your {self.examples} labelled episodes"
        if self.examples == 1:
            return f"{text}: 1 labelled episode, so nothing is measured yet: label another one"
        if not self.boundaries:
            return f"{text}: {labelled} have no boundary to find again"
        if self.by not in (claims.PERSON, claims.ROWS):
            labelled = f"the {self.examples} episodes that {self.by} labelled"
        again = f"{self.found} of {self.boundaries} boundaries were found again"
        within = "" if self.median_error_s is None else f", half of them within {self.median_error_s:.1f} s"
        return f"{text}: among {labelled} {again}{within}"


@dataclass(frozen=True)
class Carried:
    """The boundaries of an episode."""

    example: int
    """The example that is nearest, whose steps they are."""
    frames: tuple[int, ...]
    """One for each boundary of that example."""
    doubts: tuple[str | None, ...]
    """Reason to doubt each boundary; None: it is sure."""
    attempts: tuple[tuple[int, int], ...] = ()
    """Frames where the hand closes and opens again in vain."""
    doubt: str | None = None
    """Reason to doubt all of it."""
    refusal: str | None = None
    """Reason why the episode is none of this task, or not whole."""


@dataclass(frozen=True)
class Elsewhere:
    """A boundary of an example, and where the others have it, in samples."""

    mark: int
    place: int
    projections: list[float]
    """Its place by each of the others."""
    unlike: float
    """Distance of the moment at the mark from theirs, by that of the place."""


@dataclass(frozen=True)
class _Found:
    """The boundaries of an episode, in samples, and what speaks for them."""

    example: int
    samples: list[int]
    prices: list[Numbers]
    """Distance of each sample from the examples, for each boundary; infinite far from its projections."""
    projections: list[list[float]]
    """By each example that has the same steps."""
    evidence: Evidence


@dataclass(frozen=True)
class _LeftOut:
    """An example that was found by the others."""

    shape: Shape
    errors: list[float]
    """Samples, one for each boundary; infinite for each that is too many."""
    found: _Found


class TaskExamples:
    """The labelled episodes of a task, against which other episodes are aligned."""

    def __init__(self, examples: Sequence[Example]) -> None:
        """`examples`: at least one, with as many dimensions each."""
        self.examples = tuple(examples)
        motions = [motion_of(example) for example in examples]
        self._scale = Scale.of(motions)
        self._places = [self._scale.places(motion) for motion in motions]
        self._rows = [features_of(places) for places in self._places]
        self._marks = [mark_samples(e, len(rows)) for e, rows in zip(examples, self._rows, strict=True)]

    def carry(self, recording: Recording) -> Carried:
        """Find the examples' boundaries in a recording of the same robot."""
        places, every = self._scale.places(motion_of(recording)), range(len(self.examples))
        tests = [left.found.evidence for left in self._left_out]
        tried = [(self._find(places[way], every), way, doubt) for way, doubt in self._ways(places)]
        tried.sort(key=lambda one: one[0].evidence.costs[1])
        found, way, doubt = next((one for one in tried if not refusal(one[0].evidence, tests)), tried[0])
        times = recording.timestamps[0] + way[found.samples] / RATE
        frames = np.searchsorted(recording.timestamps, times - 0.5 / recording.fps)
        return Carried(
            found.example,
            tuple(np.minimum(frames, len(recording.timestamps) - 1).tolist()),
            tuple(self._doubt(found, at) or doubt for at in range(len(found.samples))),
            doubt=self._unmeasured(found),
            refusal=refusal(found.evidence, tests),
        )

    def _ways(self, places: Numbers) -> Iterator[tuple[NDArray[np.int64], str | None]]:
        """Give samples of an episode to compare, and a doubt: all, without stops, at the examples' pace."""
        yield np.arange(len(places)), None
        lengths = [len(rows) for rows in self._rows]
        if len(places) > max(lengths):
            moves = np.abs(np.diff(places, axis=0)).max(axis=1, initial=0.0) > _STILL
            yield np.flatnonzero([True, *moves[:-1], True]), None
        if len(places) > _SLOWER * max(lengths):
            samples = np.linspace(0, len(places) - 1, round(median(lengths)))
            yield samples.round().astype(int), "it is much slower than the labelled episodes"

    def found_by_others(self, example: int) -> list[Elsewhere]:
        """Find the boundaries of an example by the others, which have as many."""
        others = self._others(example)
        found = self._find(self._places[example], others)
        weight = relevance([self._rows[o] for o in others], [self._marks[o] for o in others])
        places: list[Elsewhere] = []
        for at, (mark, place) in enumerate(zip(self._marks[example], found.samples, strict=False)):
            patterns = [_around(self._rows[o] * weight, np.array([self._marks[o][at]])) for o in others]
            here, there = _unlike(self._rows[example] * weight, np.array([mark, place]), patterns)
            places.append(Elsewhere(mark, place, found.projections[at], float(here / max(there, 1e-9))))
        return places

    def _others(self, example: int) -> list[int]:
        return [other for other in range(len(self.examples)) if other != example]

    @cached_property
    def measurement(self) -> Measurement:
        """Number of boundaries that are found again, of each example by the others."""
        errors = [error for found in self._left_out for error in found.errors]
        hits = [error for error in errors if error <= TOLERANCE_S * RATE]
        return Measurement(
            self.examples[0].instruction,
            len(self.examples),
            len(hits),
            len(errors),
            round(max(1, median(hits)) / RATE, 2) if hits else None,
            len({example.instruction for example in self.examples}) - 1,
            ", ".join(dict.fromkeys(example.by for example in self.examples)),
        )

    @cached_property
    def _left_out(self) -> list[_LeftOut]:
        """Each example, found by the others."""
        left: list[_LeftOut] = []
        for example in range(len(self.examples) if len(self.examples) > 1 else 0):
            found, true = self._find(self._places[example], self._others(example)), self._marks[example]
            errors = [min((abs(at - mark) for at in found.samples), default=np.inf) for mark in true]
            errors += [np.inf] * max(0, len(found.samples) - len(true))
            left.append(_LeftOut(self._shape(example), errors, found))
        return left

    def _shape(self, example: int) -> Shape:
        return (*shape(self.examples[example]), (0, len(self._marks[example]) + 1))

    def _find(self, places: Numbers, examples: Sequence[int]) -> _Found:
        """Find the boundaries of some examples in an episode's places."""
        rows = features_of(places)
        weight = relevance([self._rows[e] for e in examples], [self._marks[e] for e in examples])
        weighed = {e: self._rows[e] * weight for e in examples}
        pairs = [(rows, self._rows[e]) for e in examples] + [(rows * weight, weighed[e]) for e in examples]
        aligned = warp(pairs)
        plain, warps = aligned[: len(examples)], dict(zip(examples, aligned[len(examples) :], strict=True))
        nearest = min(examples, key=lambda e: warps[e].cost)
        half = places.shape[1]
        back = warp([(rows[::-2], self._rows[e][::-2]) for e in examples])
        voters = [e for e in examples if self._shape(e) == self._shape(nearest)]
        marks = range(len(self._marks[nearest]))
        projections = [[float(warps[e].places[self._marks[e][at]]) for e in voters] for at in marks]
        patterns = [[_around(weighed[e], np.array([self._marks[e][at]])) for e in voters] for at in marks]
        prices = [
            _prices(rows * weight, pattern, median(projected))
            for pattern, projected in zip(patterns, projections, strict=True)
        ]
        samples = _in_order(prices)
        unlike = np.array([_unlike(rows * weight, np.array(samples), pattern) for pattern in patterns])
        ways = [way_to(self._places[v], mark) for v in voters for mark in self._marks[v][:1]]
        alone = min(w.alone(rows, self._rows[e]) for e, w in zip(examples, plain, strict=True))
        return _Found(
            nearest,
            samples,
            prices,
            projections,
            Evidence(
                costs=(min(w.cost for w in plain), warps[nearest].cost, alone),
                reached=(max(w.reached for w in plain), max(w.reached for w in back)),
                start=min(float(np.linalg.norm((rows[0] - self._rows[e][0])[:half])) for e in examples),
                way=way_to(places, samples[0]) / max(min(ways), 1e-9) if ways else 1.0,
                paid=np.array([of[at] for of, at in zip(prices, samples, strict=True)]),
                others=np.where(np.eye(len(samples), dtype=bool), np.inf, unlike).min(axis=0, initial=np.inf),
                moved=moved(
                    places, samples, [self._places[v] for v in voters], [self._marks[v] for v in voters]
                ),
                leaps=leaps(places, [self._places[e] for e in examples]),
            ),
        )

    def _unmeasured(self, found: _Found) -> str | None:
        alike = sum(left.shape == self._shape(found.example) for left in self._left_out)
        has = "" if len(self.examples) == 1 else " has such steps"
        return f"one labelled episode{has}: nothing is measured yet" if alike < 2 else None

    def _doubt(self, found: _Found, at: int) -> str | None:
        if unmeasured := self._unmeasured(found):
            return unmeasured
        if is_dear(found.evidence, [left.found.evidence for left in self._left_out])[at]:
            return "it is unlike this boundary of the labelled episodes"
        tests = [left.errors[at] for left in self._left_out if left.shape == self._shape(found.example)]
        if sum(error <= _AGAIN for error in tests) < _MOST * len(tests):
            return "the labelled episodes do not find this boundary in each other"
        place = found.samples[at]
        if max(abs(p - place) for p in found.projections[at]) > _APART:
            return "the labelled episodes disagree on where this is"
        prices = found.prices[at]
        elsewhere = np.abs(np.arange(len(prices)) - place) > TOLERANCE_S * RATE
        if prices[elsewhere].min(initial=np.inf) < (1 + _CONTRAST) * prices[place] + 0.001:
            return "another moment nearby is as much like this one"
        return None


def boundaries(example: Example) -> list[int]:
    """List the frames where a step of an example starts or ends, without its first and last frame."""
    return _edges(example)[0][1:-1]


def shape(example: Example) -> Shape:
    """Number the boundaries between which the steps of an example lie."""
    numbers = _edges(example)[1]
    return tuple((numbers[segment.start], numbers[segment.end]) for segment in example.segments)


def _edges(example: Example) -> tuple[list[int], dict[int, int]]:
    """The edges of the steps, and the number of the edge that each of their frames belongs to.

    Edges within `_SAME_S` of each other, or of the episode's ends, are one: people write "23.7" for 23.77 s.
    """
    length, segments = len(example.timestamps), example.segments
    frames = {0, length, *(edge for s in segments for edge in (s.start, s.end))}
    edges, numbers = [0], dict[int, int]()
    for frame in sorted(frames):
        is_step = any(edges[-1] <= segment.start and segment.end <= frame for segment in segments)
        if is_step or frame - edges[-1] > _SAME_S * example.fps:
            edges.append(frame)
        numbers[frame] = len(edges) - 1
    return edges, numbers


def relevance(rows: Sequence[Numbers], marks: Sequence[Sequence[int]]) -> Numbers:
    """A weight for each feature: how much more it moves at labelled boundaries than everywhere."""
    moved = [np.abs(np.gradient(features, axis=0)) for features in rows]
    at = [
        changes[max(0, mark - _AROUND + 1) : mark + _AROUND].mean(axis=0)
        for changes, its in zip(moved, marks, strict=True)
        for mark in its
    ]
    if not at or not moved[0].size:
        return np.ones(moved[0].shape[1])
    everywhere = np.mean([changes.mean(axis=0) for changes in moved], axis=0)
    weight = (np.mean(at, axis=0) + 1e-9) / (everywhere + 1e-9)
    return weight / np.sqrt((weight**2).mean())


def motion_of(recording: Recording | Example, *, action: bool = True) -> Numbers:
    """The state of a recording, and its action, at `RATE`."""
    parts = [recording.state, recording.action] if action else [recording.state]
    numbers = np.hstack(parts).astype(np.float64)
    return resample(np.asarray(recording.timestamps, np.float64), numbers)


def mark_samples(example: Example, count: int) -> list[int]:
    """The boundaries of an example, in its `count` samples."""
    times = example.timestamps[boundaries(example)] - example.timestamps[0]
    return np.minimum(np.round(times * RATE), count - 1).astype(int).tolist()


def _around(rows: Numbers, samples: NDArray[np.int64]) -> Numbers:
    """The features around each of some samples: (samples, 2 * _AROUND + 1, features)."""
    nearby = samples[:, None] + np.arange(-_AROUND, _AROUND + 1)
    return rows[np.clip(nearby, 0, len(rows) - 1)]


def _unlike(rows: Numbers, samples: NDArray[np.int64], patterns: Sequence[Numbers]) -> Numbers:
    """The mean distance of what is around each sample from the patterns."""
    around = _around(rows, samples)
    return np.mean([np.sqrt(((around - p) ** 2).sum(axis=2)).mean(axis=1) for p in patterns], axis=0)


def _prices(rows: Numbers, patterns: Sequence[Numbers], middle: float) -> Numbers:
    """Distance of each sample from the patterns; infinite away from the `middle` of their projections."""
    first = max(0, int(middle) - _NEARBY)
    places = np.arange(first, min(len(rows), int(middle) + _NEARBY + 1))
    prices = np.full(len(rows), np.inf)
    prices[places] = _unlike(rows, places, patterns) + _PRICE * np.abs(places - middle)
    return prices


def _in_order(prices: Sequence[Numbers]) -> list[int]:
    """Choose a sample for each boundary, each after the one before it, at the least price in all."""
    if not prices:
        return []
    totals, before = [prices[0]], list[NDArray[np.int64]]()
    for price in prices[1:]:
        least = np.minimum.accumulate(totals[-1])
        before.append(np.maximum.accumulate(np.where(totals[-1] <= least, np.arange(len(least)), 0)))
        totals.append(price + np.concatenate([[np.inf], least[:-1]]))
    if not np.isfinite(totals[-1]).any():  # crowded at one end of the episode
        return [int(np.argmin(price)) for price in prices]
    chosen = [int(np.argmin(totals[-1]))]
    for earlier in reversed(before):
        chosen.append(int(earlier[chosen[-1] - 1]))
    return chosen[::-1]


_COMPARED = 40  # episodes that are compared with each other, evenly spread over all


def choose(recordings: Sequence[Recording], count: int = 3) -> list[int]:
    """Choose `count` recordings of one task to label, by their places in the list, the best one first.

    The first is nearest to all others; each next one brings the others nearest to one that is labelled.
    """
    last = len(recordings) - 1
    places = np.unique(np.linspace(0, last, min(last + 1, _COMPARED)).round().astype(int))
    motions = [motion_of(recordings[place]) for place in places]
    scale = Scale.of(motions)
    rows = [features_of(scale.places(motion)) for motion in motions]
    far = np.zeros((len(rows), len(rows)))
    for a in range(len(rows)):
        others = range(a + 1, len(rows))
        for b, warped in zip(others, warp([(rows[a], rows[b]) for b in others]), strict=True):
            far[a, b] = far[b, a] = warped.cost
    near, chosen = np.full(len(rows), np.inf), list[int]()
    for _ in range(min(count, len(rows))):
        totals = np.minimum(near[:, None], far).sum(axis=0)
        totals[chosen] = np.inf
        chosen.append(int(np.argmin(totals)))
        near = np.minimum(near, far[:, chosen[-1]])
    return places[chosen].tolist()
