"""Aligning predicted goals to a recording."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goalreel.annotator.align import _cheapest, align, ends, features
from goalreel.image import Image
from goalreel.types import Attempt, Step, Storyboard, StoryboardStep, Task, Verdict


def scene(position: float, lift: float = 0.0, noise: int = 0) -> Image:
    """A square that stands at `position` (0-1) along the table; noise differs from call to call."""
    rng = np.random.default_rng(noise)
    pixels = rng.integers(90, 110, (64, 64, 3), np.uint8)
    left, top = int(position * 48), int(40 - lift * 30)
    pixels[top : top + 14, left : left + 14] = (220, 40, 40)
    return Image(pixels)


class Recorded:
    """As much of a Recording as aligning needs."""

    def __init__(self, frames: list[Image]):
        self._frames, self.timestamps = frames, np.arange(len(frames), dtype=np.float32)

    def frames(self, camera, indices):
        return [self._frames[i] for i in indices]


def recording() -> tuple[list[Image], list[int]]:
    """Three moves with rests between them; the last frame of each."""
    places = [0.0] * 5 + list(np.linspace(0, 0.4, 15)) + [0.4] * 5 + list(np.linspace(0.4, 0.7, 10))
    places += [0.7] * 5 + list(np.linspace(0.7, 1, 10)) + [1.0] * 5
    return [scene(p, noise=i) for i, p in enumerate(places)], [19, 34, len(places) - 1]


def test_predicted_goals_are_found_in_the_recording():
    frames, true = recording()
    found = ends([scene(0.4, noise=901), scene(0.7, noise=902), scene(1.0, noise=903)], features(frames))
    assert found[-1] == len(frames) - 1
    for got, want in zip(found[:-1], true[:-1], strict=True):
        assert want <= got + 1 <= want + 7, "anywhere in the rest that follows the move shows the goal"


def test_a_boundary_decides_where_pictures_do_not():
    frames, _ = recording()
    goals = [scene(0.4, noise=901), None, scene(1.0, noise=903)]
    assert ends(goals, features(frames), boundaries=[22, 37])[:2] == [22, 37]


def test_a_boundary_does_not_overrule_the_pictures():
    frames, _ = recording()
    found = ends([scene(0.7, noise=902), scene(1.0, noise=903)], features(frames), boundaries=[3])
    assert 33 <= found[0] <= 41


def test_a_state_seen_twice_takes_the_one_that_fits_the_order():
    there_and_back = [0.0] * 4 + [0.5] * 4 + [1.0] * 4 + [0.5] * 4
    frames = [scene(p, noise=i) for i, p in enumerate(there_and_back)]
    assert 8 <= ends([scene(1.0, noise=90), scene(0.5, noise=91)], features(frames))[0] <= 11
    first, second, _ = ends([scene(p, noise=92) for p in (0.5, 1.0, 0.5)], features(frames))
    assert 4 <= first <= 7 < second <= 11


@settings(max_examples=200)
@given(st.integers(1, 4), st.integers(0, 5), st.integers(0, 2**32))
def test_the_programme_finds_the_cheapest_path(steps, more, seed):
    cost = np.random.default_rng(seed).integers(0, 5, (steps, steps + more)).astype(float)
    path = _cheapest(cost)
    frames = cost.shape[1]
    assert path[-1] == frames - 1
    assert all(a < b for a, b in itertools.pairwise(path))
    every = (
        sum(cost[i, f] for i, f in enumerate((*chosen, frames - 1)))
        for chosen in itertools.combinations(range(frames - 1), steps - 1)
    )
    assert sum(cost[i, f] for i, f in enumerate(path)) == min(every)


def test_too_few_frames():
    with pytest.raises(ValueError, match="2 steps do not fit into 1 frames"):
        ends([None, None], features([scene(0)]))


def test_a_storyboard_gets_segments_that_cover_the_episode():
    frames, _ = recording()
    made = [
        StoryboardStep(
            step=Step(name=str(p), instruction="i", prompt="p"),
            attempts=(Attempt(prompt="p", seed=0, image=scene(p), verdict=Verdict(success=True)),),
            status="verified",
            chosen=0,
        )
        for p in (0.4, 0.7, 1.0)
    ]
    board = Storyboard(task=Task(id="t", instruction="go"), steps=tuple(made))
    board = align(board, Recorded(frames), "front")
    segments = [s.segment for s in board.steps]
    assert segments[0].start == 0
    assert segments[-1].end == len(frames)
    assert all(a.end == b.start for a, b in itertools.pairwise(segments))
