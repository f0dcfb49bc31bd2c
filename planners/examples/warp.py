"""Dynamic time warping of two motions, and the features that it compares.

A few lines of NumPy: `dtaidistance`, `dtw-python` and `tslearn` (2026) take 0.4 to 1 times the time for two
episodes of 30 s, but bring compiled code, SciPy or Numba, and do not weigh features or end openly at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

type Numbers = NDArray[np.float64]

RATE = 10.0
"""Hz at which motions are compared."""
_SPEED = 3.0
"""Weight of a speed (ranges in 0.1 s) beside a place."""
_BEYOND = 0.2
"""Ranges that a value may lie outside what the examples show; more counts as this."""
_DEAD = 1e-4
"""A dimension that changes by less than this share of its size never changes."""


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

    def features(self, motion: Numbers) -> Numbers:
        """Places and speeds of the live dimensions: (samples, 2 x live), of about unit length."""
        places = np.clip((motion - self.low) / self.spread, -_BEYOND, 1 + _BEYOND)[:, self.live]
        rows = np.hstack([places, _SPEED * np.gradient(places, axis=0)])
        return rows / np.sqrt(max(1, rows.shape[1]))


@dataclass(frozen=True)
class Warp:
    """Alignment of an episode with an example."""

    cost: float
    """Mean distance along the path."""
    reached: float
    """Share of the example that the episode reaches, if its end is free: below 1 where it stops early."""
    places: Numbers
    """Sample of the episode that belongs to each sample of the example."""


def warp(episode: Numbers, example: Numbers) -> Warp:
    """Align features (samples, dimensions), from start to end. A row of the table is one cumulative minimum.

    Source: Sakoe and Chiba, 1978, symmetric steps of equal weight.
    """
    squares = (episode**2).sum(axis=1)[:, None] + (example**2).sum(axis=1) - 2 * episode @ example.T
    cost = np.sqrt(np.maximum(squares, 0))
    table = np.empty_like(cost)
    table[0] = np.cumsum(cost[0])
    for i in range(1, len(table)):
        best, run = table[i - 1].copy(), np.cumsum(cost[i])
        np.minimum(best[1:], table[i - 1, :-1], out=best[1:])
        table[i] = run + np.minimum.accumulate(best - (run - cost[i]))
    lengths = len(table) + np.arange(1, len(example) + 1)
    open_costs = table[-1] / lengths
    first = len(example) // 4  # less of an example is no likeness
    reached = first + int(np.argmin(open_costs[first:])) + 1
    return Warp(float(open_costs[-1]), reached / len(example), _path(table))


def _path(table: Numbers) -> Numbers:
    """Trace the cheapest path back; the middle of the rows that each column meets."""
    i, j = len(table) - 1, table.shape[1] - 1
    first, last = np.full(j + 1, i), np.full(j + 1, 0)
    while True:
        first[j], last[j] = min(first[j], i), max(last[j], i)
        if i == j == 0:
            return (first + last) / 2
        if i == 0 or (j and table[i, j - 1] < min(table[i - 1, j], table[i - 1, j - 1])):
            j -= 1
        elif j == 0 or table[i - 1, j] < table[i - 1, j - 1]:
            i -= 1
        else:
            i, j = i - 1, j - 1
