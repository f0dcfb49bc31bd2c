"""The step that a running robot is in: labelled episodes, aligned with what was seen of it so far."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.examples.carry import Example, mark_samples, motion_of, relevance, shape
from goalreel.planners.examples.warp import RATE, SPEED, Numbers, Scale

MOST = 5  # examples that are compared; more would say little more
_PACE = np.array([0.2, 0.6, 0.2])  # probability that a robot advances by 0, 1 or 2 samples of an example
_LAG = 2  # samples over which a speed is measured: only the past is known
_SHARP = 0.25  # a distance of this share of that among the examples lowers a likelihood e times
_START = 5  # samples of an example in which a task begins
_OTHER = 0.02  # probability that another example is the nearest one from now on
_SURE, _HELD = 0.5, 2  # a step is left where the next one is more probable than this for so many samples
_END = 3  # samples that are the end of an example
_UNLIKE = 2.0  # greatest distance, in that among the examples, at which a robot still does what they show
_MEMORY = 0.1  # weight of the newest distance in the running mean
_EARLY, _LATE = -1.0, 1.5  # seconds by which examples may miss a boundary in each other, to tell it
_MOST_FIND = 0.6
_LONGEST_GAP = 2.0  # seconds without numbers after which it is unknown what the robot did


class LiveSteps:
    """Follows a robot through the steps of labelled episodes.

    For each place in each example there is the probability that the robot is there (a forward algorithm). A
    step is left once the next one is more probable for a while, and entered again by `restart` or `enter`.
    """

    def __init__(self, examples: Sequence[Example], *, action: bool = True) -> None:
        """Compare the first examples with the most usual steps; by states alone without `action`."""
        shapes = [shape(example) for example in examples]
        usual = max(shapes, key=shapes.count)
        kept = [e for e, its in zip(examples, shapes, strict=True) if its == usual][:MOST]
        self.examples = tuple(kept)
        motions = [motion_of(e, action=action) for e in kept]
        self._scale = Scale.of(motions)
        self._marks = [mark_samples(e, len(motion)) for e, motion in zip(kept, motions, strict=True)]
        rows = [_features(self._scale.places(motion)) for motion in motions]
        self._weight = relevance(rows, self._marks)
        self._rows = [features * self._weight for features in rows]
        self._ends = [end for _, end in usual]
        """The boundary that ends each step."""
        self.restart()

    def restart(self, step: int = 0) -> None:
        """Begin anew, where that step begins."""
        self._passed = 0 if step == 0 else self._ends[step - 1]
        self._filter = _Filter(self._rows, self._marks, self._sharp, self._passed)
        self._held, self._at_end = 0, False
        self.is_unlike = False
        """The robot has done something else than the examples: nothing is told until it begins anew."""
        self._time: float | None = None
        self._numbers: Numbers
        self._next = 0.0
        self._places: list[Numbers] = []

    def push(self, seconds: float, numbers: NDArray[np.floating]) -> None:
        """Take the state, or state and action, of a moment, at any rate."""
        numbers = np.asarray(numbers, np.float64)
        if self._time is None or not 0 <= seconds - self._time <= _LONGEST_GAP:
            self._next = seconds
            self._time, self._numbers = seconds, numbers
        while self._next <= seconds + 1e-9:
            passed = max(1e-9, seconds - self._time)
            share = min(1.0, max(0.0, (self._next - self._time) / passed))
            self._take((1 - share) * self._numbers + share * numbers)
            self._next += 1 / RATE
        self._time, self._numbers = seconds, numbers

    def is_left(self, step: int) -> bool | None:
        """True if the robot has done that step; None where the examples do not tell."""
        if not self._places or self.is_unlike or not self._told[step]:
            return None
        end = self._ends[step]
        return self._passed >= end or (end > len(self._marks[0]) and self._at_end)

    def enter(self, step: int) -> None:
        """Take it from somebody else that a step begins: begin anew there if the examples did not tell."""
        if self.is_unlike or self._passed < (0 if step == 0 else self._ends[step - 1]):
            self.restart(step)

    def _take(self, numbers: Numbers) -> None:
        self._places = [*self._places[-_LAG:], self._scale.places(numbers[None])[0]]
        shares = self._filter.push(_features(np.array(self._places))[-1] * self._weight)
        self.is_unlike = self.is_unlike or self._filter.distance > self._limit
        beyond = shares[self._passed + 1 :].sum()
        self._held = self._held + 1 if beyond > _SURE else 0
        if self._held >= _HELD:
            self._passed, self._held = self._passed + 1, 0
        self._at_end = self._filter.at_end > _SURE

    @cached_property
    def _sharp(self) -> float:
        """Distance that lowers a likelihood e times."""
        far = [
            np.sqrt(((a[:, None] - b) ** 2).sum(axis=2)).min(axis=1).mean()
            for i, a in enumerate(self._rows)
            for j, b in enumerate(self._rows)
            if i != j
        ]
        return _SHARP * max(1e-3, float(np.median(far)) if far else 0.05)

    @cached_property
    def _left_out(self) -> list[tuple[list[float], float]]:
        """For each example, followed by the others: seconds of delay at its boundaries; greatest distance."""
        found: list[tuple[list[float], float]] = []
        for out, rows in enumerate(self._rows if len(self._rows) > 1 else ()):
            others = [i for i in range(len(self._rows)) if i != out]
            it = _Filter([self._rows[i] for i in others], [self._marks[i] for i in others], self._sharp, 0)
            farthest, ahead = 0.0, list[Numbers]()
            for row in rows:
                ahead.append(it.push(row))
                farthest = max(farthest, it.distance)
            beyond = np.cumsum(np.array(ahead)[:, ::-1], axis=1)[:, ::-1] > _SURE
            delays = [
                (int(np.argmax(beyond[:, n])) - mark) / RATE if beyond[:, n].any() else np.inf
                for n, mark in enumerate(self._marks[out], 1)
            ]
            found.append((delays, farthest))
        return found

    @cached_property
    def _limit(self) -> float:
        among = max((farthest for _, farthest in self._left_out), default=4 * self._sharp / _SHARP)
        return _UNLIKE * among

    @cached_property
    def _told(self) -> list[bool]:
        """For each step, whether the examples find its end in each other."""
        by_boundary = zip(*(delays for delays, _ in self._left_out), strict=True)
        told = [np.mean([_EARLY <= d <= _LATE for d in delays]) >= _MOST_FIND for delays in by_boundary]
        return [bool(told[end - 1]) if end <= len(told) else True for end in self._ends]


class _Filter:
    """Probability of each place in the examples, given the samples so far."""

    def __init__(
        self, rows: Sequence[Numbers], marks: Sequence[Sequence[int]], sharp: float, passed: int
    ) -> None:
        """`passed`: the boundary at which the robot is; 0 is the start."""
        self._rows, self._sharp = np.concatenate(rows), sharp
        lengths = [len(r) for r in rows]
        self._lengths, self._firsts = lengths, np.cumsum([0, *lengths[:-1]])
        self._place = np.concatenate([np.arange(n) for n in lengths])
        self._rest = np.concatenate([np.arange(n)[::-1] for n in lengths])
        spans = [np.searchsorted(m, np.arange(n), side="right") for m, n in zip(marks, lengths, strict=True)]
        self._span = np.concatenate(spans)
        first = [0 if passed == 0 else m[passed - 1] for m in marks]
        ahead = self._place - np.repeat(first, lengths)
        start = (ahead >= 0) & (ahead < _START)
        self._shares = start / start.sum()
        self._is_new = True
        self.distance = 0.0
        """Running mean of the distance from where the robot is in the examples."""

    @property
    def at_end(self) -> float:
        """Probability of the examples' end."""
        return float(self._shares[self._rest < _END].sum())

    def push(self, row: Numbers) -> Numbers:
        """Take the features of a sample: the probability of being between each two boundaries."""
        far = np.sqrt(((self._rows - row) ** 2).sum(axis=1))
        with np.errstate(divide="ignore"):
            logs = np.log(self._shares if self._is_new else self._advanced()) - far / self._sharp
        shares = np.exp(logs - logs.max())
        self._shares = shares / shares.sum()
        self.distance += _MEMORY * (float(self._shares @ far) - self.distance)
        self._is_new = False
        spans = int(self._span.max()) + 1
        return np.bincount(self._span, weights=self._shares, minlength=spans).astype(np.float64)

    def _advanced(self) -> Numbers:
        before, after = self._shares, _PACE[0] * self._shares
        for pace, share in enumerate(_PACE[1:], 1):
            after[pace:] += share * np.where(self._place[pace:] >= pace, before[:-pace], 0)
            beyond = share * np.add.reduceat(np.where(self._rest < pace, before, 0), self._firsts)
            after[self._rest == 0] += beyond
        each = np.add.reduceat(after, self._firsts)
        alive = each > 1e-12
        mixed = np.where(alive, (1 - _OTHER) * each + _OTHER / len(each), each)
        return after * np.repeat(np.where(alive, mixed / np.maximum(each, 1e-12), 1), self._lengths)


def _features(places: Numbers) -> Numbers:
    """Places, and speeds that are known at once."""
    before = np.vstack([np.repeat(places[:1], _LAG, axis=0), places])[: len(places)]
    rows = np.hstack([places, SPEED * (places - before) / _LAG])
    return rows / np.sqrt(max(1, rows.shape[1]))
