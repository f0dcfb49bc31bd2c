"""Scores with 95 % intervals over episodes.

Episodes are drawn again with replacement, with a fixed seed; each is one row of counts. A draw with nothing
to measure, such as no boundary, is left out of the interval: to count it as perfect would pull the upper end
to 1 wherever the measured thing is rare.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from goalreel.types import Segment

DRAWS = 2000

type Sums = NDArray[np.float64]
"""Counts (..., columns), summed over episodes."""
type Statistic = Callable[[Sums], Sums]
"""Makes values (...) of sums (..., columns), NaN where there is nothing to measure."""


class Measurement(BaseModel, frozen=True):
    """A value with its 95 % interval over episodes; None where there was nothing to measure."""

    value: float | None
    low: float | None = None
    high: float | None = None

    def entries(self, key: str) -> dict[str, float | None]:
        """The value and its bounds as `key`, KEY_low and KEY_high."""
        return {key: self.value, f"{key}_low": self.low, f"{key}_high": self.high}

    def interval(self, digits: int = 3) -> str:
        """The interval as text; empty where there is none."""
        return " - ".join([f"{end:.{digits}f}" for end in (self.low, self.high) if end is not None])


def with_interval(rows: Sequence[Sequence[float]] | Sums, statistic: Statistic) -> Measurement:
    """Compute the statistic of all rows, counts (episodes, columns), with its interval over rows drawn again.

    >>> with_interval([(1, 2), (2, 2)], share).value
    0.75
    """
    table = np.asarray(rows, np.float64)
    value = float(statistic(table.sum(axis=0))) if table.size else np.nan
    if not np.isfinite(value):
        return Measurement(value=None)
    times = np.random.default_rng(0).multinomial(len(table), np.full(len(table), 1 / len(table)), size=DRAWS)
    low, high = np.nanpercentile(statistic(times @ table), [2.5, 97.5])
    return Measurement(value=value, low=float(low), high=float(high))


def share(sums: Sums) -> Sums:
    """Divide column 0 by column 1; NaN where column 1 is 0."""
    return ratio(sums[..., 0], sums[..., 1])


def balanced_accuracy(sums: Sums) -> Sums:
    """Average two shares, column 0 over 1 and column 2 over 3; NaN where column 1 or 3 is 0."""
    return (ratio(sums[..., 0], sums[..., 1]) + ratio(sums[..., 2], sums[..., 3])) / 2


def ratio(dividend: Sums, divisor: Sums) -> Sums:
    """Divide; NaN where the divisor is not above 0."""
    dividend, divisor = np.asarray(dividend, np.float64), np.asarray(divisor, np.float64)
    return np.divide(dividend, divisor, out=np.full_like(dividend, np.nan), where=divisor > 0)


def flatten(report: BaseModel) -> dict[str, object]:
    """List a report's fields, a measurement as KEY, KEY_low and KEY_high."""
    flat: dict[str, object] = {}
    for key in type(report).model_fields:
        value = getattr(report, key)
        flat |= value.entries(key) if isinstance(value, Measurement) else {key: value}
    return flat


class BoundaryCounts(NamedTuple):
    """Numbers of boundaries of an episode: predicted, true, and matched one to one."""

    matched: int
    predicted: int
    true: int

    @property
    def pair(self) -> tuple[int, int]:
        """Numerator and denominator of the F1, to be summed over episodes."""
        return 2 * self.matched, self.predicted + self.true


def boundary_counts(
    pred: Sequence[Segment], true: Sequence[Segment], tolerance_s: float, fps: float
) -> BoundaryCounts:
    """Match the starts of all segments but the first, each within `tolerance_s` seconds of its partner.

    >>> two = [Segment(start=0, end=10), Segment(start=10, end=30)]
    >>> late = [Segment(start=0, end=14), Segment(start=14, end=30)]
    >>> boundary_counts(late, two, tolerance_s=0.5, fps=10).pair
    (2, 2)
    """
    slack = tolerance_s * fps + 1e-9
    a, b = ([s.start for s in segments[1:]] for segments in (pred, true))
    i = j = matched = 0
    while i < len(a) and j < len(b):
        if abs(a[i] - b[j]) <= slack:
            i, j, matched = i + 1, j + 1, matched + 1
        elif a[i] < b[j]:
            i += 1
        else:
            j += 1
    return BoundaryCounts(matched, len(a), len(b))
