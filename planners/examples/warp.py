"""Dynamic time warping of two motions, and the features that it compares.

A few lines of NumPy, which align several pairs at once. `dtaidistance`, `dtw-python` and `tslearn` (2026)
take about as long for a pair of 30 s, and bring compiled code, SciPy or Numba.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import batched
from typing import Self

import numpy as np
from numpy.typing import NDArray

type Numbers = NDArray[np.float64]

RATE = 10.0  # Hz at which motions are compared
SPEED = 3.0  # weight of a speed (ranges in 0.1 s) beside a place
_BEYOND = 0.2  # ranges that a value may lie outside what the examples show; more counts as this
_CELLS = 2_000_000  # cells of 24 bytes of the tables that are in memory at once, if one table is no larger
_DEAD = 1e-4  # a dimension that changes by less than this share of its size never changes


def resample(timestamps: Numbers, values: Numbers) -> Numbers:
    """Interpolate `values` (frames, dimensions) at `RATE`: (samples, dimensions), at least two of them."""
    start, end = timestamps[0], timestamps[-1]
    times = start + np.arange(max(2, round((end - start) * RATE) + 1)) / RATE
    return np.stack([np.interp(times, timestamps, column) for column in values.T], axis=1)


@dataclass(frozen=True)
class Scale:
    """Scale of the dimensions, by those motions that are known."""

    low: Numbers
    spread: Numbers
    live: NDArray[np.bool_]

    @classmethod
    def of(cls, motions: Sequence[Numbers]) -> Self:
        """Measure the scale of motions (samples, dimensions) at `RATE`."""
        every = np.concatenate(motions)
        low, high = np.percentile(every, [1, 99], axis=0)
        live = high - low > _DEAD * np.maximum(1, np.abs(high))
        return cls(low, np.maximum(3 * every.std(axis=0), 1e-6), live)

    def places(self, motion: Numbers) -> Numbers:
        """Places of the live dimensions in their range: (samples, live)."""
        return np.clip((motion - self.low) / self.spread, -_BEYOND, 1 + _BEYOND)[:, self.live]


def features_of(places: Numbers) -> Numbers:
    """Places, (samples, dimensions), and speeds: (samples, 2 x dimensions), of about unit length."""
    rows = np.hstack([places, SPEED * np.gradient(places, axis=0)])
    return rows / np.sqrt(max(1, rows.shape[1]))


@dataclass(frozen=True)
class Warp:
    """Alignment of an episode with an example."""

    cost: float
    """Mean distance along the path."""
    reached: float
    """Share of the example that the episode reaches, if its end is free: below 1 where it stops early."""
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    """First and last sample of the episode that belong to each sample of the example."""

    @property
    def places(self) -> Numbers:
        """The middle of the samples of the episode that belong to each sample of the example."""
        return (self.first + self.last) / 2

    def alone(self, episode: Numbers, example: Numbers) -> float:
        """Share of both motions, of these features, that one makes while the other stands still."""
        ways = [np.linalg.norm(np.diff(f[:, : f.shape[1] // 2], axis=0), axis=1) for f in (episode, example)]
        so_far = np.concatenate([[0.0], np.cumsum(ways[0])])
        stands = self.last[:-1] == self.first[1:]
        alone = (so_far[self.last] - so_far[self.first]).sum() + ways[1][stands].sum()
        return float(alone / max(ways[0].sum() + ways[1].sum(), 1e-9))


def warp(pairs: Sequence[tuple[Numbers, Numbers]]) -> list[Warp]:
    """Align pairs of an episode and an example, features (samples, dimensions), from start to end.

    The episodes of all pairs have one length, so that a row of all their tables is one cumulative minimum.
    Source: Sakoe and Chiba, 1978, symmetric steps of equal weight.
    """
    warps: list[Warp] = []
    largest = max((len(a) * len(b) for a, b in pairs), default=1)
    for group in batched(pairs, max(1, _CELLS // largest)):
        length, widest = len(group[0][0]), max(len(example) for _, example in group)
        cost = np.zeros((length, len(group), widest))
        for number, (episode, example) in enumerate(group):
            products = np.einsum("ik,jk->ij", episode, example)  # unlike `@`, starts no threads of BLAS
            squares = (episode**2).sum(axis=1)[:, None] + (example**2).sum(axis=1) - 2 * products
            cost[:, number, : len(example)] = np.sqrt(np.maximum(squares, 0))
        run = np.cumsum(cost, axis=2)
        before, table = cost - run, cost
        table[0] = run[0]
        for i in range(1, length):
            best = table[i - 1].copy()
            np.minimum(best[:, 1:], table[i - 1, :, :-1], out=best[:, 1:])
            best += before[i]
            np.add(np.minimum.accumulate(best, axis=1), run[i], out=table[i])
        warps += [_trace(table[:, n, : len(example)]) for n, (_, example) in enumerate(group)]
    return warps


def _trace(table: Numbers) -> Warp:
    """Read an alignment off its table."""
    length, width = table.shape
    open_costs = table[-1] / (length + np.arange(1, width + 1))
    first = width // 4  # less of an example is no likeness
    reached = first + int(np.argmin(open_costs[first:])) + 1
    return Warp(float(open_costs[-1]), reached / width, *_path(table))


def _path(table: Numbers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Trace the cheapest path back; the first and the last row that each column meets."""
    i, j = len(table) - 1, table.shape[1] - 1
    first, last = np.full(j + 1, i), np.full(j + 1, 0)
    while True:
        first[j], last[j] = min(first[j], i), max(last[j], i)
        if i == j == 0:
            return first, last
        if i == 0 or (j and table[i, j - 1] < min(table[i - 1, j], table[i - 1, j - 1])):
            j -= 1
        elif j == 0 or table[i - 1, j] < table[i - 1, j - 1]:
            i -= 1
        else:
            i, j = i - 1, j - 1
