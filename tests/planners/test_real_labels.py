"""The labels of the real episodes, made by eye, and how cuts are scored against them."""

import pytest
from support.places import DATA, SHARED

from goalreel_lab.real_labels import boundary_score, cuts_of, kinematic_plans, read_labels

LABELS = DATA / "real/labels.json"


def test_the_labels_of_gr1_fit_its_episodes():
    labels = read_labels(DATA / "real/gr1_sim.json").datasets["gr1_sim"]
    assert next((e.frames, [v.frame for v in e.events]) for e in labels.episodes) == (416, [248, 396])
    root = SHARED / "gr1_sim"
    if not root.is_dir():
        pytest.skip("needs the shared recordings of real robots")
    plans = kinematic_plans(root, "event")
    score = boundary_score(cuts_of(plans), labels, retreats_apart=False)
    assert (score.matched, score.predicted, score.true) == (5, 5, 5)


def test_events_are_where_contact_changes(real_motions):
    """No cut that the labels do not have, most of those that they have, and no granularity nearer to them."""
    labels = read_labels(LABELS).datasets[real_motions.name]
    scores = {
        g: boundary_score(cuts_of(kinematic_plans(real_motions, g)), labels, retreats_apart=False)
        for g in ("event", "subtask", "phase")
    }
    assert scores["event"].precision.value == 1
    assert scores["event"].recall.value >= 0.8
    assert scores["event"].f1.value >= max(s.f1.value for s in scores.values())
    assert len({s.true for s in scores.values()}) == 1
