"""Where a boundary may be: what models that look at recordings choose their cuts from."""

import itertools

import numpy as np
import pytest
from support.places import DATA

from goalreel.datasets.source import Source
from goalreel.evaluation.real import read_labels
from goalreel.planners.kinematic.layout import Layout, Unsegmentable
from goalreel.planners.kinematic.proposals import proposals


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
    assert hit >= 0.8 * true
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
