"""Measures of the laboratory's studies, each with its 95 % interval over episodes."""

import itertools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from rich.table import Table

from goalreel.annotator.statistics import Measurement, Sums, balanced_accuracy, ratio, share, with_interval
from goalreel.types import Segment


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


def roc_area(sums: Sums) -> Sums:
    """Compute the area under the ROC curve, ties counted half.

    Columns: how many positives have each score, ascending, then how many negatives.
    """
    positive, negative = np.split(sums, 2, axis=-1)
    below = np.cumsum(negative, axis=-1) - negative / 2
    return ratio((positive * below).sum(axis=-1), positive.sum(axis=-1) * negative.sum(axis=-1))


def gap_share(sums: Sums) -> Sums:
    """Compute (ours - first) / (ceiling - first) of columns ours, first, ceiling; NaN without a gap."""
    ours, first, ceiling = (sums[..., i] for i in range(3))
    return ratio(ours - first, np.maximum(ceiling - first, 0.0))


def points(sums: Sums) -> Sums:
    """Say by how many points (0-100) column 0 over 2 exceeds column 1 over 2; NaN where column 2 is 0."""
    return 100 * ratio(sums[..., 0] - sums[..., 1], sums[..., 2])


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
