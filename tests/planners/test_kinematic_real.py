"""The kinematic planner on real robots. These hold what was seen by eye to be right.

dev/LOG.md (2026-11-27) says what is not, and docs/results/recordings.md how far its cuts are from labels.
"""

import itertools
import json
from dataclasses import replace
from functools import cache

import pytest
from support.places import DATA, SHARED

from goalreel.datasets.source import Source
from goalreel.planners.kinematic.description import proposals
from goalreel.planners.kinematic.motion import read_motion
from goalreel.planners.kinematic.planner import KinematicPlanner
from goalreel.planners.kinematic.robot import infer_robot
from goalreel.types import Plan, Task
from goalreel_lab.real_labels import read_labels

opened = cache(Source.open)


@cache
def plans(source, granularity="event", **options):
    episodes = {e.id: e for e in map(source.episode, source.indices)}
    tasks = [Task(id=i, instruction=e.instruction) for i, e in episodes.items()]
    answers = KinematicPlanner(episodes, granularity, **options).plan(tasks)
    return list(zip(episodes.values(), answers, strict=True))


def shared(name):
    """A shared set, its robot's layout, and the labelled boundaries of each episode."""
    root = SHARED / name
    if not root.is_dir():
        pytest.skip(f"no real episodes at {root}")
    source, labels = opened(root), json.loads((root / "labels.json").read_text())
    layout = infer_robot([source.episode(i) for i in source.indices]).layout
    return source, layout, {i: labels[str(i)]["boundaries"] for i in source.indices}


def test_every_episode_gets_a_plan_that_covers_it(real_motions):
    for granularity in ("event", "subtask", "phase"):
        for episode, plan in plans(opened(real_motions), granularity):
            assert isinstance(plan, Plan), plan
            edges = [0, *(s.end for s in plan.segments)]
            assert edges[-1] == len(episode)
            assert [s.start for s in plan.segments] == edges[:-1]
            assert all(b > a for a, b in itertools.pairwise(edges))


def test_picking_up_ends_within_half_a_second_of_the_closing(real_motions):
    """The last `held` of the labels; the plans of the others are one sub-task."""
    labels = read_labels(DATA / "real/labels.json").datasets[real_motions.name]
    held = {
        e.episode: max(v.frame for v in e.events if v.kind in ("held", "touched")) for e in labels.episodes
    }
    picks = (0, 1, 2) if real_motions.name == "droid_new_setup" else tuple(held)
    for episode, plan in plans(opened(real_motions), "subtask"):
        assert len(plan.steps) == (2 if episode.index in picks else 1)
        if episode.index in picks:
            assert abs(plan.segments[1].start - held[episode.index]) <= 0.5 * episode.fps


@pytest.mark.parametrize("name", ["cr5_banana", "gr1_sim"])
def test_a_goal_image_of_a_grasp_shows_it_and_no_good_grasp_is_in_doubt(name):
    """Between the labels of contact, right within a fifth of a second, and release. No height is known."""
    source, layout, boundaries = shared(name)
    for episode, plan in plans(source, layout=layout):
        grasp, release = boundaries[episode.index]
        first, end = plan.segments[0].goal
        assert grasp - 0.2 * episode.fps < first < end <= release
        assert not any(step.doubts for step in plan.steps)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_dexterous_hand_holds_before_it_has_closed_to_the_end(is_told):
    """A hand of the GR1 that an object stops closes on for two seconds as it carries it, told to or not."""
    source, layout, boundaries = shared("gr1_sim")
    for episode in map(source.episode, source.indices):
        told = episode if is_told else replace(episode, action=episode.action[:, :0], action_names=())
        (cycle,) = read_motion(told, layout).cycles
        assert abs(cycle.contact + 1 - boundaries[episode.index][0]) <= 0.5 * episode.fps


def failed_of(plan):
    return [s for step, s in zip(plan.steps, plan.segments, strict=True) if step.outcome == "failed"]


def test_what_slipped_is_a_try_in_vain_and_never_a_place(real_motions):
    labels = read_labels(DATA / "real/labels.json").datasets[real_motions.name]
    failed_grasps = {e.episode: [s for s in e.segments if s.kind == "try"] for e in labels.episodes}
    for granularity in ("event", "phase"):
        for episode, plan in plans(opened(real_motions), granularity):
            failed = failed_of(plan)
            true = failed_grasps[episode.index]
            if granularity == "phase":  # a phase is of a grasp
                true = [label for label in true if not label.name.startswith("try to sweep")]
            assert len(failed) == len(true)
            for found, label in zip(failed, true, strict=True):
                assert abs(found.start - label.start) <= 0.5 * episode.fps
                assert abs(found.end - label.end) <= 0.5 * episode.fps


def test_a_sweep_with_an_open_hand_begins_where_the_hand_is_at_the_towel():
    labels = read_labels(DATA / "real/labels.json").datasets["droid_new_setup"]
    (touched,) = (v.frame for e in labels.episodes if e.episode == 5 for v in e.events)
    episode, plan = plans(opened(DATA / "real/droid_new_setup"))[5]
    assert [step.name for step in plan.steps] == ["reach for the towel", episode.instruction]
    assert abs(plan.segments[1].start - touched) <= 0.5 * episode.fps
    assert all(step.doubts for step in plan.steps)


# Where a boundary may be: what models that look at recordings choose their cuts from.


def test_nearly_every_true_boundary_is_proposed(real_motions):
    """Within 0.5 s; and not many more than one a second."""
    labels, source = read_labels(DATA / "real/labels.json").datasets[real_motions.name], opened(real_motions)
    hit = true = proposed = 0
    for episode in labels.episodes:
        recording = source.episode(episode.episode)
        frames = [p.frame for p in proposals(recording)]
        assert all(a < b for a, b in itertools.pairwise([0, *frames, len(recording)]))
        proposed += len(frames)
        true += len(episode.events)
        hit += sum(min(abs(e.frame - f) for f in frames) <= 0.5 * source.fps for e in episode.events)
    assert hit >= 0.85 * true
    assert proposed <= 1.5 * sum(e.frames for e in labels.episodes) / source.fps


def test_the_planners_own_cuts_are_proposed_but_for_slips(real_motions):
    """Whoever chooses from the proposals can choose what the planner would have done."""
    for episode, plan in plans(opened(real_motions)):
        cuts = {s.start for s in plan.segments[1:]} - {s.end for s in failed_of(plan)}
        assert cuts <= {p.frame + (p.cue == "closed") for p in proposals(episode)}
