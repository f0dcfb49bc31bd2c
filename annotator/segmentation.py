"""Compare predicted segments with true ones: boundaries, overlap, labels. Pure functions on lists.

Boundaries and their F1 follow the literature on temporal segmentation: a hit lies within a tolerance, and
hits are matched one to one. An episode's start and end are no boundaries.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goalreel.types import Segment


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
