"""Scores with 95 % intervals over episodes: how they are computed, and how they are written.

Episodes are drawn again with replacement, with a fixed seed; each is one row of counts. A draw with nothing
to measure, such as no boundary, is left out of the interval: it says nothing about the score. To count it
as perfect would pull the upper end to 1 wherever the measured thing is rare.
"""

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from rich.table import Table

from goalreel.types import Segment

DRAWS = 2000

type Sums = NDArray[np.float64]
"""Counts (..., columns), summed over episodes."""
type Statistic = Callable[[Sums], Sums]
"""Makes values (...) of sums (..., columns), NaN where there is nothing to measure."""


class Measurement(BaseModel):
    """A value with its 95 % interval over episodes; None where there was nothing to measure."""

    model_config = ConfigDict(frozen=True)

    value: float | None
    low: float | None = None
    high: float | None = None

    def entries(self, key: str) -> dict[str, float | None]:
        """The value and its bounds as `key`, KEY_low and KEY_high."""
        return {key: self.value, f"{key}_low": self.low, f"{key}_high": self.high}

    def interval(self, digits: int = 3) -> str:
        """The interval as text; empty where there is none."""
        return (
            "" if self.low is None or self.high is None else f"{self.low:.{digits}f} - {self.high:.{digits}f}"
        )


def with_interval(rows: Sequence[Sequence[float]] | Sums, statistic: Statistic) -> Measurement:
    """Compute the statistic of all rows together, with its interval over rows drawn again.

    Args:
        rows: counts (episodes, columns).

    >>> with_interval([(1, 2), (2, 2)], share).value
    0.75
    """
    table = np.asarray(rows, np.float64)
    if not table.size:
        return Measurement(value=None)
    value = float(statistic(table.sum(axis=0)))
    if not np.isfinite(value):
        return Measurement(value=None)
    times = np.random.default_rng(0).multinomial(len(table), np.full(len(table), 1 / len(table)), size=DRAWS)
    low, high = np.nanpercentile(statistic(times @ table), [2.5, 97.5])
    return Measurement(value=value, low=float(low), high=float(high))


def share_with_interval(answers: Iterable[tuple[int, bool]]) -> Measurement:
    """Compute the share of hits among (seed of the episode, hit)."""
    counts: dict[int, list[int]] = {}
    for seed, hit in answers:
        row = counts.setdefault(seed, [0, 0])
        row[0] += hit
        row[1] += 1
    return with_interval(list(counts.values()), share)


def balanced_accuracy_with_interval(answers: Iterable[tuple[int, bool, bool]]) -> Measurement:
    """Compute the balanced accuracy over (seed of the episode, positive, answered rightly)."""
    counts: dict[int, list[int]] = {}
    for seed, positive, right in answers:
        row = counts.setdefault(seed, [0, 0, 0, 0])
        first = 0 if positive else 2
        row[first] += right
        row[first + 1] += 1
    return with_interval(list(counts.values()), balanced_accuracy)


def share(sums: Sums) -> Sums:
    """Divide column 0 by column 1; NaN where column 1 is 0."""
    return _ratio(sums[..., 0], sums[..., 1])


def balanced_accuracy(sums: Sums) -> Sums:
    """Average two shares, column 0 over 1 and column 2 over 3; NaN where column 1 or 3 is 0."""
    return (_ratio(sums[..., 0], sums[..., 1]) + _ratio(sums[..., 2], sums[..., 3])) / 2


def roc_area(sums: Sums) -> Sums:
    """Compute the area under the ROC curve, ties counted half.

    Columns: how many positives have each score, ascending, then how many negatives.
    """
    positive, negative = np.split(sums, 2, axis=-1)
    below = np.cumsum(negative, axis=-1) - negative / 2
    return _ratio((positive * below).sum(axis=-1), positive.sum(axis=-1) * negative.sum(axis=-1))


def gap_share(sums: Sums) -> Sums:
    """Compute (ours - first) / (ceiling - first) of columns ours, first, ceiling; NaN without a gap."""
    ours, first, ceiling = (sums[..., i] for i in range(3))
    return _ratio(ours - first, np.maximum(ceiling - first, 0.0))


def points(sums: Sums) -> Sums:
    """Say by how many points (0-100) column 0 over 2 exceeds column 1 over 2; NaN where column 2 is 0."""
    return 100 * _ratio(sums[..., 0] - sums[..., 1], sums[..., 2])


def _ratio(dividend: Sums, divisor: Sums) -> Sums:
    dividend, divisor = np.asarray(dividend, np.float64), np.asarray(divisor, np.float64)
    return np.divide(dividend, divisor, out=np.full_like(dividend, np.nan), where=divisor > 0)


def flatten(report: BaseModel) -> dict[str, object]:
    """List a report's fields, a measurement as KEY, KEY_low and KEY_high."""
    flat: dict[str, object] = {}
    for key in type(report).model_fields:
        value = getattr(report, key)
        flat |= value.entries(key) if isinstance(value, Measurement) else {key: value}
    return flat


def json_line(settings: Mapping[str, object], values: Mapping[str, Measurement]) -> str:
    """Write as JSON what was measured and each value, as KEY, KEY_low and KEY_high."""
    flat = dict(settings)
    for key, measurement in values.items():
        flat |= measurement.entries(key)
    return json.dumps(flat)


def values_table(title: str, values: Mapping[str, Measurement], headlines: Collection[str]) -> Table:
    """Make a table of the measurements that have a value, the headlines in bold."""
    table = Table("measure", "value", "95 % interval", box=None, title=title)
    for key, m in values.items():
        if m.value is not None:
            table.add_row(key, f"{m.value:.3f}", m.interval(), style="bold" if key in headlines else None)
    return table


@dataclass(frozen=True, slots=True)
class BoundaryCounts:
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


def iou(a: Segment, b: Segment) -> float:
    """Divide the frames in both segments by the frames in either, 0-1."""
    both = max(0, min(a.end, b.end) - max(a.start, b.start))
    return both / (a.end - a.start + b.end - b.start - both)


def best_matches(pred: Sequence[Segment], true: Sequence[Segment]) -> list[int]:
    """Find for every true segment the index of the predicted one that overlaps it most."""
    return [max(range(len(pred)), key=lambda i: (iou(pred[i], t), -i)) for t in true]


def segment_iou(pred: Sequence[Segment], true: Sequence[Segment]) -> float:
    """Average over the true segments the overlap with their best match, 0-1."""
    return float(np.mean([iou(pred[i], t) for i, t in zip(best_matches(pred, true), true, strict=True)]))


def label_hits(
    pred: Sequence[Segment], pred_labels: Sequence[str], true: Sequence[Segment], true_labels: Sequence[str]
) -> list[bool]:
    """Tell for every true segment whether its best match carries the same words, letter case aside."""
    matches = best_matches(pred, true)
    return [pred_labels[i].lower() == label.lower() for i, label in zip(matches, true_labels, strict=True)]


def even_split(frames: int, parts: int) -> list[Segment]:
    """Cut into `parts` segments of equal length, fewer in a shorter episode: the blind baseline."""
    edges = sorted({round(i) for i in np.linspace(0, frames, parts + 1)})
    return [Segment(start=a, end=b) for a, b in itertools.pairwise(edges)]
