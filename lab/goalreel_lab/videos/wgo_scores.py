"""How WGO-Bench is scored: segments that overlap by three quarters, and labels that a judge finds the same.

A predicted segment matches a gold one where the intersection of both, divided by their union, is 0.75 or
more. Segments of one episode do not overlap, so no segment can match two, and the order of matching does not
matter. Hits are summed over all episodes. End to end, a hit is a match whose label is right too.

Threshold and judge are "the public protocol" of perceptron.inc, 2026-07-09. The sums follow from its figures:
181 of 743 are its recall of 0.244, which makes 0.280 with its precision of 0.330.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goalreel.annotator.statistics import Measurement, share, with_interval

OVERLAP = 0.75
type Span = tuple[float, float]
"""Begin and end in s."""


@dataclass(frozen=True)
class WgoScore:
    """One episode: how many segments there are, and which match."""

    predicted: int
    gold: int
    matches: tuple[tuple[int, int], ...]
    """(Predicted, gold) of each match."""
    right: int | None = None
    """Matches with a right label; None where no judge was asked."""
    labelled: tuple[int, int] | None = None
    """Right labels of given gold segments, and how many there are."""
    even: int = 0
    """Matches of as many segments of equal length."""


def span_overlap(a: Span, b: Span) -> float:
    """Divide the seconds in both spans by those in either, 0-1."""
    both = max(0.0, min(a[1], b[1]) - max(a[0], b[0]))
    return both / (a[1] - a[0] + b[1] - b[0] - both)


def match_spans(predicted: Sequence[Span], gold: Sequence[Span]) -> tuple[tuple[int, int], ...]:
    """Find the pairs that overlap by OVERLAP, the nearest first; each span is in one pair at most.

    >>> match_spans([(0, 4), (4, 10)], [(0, 4.5), (4.5, 6), (6, 10)])
    ((0, 0),)
    """
    pairs = [(span_overlap(p, g), i, j) for i, p in enumerate(predicted) for j, g in enumerate(gold)]
    free_rows, free_columns, matches = set(range(len(predicted))), set(range(len(gold))), []
    for overlap, i, j in sorted(pairs, reverse=True):
        if overlap >= OVERLAP and i in free_rows and j in free_columns:
            free_rows.remove(i)
            free_columns.remove(j)
            matches.append((i, j))
    return tuple(sorted(matches))


def even_spans(length_s: float, parts: int) -> list[Span]:
    """Cut into spans of equal length: the blind baseline."""
    edges = np.linspace(0, length_s, parts + 1).tolist()
    return list(itertools.pairwise(edges))


def wgo_values(scores: Sequence[WgoScore]) -> dict[str, Measurement]:
    """Compute the benchmark's measures, 0-1, with intervals over episodes."""
    counts = [(len(s.matches), s.predicted, s.gold) for s in scores]
    values = _three("segment", counts)
    values["even_segment_f1"] = with_interval([(2 * s.even, 2 * s.gold) for s in scores], share)
    labelled = [s.labelled for s in scores if s.labelled is not None]
    if labelled:
        values["label_accuracy"] = with_interval(labelled, share)
    judged = [(s.right, s.predicted, s.gold) for s in scores if s.right is not None]
    return values | (_three("end_to_end", judged) if judged else {})


def _three(name: str, counts: Sequence[tuple[int, int, int]]) -> dict[str, Measurement]:
    return {
        f"{name}_f1": with_interval([(2 * hits, p + g) for hits, p, g in counts], share),
        f"{name}_precision": with_interval([(hits, p) for hits, p, _ in counts], share),
        f"{name}_recall": with_interval([(hits, g) for hits, _, g in counts], share),
    }
