"""Values with 95 % intervals, from episodes drawn again: one row of counts an episode, the seed fixed."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from goalreel.evaluation.measured import Measured

DRAWS = 2000

type Array = NDArray[np.float64]
type Statistic = Callable[[Array], Array]
"""From summed counts (..., columns) to values (...), NaN where there is nothing to measure."""


def measured(rows: Sequence[Sequence[float]] | Array, statistic: Statistic) -> Measured:
    """The statistic of all rows together. Draws without anything to measure are left out of the interval.

    >>> measured([(1, 2), (2, 2)], share).value
    0.75
    """
    table = np.asarray(rows, np.float64)
    if not table.size:
        return Measured(value=None)
    value = float(statistic(table.sum(axis=0)))
    if not np.isfinite(value):
        return Measured(value=None)
    times = np.random.default_rng(0).multinomial(len(table), np.full(len(table), 1 / len(table)), size=DRAWS)
    low, high = np.nanpercentile(statistic(times @ table), [2.5, 97.5])
    return Measured(value=value, low=float(low), high=float(high))


def measured_share(answers: Iterable[tuple[int, bool]]) -> Measured:
    """The share of hits among (seed of the episode, hit)."""
    counts: dict[int, list[int]] = {}
    for seed, hit in answers:
        row = counts.setdefault(seed, [0, 0])
        row[0] += hit
        row[1] += 1
    return measured(list(counts.values()), share)


def share(sums: Array) -> Array:
    """Column 0 of column 1."""
    return _over(sums[..., 0], sums[..., 1])


def balanced(sums: Array) -> Array:
    """Mean of two shares: columns 0 of 1, and 2 of 3."""
    return (_over(sums[..., 0], sums[..., 1]) + _over(sums[..., 2], sums[..., 3])) / 2


def area(sums: Array) -> Array:
    """Area under the ROC curve. Columns: positives a score, ascending, then negatives a score; ties half."""
    positive, negative = np.split(sums, 2, axis=-1)
    below = np.cumsum(negative, axis=-1) - negative / 2
    return _over((positive * below).sum(axis=-1), positive.sum(axis=-1) * negative.sum(axis=-1))


def gap_closed(sums: Array) -> Array:
    """(ours - first) / (ceiling - first), for columns ours, first, ceiling; NaN where there is no gap."""
    ours, first, ceiling = (sums[..., i] for i in range(3))
    return _over(ours - first, np.maximum(ceiling - first, 0.0))


def points(sums: Array) -> Array:
    """How much larger the share 0 of 2 is than 1 of 2, in points (0-100)."""
    return 100 * _over(sums[..., 0] - sums[..., 1], sums[..., 2])


def _over(top: Array, bottom: Array) -> Array:
    top, bottom = np.asarray(top, np.float64), np.asarray(bottom, np.float64)
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)
