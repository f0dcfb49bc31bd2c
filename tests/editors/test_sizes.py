"""The size that an editor works in, and what a picture loses by it in many steps."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.same_picture import same_picture_editor

from goalreel.batch import run
from goalreel.editors.sizes import working_size
from goalreel.image import Image
from goalreel.types import Candidate, Plan, Step, Storyboard, Task, Verdict

STEPS = 10
sides = st.integers(1, 4000)
sizes = st.tuples(sides, sides)
areas = st.sampled_from([(1024, 1024), (1328, 1328), (512, 768), (128, 128), (96, 96), (1, 1)])
multiples = st.sampled_from([1, 8, 14, 16, 28, 32, 64, 112])


@given(sizes, st.none() | areas, multiples)
@example((1280, 720), (1024, 1024), 16)
@example((641, 99), (1024, 1024), 32)
@example((4000, 1), (96, 96), 64)
def test_a_working_size_is_its_own(source, size, multiple):
    once = working_size(source, size, multiple)
    assert working_size(once, size, multiple) == once
    assert not any(side % multiple for side in once)


@given(st.tuples(st.integers(200, 4000), st.integers(200, 4000)), multiples)
def test_a_working_size_has_the_area_and_nearly_the_shape(source, multiple):
    width, height = working_size(source, (1024, 1024), multiple)
    for side, other, mine, theirs in ((width, height, *source), (height, width, *source[::-1])):
        exact = 1024 * (mine / theirs) ** 0.5
        # A source that is a working size already is itself within half a multiple of sides of that area.
        assert abs(side - exact) <= multiple * (1 + side / other)


class Unchanged:
    """A plan of STEPS steps and a Critic that accepts every picture."""

    def plan(self, tasks):
        steps = tuple(Step(name=f"{i}", instruction=f"{i}", prompt="keep it") for i in range(STEPS))
        return [Plan(steps=steps) for _ in tasks]

    def judge(self, candidates: Sequence[Candidate]):
        return [Verdict(success=True)] * len(candidates)


def detailed(width: int, height: int) -> Image:
    """Edges of all directions and a little noise."""
    y, x = np.mgrid[:height, :width]
    rings = 127 + 90 * np.sin(((x - width / 3) ** 2 + (y - height / 2) ** 2) / width / 3)
    noise = np.random.default_rng(0).normal(0, 6, (height, width, 3))
    return Image((rings[..., None] * (1, 0.8, 0.6) + noise).clip(0, 255).astype(np.uint8))


def storyboard(size: tuple[int, int]) -> Storyboard:
    task = Task(id="t", instruction="keep it", image=detailed(*size))
    models = Unchanged()
    return next(run([task], models, same_picture_editor((256, 256)), models, max_attempts=1))


@pytest.mark.parametrize("size", [(160, 120), (320, 180), (101, 333), (640, 480), (256, 256)])
def test_a_long_storyboard_loses_nothing_from_step_to_step(size):
    board = storyboard(size)
    pictures = [step.goal_image for step in board.steps]
    assert pictures[0].size == working_size(size, (256, 256), 16)
    assert all(picture == pictures[0] for picture in pictures), "nothing was resized again"
    handed_out = board.goal_images()
    assert {picture.size for picture in handed_out} == {size}
    assert handed_out[-1] == handed_out[0]
