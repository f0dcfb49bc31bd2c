"""Values with 95 % intervals, from episodes drawn again: one row of counts an episode, the seed fixed.

Every measurement of goalreel gets its interval here. A draw in which there is nothing to measure, such as no
boundary, is left out of the interval: it says nothing about the value, and to count it as a perfect
score would pull the upper end to 1 wherever what is measured is rare.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from goalreel.evaluation.measured import Measured

DRAWS = 2000

type Sums = NDArray[np.float64]
"""Counts (..., columns), summed over episodes."""
type Statistic = Callable[[Sums], Sums]
"""Makes values (...) of sums (..., columns), NaN where there is nothing to measure."""


def measured(rows: Sequence[Sequence[float]] | Sums, statistic: Statistic) -> Measured:
    """Compute the statistic of all rows together, with its interval over rows drawn again.

    Args:
        rows: counts (episodes, columns).

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
    """Compute the share of hits among (seed of the episode, hit)."""
    counts: dict[int, list[int]] = {}
    for seed, hit in answers:
        row = counts.setdefault(seed, [0, 0])
        row[0] += hit
        row[1] += 1
    return measured(list(counts.values()), share)


def share(sums: Sums) -> Sums:
    """Divide column 0 by column 1; NaN where column 1 is 0."""
    return _over(sums[..., 0], sums[..., 1])


def balanced(sums: Sums) -> Sums:
    """Average two shares, column 0 over 1 and column 2 over 3; NaN where either has nothing under it."""
    return (_over(sums[..., 0], sums[..., 1]) + _over(sums[..., 2], sums[..., 3])) / 2


def area(sums: Sums) -> Sums:
    """Compute the area under the ROC curve, ties counted half.

    Columns: how many positives have each score, ascending, then how many negatives.
    """
    positive, negative = np.split(sums, 2, axis=-1)
    below = np.cumsum(negative, axis=-1) - negative / 2
    return _over((positive * below).sum(axis=-1), positive.sum(axis=-1) * negative.sum(axis=-1))


def gap_closed(sums: Sums) -> Sums:
    """Compute (ours - first) / (ceiling - first) of columns ours, first, ceiling; NaN without a gap."""
    ours, first, ceiling = (sums[..., i] for i in range(3))
    return _over(ours - first, np.maximum(ceiling - first, 0.0))


def points(sums: Sums) -> Sums:
    """Say by how many points (0-100) column 0 over 2 exceeds column 1 over 2; NaN where column 2 is 0."""
    return 100 * _over(sums[..., 0] - sums[..., 1], sums[..., 2])


def _over(top: Sums, bottom: Sums) -> Sums:
    top, bottom = np.asarray(top, np.float64), np.asarray(bottom, np.float64)
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)
