"""The labels of the real episodes, made by eye, and how cuts are scored against them."""

import json

import pytest
from support.places import DATA, SHARED
from support.real_labels import boundary_score, cuts_of, kinematic_plans, names_right, read_labels

from goalreel.datasets.source import Source
from goalreel.errors import DatasetError
from goalreel.types import Plan, Segment, Step

LABELS = DATA / "real/labels.json"


def test_every_real_episode_is_labelled_in_order_and_inside_it(real_motions):
    """`read_labels` holds order, seconds and events; here they meet the episodes."""
    labels, source = read_labels(LABELS).datasets[real_motions.name], Source.open(real_motions)
    assert labels.fps == source.fps
    assert {e.episode: e.frames for e in labels.episodes} == {
        i: len(source.episode(i)) for i in source.indices
    }
    for episode in labels.episodes:
        assert all(0 < e.frame < episode.frames for e in episode.events)


def test_the_labels_of_gr1_fit_its_episodes():
    labels = read_labels(DATA / "real/gr1_sim.json").datasets["gr1_sim"]
    assert next((e.frames, [v.frame for v in e.events]) for e in labels.episodes) == (416, [248, 396])
    root = SHARED / "gr1_sim"
    if not root.is_dir():
        pytest.skip("needs the shared recordings of real robots")
    plans = kinematic_plans(root, "event")
    score = boundary_score(cuts_of(plans), labels, retreats_apart=False)
    assert (score.matched, score.predicted, score.true) == (5, 5, 5)


def made(**changes):
    """One episode of 40 frames at 10 fps: reach, carry from frame 10, retreat from frame 30."""
    kinds = (("reach", 0, 10), ("move", 10, 30), ("retreat", 30, 40))
    episode = {
        "episode": 3,
        "frames": 40,
        "instruction_done": None,
        "segments": [
            {"start": a, "end": b, "start_s": a / 10, "end_s": b / 10, "kind": kind, "name": kind}
            for kind, a, b in kinds
        ],
        "events": [
            {"kind": "held", "frame": 10, "first_look": 12},
            {"kind": "released", "frame": 30, "first_look": 30},
        ],
        "unsure": [{"what": "done", "frame": None, "reason": "out of the picture"}],
        "note": None,
    }
    return {"datasets": {"made": {"fps": 10, "episodes": [episode | changes]}}}


def read(tmp_path, content):
    path = tmp_path / "labels.json"
    path.write_text(json.dumps(content))
    return read_labels(path)


def cut(*starts):
    return {3: [Segment(start=a, end=b) for a, b in zip((0, *starts), (*starts, 40), strict=True)]}


def test_boundaries_within_the_tolerance_are_found(tmp_path):
    labels = read(tmp_path, made()).datasets["made"]
    score = boundary_score(cut(5, 20, 36), labels)
    assert (score.matched, score.predicted, score.true) == (1, 3, 2)
    assert score.precision.value == pytest.approx(1 / 3)
    assert score.recall.value == pytest.approx(1 / 2)
    assert score.f1.value == pytest.approx(2 / 5)
    assert boundary_score(cut(5, 20, 36), labels, tolerance_s=0.6).matched == 2
    assert boundary_score(cut(4), labels).matched == 0


def test_a_retreat_may_belong_to_what_it_follows(tmp_path):
    labels = read(tmp_path, made()).datasets["made"]
    joined = boundary_score(cut(10), labels, retreats_apart=False)
    assert (joined.true, joined.f1.value) == (1, 1.0)
    assert boundary_score(cut(10), labels).recall.value == 0.5


def test_labels_that_cannot_be_right_are_refused_in_one_line(tmp_path):
    whole = made()["datasets"]["made"]["episodes"][0]
    first, second, last = whole["segments"]
    for changes, words in (
        ({"segments": [first, last]}, "do not cover 40 frames in order"),
        ({"frames": 50}, "do not cover 50 frames"),
        ({"segments": [first, second, last | {"end": 30, "end_s": 3.0}], "frames": 30}, "holds no frame"),
        ({"segments": [first | {"end_s": 1.2}, second, last]}, "1.2 s not 10"),
        ({"events": whole["events"][:1]}, "not where contact changes"),
        ({"unsure": [{"what": "done", "frame": 7, "reason": "?"}]}, "unsure.0.frame"),
    ):
        with pytest.raises(DatasetError, match=words) as caught:
            read(tmp_path, made(**changes))
        assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(DatasetError, match="cannot be read"):
        read_labels(tmp_path / "nothing.json")


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


def test_names_say_what_was_done(tmp_path):
    """By hand: reach, move and retreat against right names, a swap, a try and a claim that is not true."""
    labels = read(tmp_path, made()).datasets["made"]
    undone = read(tmp_path, made(instruction_done=False)).datasets["made"]

    def share(named, among=labels):
        steps = [Step(name=n, instruction=n, prompt=n, outcome=outcome) for n, outcome in named]
        segments = [Segment(start=0, end=10), Segment(start=10, end=40)]
        return names_right({3: Plan(steps=tuple(steps), segments=tuple(segments))}, among).value

    pick, put = ("pick up it", "done"), ("put it down", "done")
    assert share((pick, put)) == 1
    assert share((put, pick)) == 0
    assert share((pick, ("try to pick up it", "failed"))) == 0.5
    assert share((pick, put), undone) == 0.5
