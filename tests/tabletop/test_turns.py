"""How blocks are turned, read off pictures; and the expert's motion to a given spot."""

import os

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from goalreel.tabletop import splits
from goalreel.tabletop.env import Tabletop
from goalreel.tabletop.expert import carry
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.readback import read_back, read_turns
from goalreel.tabletop.scene import find_spot

SEEDS = splits.seeds("validation", 8, first=2000)


@pytest.mark.lab
@pytest.mark.parametrize(("size", "median", "worst"), [(256, 4, 15), (128, 9, 32)])
def test_turns_read_off_a_picture_are_those_of_the_blocks(size, median, worst):
    errors, guessed = [], []
    for seed in SEEDS:
        scene = sample_episode(seed).scene
        with Tabletop(scene) as env:
            picture = env.render("front", size)
            turns = read_turns(picture, read_back(picture, scene))
            assert set(turns) == set(env.blocks)
            errors += [_apart(turns[b], env.block_yaw(b)) for b in env.blocks]
            guessed += [_apart(0.0, env.block_yaw(b)) for b in env.blocks]
    assert np.median(errors) < median < np.median(guessed)
    assert max(errors) < worst


def test_carry_takes_a_block_to_a_spot_with_the_turn_asked_for():
    episode = next(e for e in map(sample_episode, range(100)) if e.goals[0].kind == "behind")
    with Tabletop(episode.scene) as env:
        block = episode.goals[0].object
        spot, _ = find_spot(env.layout(), episode.goals[0])
        assert np.linalg.norm(env.layout()[block] - spot) > 0.05
        for turn in (0.3, -0.2):
            for action, _ in carry(env, block, lambda turn=turn: (spot, turn)):
                env.step(action)
            np.testing.assert_allclose(env.layout()[block], spot, atol=0.004)
            assert _apart(env.block_yaw(block), turn) < 4


def _apart(a: float, b: float) -> float:
    """Degrees between two turns of a cube."""
    return abs(np.degrees((a - b + np.pi / 4) % (np.pi / 2) - np.pi / 4))
