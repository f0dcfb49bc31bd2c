"""Where a boundary may be: what models that look at recordings choose their cuts from."""

import itertools

import numpy as np
import pytest
from support.places import DATA
from support.real_labels import read_labels

from goalreel.datasets.source import Source
from goalreel.planners.kinematic import KinematicPlanner
from goalreel.planners.kinematic.description import proposals
from goalreel.planners.kinematic.layout import Layout, Unsegmentable
from goalreel.types import Task


def test_nearly_every_true_boundary_is_proposed(real_motions):
    """Within 0.5 s; and not many more than one a second."""
    labels, source = (
        read_labels(DATA / "real/labels.json").datasets[real_motions.name],
        Source.open(real_motions),
    )
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


def test_cues_say_what_was_seen(real_motions):
    source = Source.open(real_motions)
    cues = {p.cue for i in source.indices for p in proposals(source.episode(i))}
    assert cues >= {"closed", "opened", "slow"}


def test_a_layout_is_followed_and_one_that_does_not_fit_is_refused(real_motions):
    episode = Source.open(real_motions).episode(0)
    still = int(np.ptp(episode.state, axis=0).argmin())
    other = proposals(episode, Layout(gripper=(still,)))
    assert other != proposals(episode)
    with pytest.raises(Unsegmentable, match="dimension 99"):
        proposals(episode, Layout(gripper=(99,)))


def test_the_planners_own_cuts_are_proposed_but_for_slips(real_motions):
    """Whoever chooses from the proposals can choose what the planner would have done."""
    source = Source.open(real_motions)
    episodes = {e.id: e for e in map(source.episode, source.indices)}
    tasks = [Task(id=i, instruction=e.instruction) for i, e in episodes.items()]
    for episode, plan in zip(episodes.values(), KinematicPlanner(episodes).plan(tasks), strict=True):
        slipped = {
            s.end for step, s in zip(plan.steps, plan.segments, strict=True) if step.outcome == "failed"
        }
        cuts = {s.start for s in plan.segments[1:]} - slipped
        assert cuts <= {p.frame + (p.cue == "closed") for p in proposals(episode)}
