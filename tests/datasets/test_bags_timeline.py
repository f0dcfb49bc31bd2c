"""The time line, against slow and obvious definitions of what it promises."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from goalreel.datasets.bags.timeline import SECOND, as_of, staleness, timeline

FOREVER = 2**62
times = st.lists(st.integers(0, 20 * SECOND), min_size=1, max_size=60).map(
    lambda xs: np.array(sorted(xs), np.int64) + 1_700_000_000 * SECOND
)
rates = st.integers(1, 240)


@given(times, rates)
def test_frames_are_at_a_constant_rate_from_the_first_picture_to_the_last(camera, fps):
    frames = timeline(camera, fps, 0, FOREVER)
    assert camera[frames.pictures[0]] == frames.moments[0]
    assert abs((len(frames) - 1) / fps - (camera[-1] - camera[0]) / SECOND) <= 0.5 / fps + 1e-6
    assert (np.diff(frames.moments) >= 0).all()
    assert (np.diff(frames.pictures) >= 0).all()
    ticks = camera[0] + np.arange(len(frames)) * SECOND // fps
    assert (np.abs(frames.moments - ticks) <= SECOND // (2 * fps)).all()
    # No frame shows a picture from after its moment, and none an older one than the newest at that moment.
    assert (frames.pictures == as_of(camera, frames.moments)).all()


def test_a_pause_of_the_camera_repeats_its_picture_while_time_goes_on():
    camera = np.array([0, 100, 600, 700]) * 1_000_000
    frames = timeline(camera, 10, 0, FOREVER)
    assert frames.pictures.tolist() == [0, 1, 1, 1, 1, 1, 2, 3]
    assert (frames.moments // 1_000_000).tolist() == [0, 100, 150, 250, 350, 450, 600, 700]
    age, at = staleness(camera, frames.moments)
    assert (age, at) == (0.35, 0.45)


@given(times, rates, st.integers(0, 20), st.integers(1, 20))
def test_a_window_shows_nothing_from_outside(camera, fps, start, length):
    start = start * SECOND + 1_700_000_000 * SECOND
    end = start + length * SECOND
    frames = timeline(camera, fps, start, end)
    assert ((camera[frames.pictures] >= start) & (camera[frames.pictures] < end)).all()
    assert ((frames.moments >= start) & (frames.moments < end)).all()
    assert (frames.next_moments >= frames.moments).all()
    assert (frames.next_moments < end).all()
    assert bool(len(frames)) == bool(((camera >= start) & (camera < end)).any())


@given(st.integers(2, 80), rates, st.data())
def test_a_jittering_camera_at_the_datasets_rate_gives_every_picture_once(count, fps, data):
    limit = SECOND // (2 * fps) - 1
    jitter = data.draw(st.lists(st.integers(-limit, limit), min_size=count, max_size=count))
    jitter[0] = 0
    camera = np.arange(count) * SECOND // fps + np.array(jitter) + SECOND
    frames = timeline(camera, fps, 0, FOREVER)
    assert frames.pictures.tolist() == list(range(count))
    assert frames.moments.tolist() == camera.tolist()
