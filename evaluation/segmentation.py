"""How well predicted segments match the true ones: boundaries, overlap, labels. Pure functions on lists.

Boundaries and their F1 follow the temporal-segmentation literature (a hit within a tolerance, matched one to
one); an episode's start and end are not boundaries.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goalreel.types import Segment


@dataclass(frozen=True, slots=True)
class Counts:
    """Boundaries of one episode or of many: predicted, true, and matched one to one."""

    matched: int
    predicted: int
    true: int

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.matched + other.matched, self.predicted + other.predicted, self.true + other.true)

    @property
    def f1(self) -> float:
        """2 matched / (predicted + true); 1 where there is nothing to find and nothing was found."""
        total = self.predicted + self.true
        return 2 * self.matched / total if total else 1.0


def boundary_counts(
    pred: Sequence[Segment], true: Sequence[Segment], tolerance_s: float, fps: float
) -> Counts:
    """Match the starts of all segments but the first, each within `tolerance_s` seconds of its partner."""
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
    return Counts(matched, len(a), len(b))


def boundary_f1(pred: Sequence[Segment], true: Sequence[Segment], tolerance_s: float, fps: float) -> float:
    """F1 of one episode's inner boundaries, 0-1.

    >>> two = [Segment(start=0, end=10), Segment(start=10, end=30)]
    >>> boundary_f1([Segment(start=0, end=14), Segment(start=14, end=30)], two, tolerance_s=0.5, fps=10)
    1.0
    """
    return boundary_counts(pred, true, tolerance_s, fps).f1


def iou(a: Segment, b: Segment) -> float:
    """Frames in both over frames in either, 0-1."""
    both = max(0, min(a.end, b.end) - max(a.start, b.start))
    return both / (a.end - a.start + b.end - b.start - both)


def best_matches(pred: Sequence[Segment], true: Sequence[Segment]) -> list[int]:
    """For every true segment the predicted one that overlaps it most."""
    return [max(range(len(pred)), key=lambda i: (iou(pred[i], t), -i)) for t in true]


def segment_iou(pred: Sequence[Segment], true: Sequence[Segment]) -> float:
    """Mean over the true segments of the overlap with their best match, 0-1."""
    return float(np.mean([iou(pred[i], t) for i, t in zip(best_matches(pred, true), true, strict=True)]))


def label_hits(
    pred: Sequence[Segment], pred_labels: Sequence[str], true: Sequence[Segment], true_labels: Sequence[str]
) -> list[bool]:
    """For every true segment, whether its best match carries the same words, letter case aside."""
    matches = best_matches(pred, true)
    return [pred_labels[i].lower() == label.lower() for i, label in zip(matches, true_labels, strict=True)]


def label_accuracy(
    pred: Sequence[Segment], pred_labels: Sequence[str], true: Sequence[Segment], true_labels: Sequence[str]
) -> float:
    """Share of true segments whose best match carries exactly the same words, 0-1."""
    return float(np.mean(label_hits(pred, pred_labels, true, true_labels)))


def bootstrap(ratios: Sequence[tuple[float, float]], draws: int = 2000) -> tuple[float, float]:
    """95 % interval of sum(numerators) / sum(denominators) over episodes drawn again; the seed is fixed.

    One (numerator, denominator) an episode. A draw without anything to count scores 1, as `Counts.f1` does.
    """
    table = np.asarray(ratios, np.float64)
    chosen = np.random.default_rng(0).integers(len(table), size=(draws, len(table)))
    top, bottom = table[chosen].sum(axis=1).T
    low, high = np.percentile(np.divide(top, bottom, out=np.ones(draws), where=bottom > 0), [2.5, 97.5])
    return float(low), float(high)


def even_split(frames: int, parts: int) -> list[Segment]:
    """The baseline that looks at nothing: `parts` segments of equal length (fewer in a shorter episode)."""
    edges = sorted({round(i) for i in np.linspace(0, frames, parts + 1)})
    return [Segment(start=a, end=b) for a, b in itertools.pairwise(edges)]
