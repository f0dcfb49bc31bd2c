"""Aligning predicted goals to a recording, or saying that they are not in it."""

import itertools
from collections.abc import Sequence

import numpy as np

from goalreel.annotator.align import FOUND, align, ends, features
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
    """As much of a Recording as aligning needs: the arm stands where `places` says."""

    id, instruction, fps = "a", "go", 10.0
    state_names: tuple[str, ...] = ("x",)
    action_names: tuple[str, ...] = ()

    def __init__(self, frames: list[Image], places: Sequence[float]):
        self._frames = frames
        self.timestamps = (np.arange(len(frames)) / 10).astype(np.float32)
        self.state = np.array(places, np.float32)[:, None]
        self.action = np.zeros((len(frames), 0), np.float32)

    def frames(self, camera, indices):
        return [self._frames[i] for i in indices]


PLACES = [0.0] * 8 + list(np.linspace(0, 0.4, 15)) + [0.4] * 8 + list(np.linspace(0.4, 0.7, 10))
PLACES += [0.7] * 8 + list(np.linspace(0.7, 1, 10)) + [1.0] * 8
"""Three moves with rests of 8 frames between them."""
FRAMES = [scene(p, noise=i) for i, p in enumerate(PLACES)]
RESTS = [23, 41]
"""Where the first and the second move are over."""


def test_no_step_is_shorter_than_the_least():
    goals = [scene(0.4, noise=901), scene(0.4, noise=902), scene(1.0, noise=903)]
    for least in (2, 4, 9):
        found = ends(FRAMES[0], goals, features(FRAMES), range(1, len(FRAMES)), least)
        path = [0, *(end for end, _ in found)]
        assert min(b - a for a, b in itertools.pairwise(path)) >= least
    for many, frames, cuts, least in (
        ([goals[0]] * 8, FRAMES, range(len(FRAMES)), 9),
        (goals, FRAMES, [27], 5),  # two cuts are wanted and one is proposed
        (goals, FRAMES[:3], [1, 2], 5),
    ):
        assert ends(FRAMES[0], many, features(frames), cuts, least) is None


def test_a_state_seen_twice_takes_the_one_that_fits_the_order():
    there_and_back = [0.0] * 4 + [0.5] * 4 + [1.0] * 4 + [0.5] * 4
    seen = features([scene(p, noise=i) for i, p in enumerate(there_and_back)])
    for places, wanted in (((1.0, 0.5), [12, 16]), ((0.5, 1.0, 0.5), [8, 12, 16])):
        goals = [scene(p, noise=92) for p in places]
        assert [end for end, _ in ends(FRAMES[0], goals, seen, [4, 8, 12], 2)] == wanted


def test_a_goal_that_was_never_seen_does_not_move_the_others():
    nowhere = Image(np.random.default_rng(1).integers(0, 255, (64, 64, 3), np.uint8))
    goals = [scene(0.4, noise=901), nowhere, scene(1.0, noise=903)]
    found = ends(FRAMES[0], goals, features(FRAMES), [15, 27, 45], 5)
    assert [cost <= FOUND for _, cost in found] == [True, False, True]
    assert found[0][0] == 27


def board(*goals: Image | None) -> Storyboard:
    """A step a goal; None is one in words alone."""
    wait = Step(name="s", instruction="i", prompt=None, auxiliary_text="wait")
    step = Step(name="s", instruction="i", prompt="p")

    def made(goal: Image | None) -> StoryboardStep:
        if goal is None:
            return StoryboardStep(step=wait, status="text")
        attempt = Attempt(prompt="p", seed=0, image=goal, verdict=Verdict(success=True))
        return StoryboardStep(step=step, attempts=(attempt,), status="accepted", chosen=0)

    return Storyboard(task=Task(id="t", instruction="go"), steps=tuple(map(made, goals)))


def aligned(*goals: Image | None) -> tuple[StoryboardStep, ...]:
    return align(board(*goals), Recorded(FRAMES, PLACES), "front").steps


def test_a_storyboard_gets_segments_that_cover_the_episode():
    steps = aligned(*(scene(p) for p in (0.4, 0.7, 1.0)))
    segments = [s.segment for s in steps]
    assert (segments[0].start, segments[-1].end) == (0, len(FRAMES))
    assert all(a.end == b.start for a, b in itertools.pairwise(segments))
    for got, rest in zip(segments[:-1], RESTS, strict=True):
        assert rest <= got.end <= rest + 8, "anywhere in the rest that follows the move shows the goal"
    assert all(s.alignment.reason is None and s.alignment.cost < 0.2 for s in steps)
    assert not any(s.unaligned for s in steps)


def test_what_is_not_found_is_unaligned_and_so_is_what_begins_there():
    steps = aligned(scene(0.4), scene(0.0, noise=7), scene(1.0))
    assert [s.unaligned for s in steps] == [s.segment is None for s in steps] == [False, True, True]
    assert "nothing like its goal image was recorded" in steps[1].alignment.reason
    assert steps[2].alignment.reason == "where the step before it ends is not known"
    assert steps[2].alignment.cost < 0.2, "kept all the same"
    # A washed out goal is not a thing that has gone: where the square was it is like any frame without it.
    (step,) = aligned(Image(np.random.default_rng(1).integers(60, 140, (64, 64, 3), np.uint8)))
    assert step.unaligned
    assert step.alignment.cost > 1
    steps = aligned(scene(0.4), None, scene(1.0))
    assert [s.unaligned for s in steps] == [False, True, True]
    assert "no picture to look for" in steps[1].alignment.reason
    assert steps[1].alignment.cost is None


def test_where_there_is_no_room_all_steps_are_unaligned():
    steps = aligned(*[scene(0.4)] * 20)
    assert all(s.unaligned and "no room for 20 steps of 0.5 s" in s.alignment.reason for s in steps)
    lost = align(board(scene(0.4)), Recorded(FRAMES[:3], PLACES[:3]), "front").steps
    assert [s.alignment.reason for s in lost] == [
        "no room for 1 steps of 0.5 s or more: the motion changes at 0 places in 0.3 s"
    ]
