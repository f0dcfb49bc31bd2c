"""From two pictures to a motion: which block, and where to, also where the goal image errs."""

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from goalreel.image import Image
from goalreel.tabletop.env import Tabletop
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.reach import Reacher
from goalreel.tabletop.scene import HALF, on
from goalreel_lab.bench.closed import Course, follow, go_home
from goalreel_lab.bench.scenes import walk

SEED = 900340
"""Stack the yellow block on the blue block, the red one on the yellow one."""
YELLOW, BLUE, GREEN, RED = "yellow block", "blue block", "green block", "red block"


@pytest.fixture
def table():
    with Tabletop(sample_episode(SEED).scene) as env:
        yield env


@pytest.fixture
def reacher(table):
    return Reacher(table.scene)


def look(table):
    return Image(table.render(table.scene.camera, 128).copy())


def shown(table, **places):
    """A picture with things elsewhere, which then are put back."""
    before = table.get_state()
    for name, at in places.items():
        table.place(f"{name} block", np.asarray(at, float), 0.0)
    picture = look(table)
    table.set_state(before)
    return picture


def on_top(table, base, off=(0.0, 0.0)):
    return table.layout()[base] + np.array([*off, 2 * HALF])


def act(table, motion):
    for action in motion.actions:
        table.step(action)
    go_home(table)


@pytest.mark.lab
def test_a_tower_that_is_drawn_off_centre_is_built_straight(table, reacher):
    goal = shown(table, yellow=on_top(table, BLUE, (0.028, 0.02)))
    motion = reacher.motion(look(table), goal)
    assert motion.block == YELLOW
    act(table, motion)
    layout = table.layout()
    assert on(layout, YELLOW, BLUE)
    assert np.linalg.norm(layout[YELLOW][:2] - layout[BLUE][:2]) < 0.01
    assert reacher.motion(look(table), goal) is None


@pytest.mark.lab
def test_one_goal_moves_one_block(table, reacher):
    layout = table.layout()
    aside = layout[RED] + np.array([0, 0.05 * -np.sign(layout[RED][1]), 0])
    goal = shown(table, yellow=on_top(table, BLUE), red=aside)
    act(table, motion := reacher.motion(look(table), goal))
    assert motion.block == YELLOW
    assert reacher.motion(look(table), goal) is None


@pytest.mark.lab
def test_a_block_that_carries_another_stays(table, reacher):
    table.place(YELLOW, on_top(table, BLUE), 0.0)
    table.settle(0.4)
    table.home()
    away = table.layout()[GREEN]
    goal = shown(table, blue=away + np.array([0, 0.1 * -np.sign(away[1]), 0]))
    assert reacher.motion(look(table), goal) is None


@pytest.mark.lab
@pytest.mark.parametrize("seed", [900305, 900341])
def test_hidden_blocks_are_remembered_and_tall_towers_built(seed):
    """A purple block behind a tower; an orange block on red on yellow, whose colours run into one another."""
    done = walk(seed)
    end = follow(Course(seed=seed, images=tuple(m.picture for m in done.moments[1:])))
    assert all(end.held)
