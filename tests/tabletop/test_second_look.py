"""A second look at pictures in which colours run into one another and towers hide things."""

import cv2
import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from goalreel.tabletop.readback import read_after, read_back
from goalreel.tabletop.scene import shows
from goalreel_lab.bench.scenes import outcome
from goalreel_lab.corpora.edits import MADE, make
from goalreel_lab.corpora.plans import walk

pytestmark = pytest.mark.lab

HARD = (900305, 900370)
"""Scenes with towers of neighbouring colours, and a bowl behind one."""


def soft(picture: np.ndarray) -> np.ndarray:
    """Colours blurred more than outlines, as an editor's VAE does."""
    blurred = cv2.GaussianBlur(cv2.cvtColor(picture, cv2.COLOR_RGB2YCrCb), (0, 0), 0.8)
    return cv2.cvtColor(blurred, cv2.COLOR_YCrCb2RGB)


@pytest.fixture(scope="module")
def steps():
    """(scene, layout before, goal, right picture, wrong pictures), each softened."""
    found = []
    for done in walk(HARD, 128, 3):
        scene, before, goal = done.env.scene, done.layout, done.goal
        wrong = [made for m in MADE if m != "deformed" and (made := make(done, m)) is not None]
        wrong = [soft(made.image.pixels) for made in wrong if not outcome(made.layout, before, goal).right]
        found.append((scene, before, goal, soft(done.target.pixels), wrong))
    return found


def test_what_colours_alone_misread_is_read_and_no_mistake_passes(steps):
    missed = mended = 0
    for scene, before, goal, right, wrong in steps:
        missed += not outcome(read_back(right, scene), before, goal).right
        mended += outcome(read_after(right, scene, before, (goal.object,)), before, goal).right
        assert wrong
        for picture in wrong:
            assert not outcome(read_after(picture, scene, before, (goal.object,)), before, goal).right
    assert missed > len(steps) / 4, "the scenes are hard"
    assert mended == len(steps)


def test_which_block_moved_need_not_be_known_and_nothing_is_invented(steps):
    for scene, before, goal, right, _ in steps:
        assert shows(read_after(right, scene, before, [block.name for block in scene.blocks]), goal)
    scene, before, goal, right, _ = steps[0]
    assert read_after(np.full((128, 128, 3), 128, np.uint8), scene, before, (goal.object,)) == {}
    rest = {name: at for name, at in before.items() if name != goal.object}
    found, alone = read_after(right, scene, rest, (goal.object,)), read_back(right, scene)
    assert found.keys() == alone.keys(), "a block that was not there before is no candidate"
    with pytest.raises(ValueError, match="square"):
        read_after(np.zeros((64, 48, 3), np.uint8), scene, before, (goal.object,))
