"""The forms of the sub-goal camera: what their pixels are."""

from typing import get_args

import numpy as np
import pytest

from goalreel.errors import InputError
from goalreel.subgoal_camera import DEFAULT_FORM, LIVE_FORMS, NO_CHANGE, SubGoalForm, in_form

FORMS = get_args(SubGoalForm)
RNG = np.random.default_rng(0)
SIZES = [(48, 64), (480, 640), (37, 51), (2, 3)]


def picture(shape: tuple[int, int] = (48, 64)) -> np.ndarray:
    return RNG.integers(0, 256, (*shape, 3), np.uint8)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SIZES)
def test_every_form_keeps_the_shape_and_changes_nothing_it_is_given(form, shape):
    goal, live = picture(shape), picture(shape)
    kept = goal.copy(), live.copy()
    for given in (goal, live):
        given.flags.writeable = False
    shown = in_form(form, goal, live)
    assert (shown.shape, shown.dtype) == (goal.shape, np.uint8)
    assert shown.flags.c_contiguous
    assert np.array_equal(shown, in_form(form, goal, live))
    assert np.array_equal(kept, (goal, live))


def test_bordered_is_the_goal_below_fixed_lines():
    goal = picture((480, 640))
    assert in_form("plain", goal) is goal
    shown = in_form("bordered", goal)
    lines = (shown == in_form("bordered", 255 - goal)).all(2)
    assert 0.05 < lines.mean() < 0.1
    assert all(lines[at].all() for at in (0, 1, 64, 65, 448, 449, 478, 479))
    assert all(lines[:, at].all() for at in (0, 1, 64, 65, 576, 577, 638, 639))
    assert not lines[2:64, 2:64].any()
    assert np.array_equal(shown[~lines], goal[~lines])
    assert {tuple(pixel) for pixel in shown[lines]} == {(255, 0, 255), (0, 255, 0)}
    assert tuple(shown[0, 15]) == (255, 0, 255)
    assert tuple(shown[0, 16]) == tuple(shown[16, 0]) == (0, 255, 0)


def test_difference_tells_where_what_changes():
    goal, live = picture(), picture()
    assert (in_form("difference", goal, goal) == NO_CHANGE).all()
    wanted = np.floor(NO_CHANGE + (goal.astype(float) - live) / 2)
    assert np.array_equal(in_form("difference", goal, live), wanted)
    black, white = np.zeros_like(goal), np.full_like(goal, 255)
    assert (in_form("difference", white, black) == 255).all()
    assert (in_form("difference", black, white) == 0).all()


def test_beside_shows_the_live_frame_on_the_left_and_the_goal_on_the_right():
    shown = in_form("beside", np.full((37, 51, 3), 200, np.uint8), np.full((37, 51, 3), 50, np.uint8))
    assert (shown[:, :25] == 50).all()
    assert (shown[:, 25:] == 200).all()


@pytest.mark.parametrize("form", sorted(LIVE_FORMS))
def test_a_form_that_follows_the_camera_says_so_without_its_frame(form):
    with pytest.raises(InputError, match=rf"'{form}' needs a live frame .*, got None"):
        in_form(form, picture())
    with pytest.raises(InputError, match=r"of the shape \(48, 64, 3\), got \(37, 51, 3\)"):
        in_form(form, picture(), picture((37, 51)))
    assert DEFAULT_FORM not in LIVE_FORMS
