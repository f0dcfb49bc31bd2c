"""The planner where equal lengths fail: tabletop episodes of the train split with their time stretched."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from goalreel.annotator.statistics import boundary_counts, even_split
from goalreel.planners.kinematic import KinematicPlanner
from goalreel.types import Segment, Task

pytestmark = pytest.mark.slow
EPISODES = 60


@pytest.fixture(scope="module")
def rollouts():
    """(instruction, states, sub-goal of every frame) of the first train seeds, without pictures."""
    pytest.importorskip("mujoco")
    from goalreel.tabletop.env import Tabletop
    from goalreel.tabletop.expert import rollout
    from goalreel.tabletop.grammar import sample_episode

    found = []
    for seed in range(EPISODES):
        episode = sample_episode(seed)
        with Tabletop(episode.scene) as env:
            frames = [(env.observation(), tick.goal) for tick in rollout(env, episode.goals)]
        states, goals = (np.array(column) for column in zip(*frames, strict=True))
        found.append((episode.instruction, states, goals))
    return found


def stretched(states, goals, rng, pauses, noise):
    """Every sub-goal 0.5 to 2.5 times as long, pauses of 0.3 to 2 s anywhere, sensor noise."""
    factor = np.exp(rng.uniform(np.log(0.5), np.log(2.5), goals.max() + 1))
    at = [0.0]
    while at[-1] < len(states) - 1:
        at.append(at[-1] + 1 / factor[goals[int(at[-1])]])
    at = np.array(at[:-1])
    for _ in range(pauses):
        where = int(rng.integers(5, len(at) - 5))
        at = np.insert(at, where, [at[where]] * int(rng.integers(3, 20)))
    low = at.astype(int)
    part = (at - low)[:, None]
    mixed = states[low] * (1 - part) + states[np.minimum(low + 1, len(states) - 1)] * part
    return (mixed + rng.normal(0, noise, mixed.shape)).astype(np.float32), goals[low]


@pytest.mark.parametrize(
    ("pauses", "noise", "least"),
    [(0, 0.0, 0.98), (2, 0.0, 0.97), (4, 0.001, 0.95)],
    ids=["stretch", "pause", "noise"],
)
@pytest.mark.parametrize("named", [True, False])
def test_stretched_time(rollouts, pauses, noise, least, named):
    from goalreel.tabletop.env import STATE_NAMES

    rng = np.random.default_rng(0)
    ours, even = [], []
    for instruction, states, goals in rollouts:
        values, owners = stretched(states, goals, rng, pauses, noise)
        recording = SimpleNamespace(
            fps=10.0,
            timestamps=np.arange(len(values), dtype=np.float32) / 10,
            state=values,
            action=np.zeros((len(values), 0), np.float32),
            state_names=STATE_NAMES if named else (),
            action_names=(),
        )
        plan = KinematicPlanner({"it": recording}, "subtask").plan([Task(id="it", instruction=instruction)])[
            0
        ]
        edges = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(values)]
        true = [Segment(start=a, end=b) for a, b in itertools.pairwise(edges)]
        ours.append(boundary_counts(plan.segments, true, 0.5, 10).pair)
        even.append(boundary_counts(even_split(len(values), len(true)), true, 0.5, 10).pair)
    (hits, total), (even_hits, even_total) = np.sum(ours, axis=0), np.sum(even, axis=0)
    assert hits / total >= least
    assert even_hits / even_total < 0.4
