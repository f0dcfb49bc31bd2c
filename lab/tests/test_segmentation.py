"""The measures of segmentation, and `goalreel eval segmentation` on a small recording."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cli import fails, goalreel, results

from goalreel.annotator.statistics import boundary_counts
from goalreel.tabletop.record import record
from goalreel.types import Segment
from goalreel_lab.statistics import best_matches, even_split, label_hits, segment_iou


def cut(*edges):
    return [Segment(start=a, end=b) for a, b in itertools.pairwise(edges)]


edges = st.lists(st.integers(1, 99), max_size=8, unique=True).map(lambda inner: cut(0, *sorted(inner), 100))


@given(edges, edges)
def test_no_boundary_is_matched_twice(a, b):
    """Against the best assignment, found by brute force."""
    from scipy.optimize import linear_sum_assignment

    counts = boundary_counts(a, b, 0.5, 10)
    x, y = (np.array([s.start for s in c[1:]]) for c in (a, b))
    near = np.abs(x[:, None] - y[None, :]) <= 5
    rows, columns = linear_sum_assignment(-near.astype(int))
    assert counts.matched == near[rows, columns].sum()


@pytest.mark.parametrize(
    ("pred", "true", "fps", "f1"),
    [
        ((0, 15, 30), (0, 10, 30), 10, 1),
        ((0, 16, 30), (0, 10, 30), 10, 0),
        ((0, 16, 30), (0, 10, 30), 30, 1),
        ((0, 30), (0, 30), 10, 1),
        ((0, 30), (0, 10, 30), 10, 0),
        ((0, 10, 20, 30), (0, 10, 30), 10, 2 / 3),
    ],
)
def test_the_tolerance_is_in_seconds_and_missing_and_extra_boundaries_cost(pred, true, fps, f1):
    hits, total = boundary_counts(cut(*pred), cut(*true), 0.5, fps).pair
    assert (hits / total if total else 1.0) == pytest.approx(f1)


def test_overlap_labels_and_baseline_by_hand():
    pred, true = cut(0, 10, 40), cut(0, 20, 40)
    assert segment_iou(pred, true) == pytest.approx((10 / 20 + 20 / 30) / 2)
    assert best_matches(pred, true) == [0, 1]
    assert label_hits(pred, ["Put a", "b"], true, ["put a", "c"]) == [True, False]
    assert even_split(30, 3) == cut(0, 10, 20, 30)
    assert even_split(2, 5) == cut(0, 1, 2)


def test_the_planner_is_measured_on_a_recording(tmp_path):
    record(tabletop := tmp_path / "data", range(900_000, 900_002), cameras=("front",), size=64)
    report = results("eval", "segmentation", tabletop)
    assert {"boundary_f1", "segment_iou", "label_accuracy", "episodes"} <= report.keys()
    assert report["episodes"] == 2
    assert report["splits"] == ["validation"]
    assert report["explicit"] + report["underspecified"] == report["subtasks"]
    assert report["boundary_f1"] >= 0.9
    assert report["segment_iou"] > report["even_segment_iou"]
    assert report["boundary_f1_low"] <= report["boundary_f1"] <= report["boundary_f1_high"]
    shown = goalreel("eval", "segmentation", tabletop)
    assert "boundary F1" in shown
    assert "2 episodes" in shown
    assert "tabletop record" in fails("eval", "segmentation", tmp_path / "none")
    assert "write it like" in fails("eval", "segmentation", tabletop, "--layout", "x")
