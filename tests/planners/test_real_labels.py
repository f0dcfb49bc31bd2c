"""The labels of the real episodes, made by eye, and how cuts are scored against them."""

import itertools

import pytest
from support.places import DATA, SHARED

from goalreel.datasets.source import Source
from goalreel.types import Plan, Segment, Step
from goalreel_lab.real_labels import (
    LabelledDataset,
    LabelledEpisode,
    boundary_score,
    cuts_of,
    kinematic_plans,
    names_right,
    read_labels,
)

LABELS = DATA / "real/labels.json"


def test_every_real_episode_is_labelled_in_order_and_inside_it(real_motions):
    labels, source = read_labels(LABELS).datasets[real_motions.name], Source.open(real_motions)
    assert labels.fps == source.fps
    assert {e.episode: e.frames for e in labels.episodes} == {
        i: len(source.episode(i)) for i in source.indices
    }
    for episode in labels.episodes:
        edges = [0, *(e.frame for e in episode.events), episode.frames]
        assert edges == sorted({*edges})
        assert [(s.start, s.end) for s in episode.segments] == list(itertools.pairwise(edges))


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


LABELLED = LabelledEpisode.model_validate(
    {
        "episode": 3,
        "frames": 40,
        "instruction_done": None,
        "segments": [
            {"start": a, "end": b, "kind": kind, "name": kind}
            for kind, a, b in (("reach", 0, 10), ("move", 10, 30), ("retreat", 30, 40))
        ],
        "events": [{"kind": "held", "frame": 10}, {"kind": "released", "frame": 30}],
    }
)


def test_names_say_what_was_done():
    """By hand: reach, move and retreat against right names, a swap, a try and a claim that is not true."""

    def share(named, done=None):
        labels = LabelledDataset(fps=10, episodes=(LABELLED.model_copy(update={"instruction_done": done}),))
        steps = [Step(name=n, instruction=n, prompt=n, outcome=outcome) for n, outcome in named]
        segments = (Segment(start=0, end=10), Segment(start=10, end=40))
        return names_right({3: Plan(steps=tuple(steps), segments=segments)}, labels).value

    pick, put = ("pick up it", "done"), ("put it down", "done")
    assert share((pick, put)) == 1
    assert share((put, pick)) == 0
    assert share((pick, ("try to pick up it", "failed"))) == 0.5
    assert share((pick, put), done=False) == 0.5
