"""Bags as robots in the field record them: joints of several nodes, clocks that are set, broken pictures."""

import itertools
import logging
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support import bags as b

from goalreel.datasets.bags import TopicRequest
from goalreel.datasets.bags.convert import convert, read_bags
from goalreel.datasets.bags.excerpts import Cut
from goalreel.datasets.bags.timeline import SECOND, as_of, staleness, timeline
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError

MS = 1_000_000
CAMERA = "observation.images.camera"
STATE = TopicRequest(task="t", state_topic=["/joint_states"])


def cut(tmp_path: Path, sent: list[b.Sent], request: TopicRequest = STATE) -> Cut:
    (found,) = read_bags(b.write_bag(tmp_path / "bag", sent), request).values()
    return found


def camera(frames: int = 20, *, after: int = 0) -> list[b.Sent]:
    return [b.image(after + i * 100 * MS, b.moving(i)) for i in range(frames)]


def rows(found: Cut) -> list[list[float]]:
    return found.excerpts[0].rows["observation.state"].tolist()


# -- joints by their names


def joints(lag: int, names: tuple[str, ...]) -> list[b.Sent]:
    """Positions i and -i, some ms before picture i."""
    return [b.joints(s.at - lag * MS, names, (i, -i)) for i, s in enumerate(camera())]


def test_joints_keep_their_columns_whatever_their_order_and_their_node(tmp_path):
    """A gripper of another node, at a fifth of the arm's rate: frames begin when both have spoken."""
    orders = itertools.cycle(itertools.permutations("abc"))
    values = {"a": 1, "b": 2, "c": 3}
    states = [
        b.joints(s.at - MS, order, [10 * i + values[n] for n in order])
        for i, (s, order) in enumerate(zip(camera(), orders, strict=False))
    ]
    found = cut(tmp_path / "a", camera() + states)
    assert found.names["observation.state"] == ("a", "b", "c")
    assert rows(found) == [[10 * i + 1, 10 * i + 2, 10 * i + 3] for i in range(20)]
    gripper = [b.joints(i * 500 * MS + 250 * MS, ("g",), (i,)) for i in range(4)]
    found = cut(tmp_path / "b", camera() + joints(2, ("a", "b")) + gripper)
    assert found.names["observation.state"] == ("a", "b", "g")
    assert rows(found) == [[i, -i, (i * 100 - 250) // 500] for i in range(3, 20)]
    efforts = [b.joints(s.at - 30 * MS, ("a", "b"), ()) for s in camera()]
    passed_over = cut(tmp_path / "c", camera() + joints(2, ("a", "b")) + efforts)
    assert rows(passed_over) == [[i, -i] for i in range(20)]


def test_bags_whose_joints_are_in_another_order_go_together(tmp_path):
    for bag, order in (("a", ("x", "y")), ("b", ("y", "x"))):
        states = [b.joints(s.at - MS, order, [{"x": 1, "y": 2}[n] for n in order]) for s in camera()]
        b.write_bag(tmp_path / "bags" / bag, camera() + states)
    first, second = read_bags(tmp_path / "bags", STATE).values()
    assert first.names == second.names == {"observation.state": ("x", "y")}
    assert rows(first) == rows(second) == [[1, 2]] * 20


# -- clocks


@pytest.mark.parametrize("jump", [3600 * SECOND, 10 * 365 * 86400 * SECOND], ids=["an hour", "ten years"])
def test_a_clock_that_is_set_forward_cuts_the_episode(jump, tmp_path, caplog):
    """No still frame is invented, and no state from before the jump is shown behind it."""
    late = [s for i, s in enumerate(camera(20)) if i >= 10]
    sent = camera(10) + [b.image(s.at + jump, b.moving(i + 10)) for i, s in enumerate(late)]
    sent += [b.joints(s.at + (3 if s.at > jump else -3) * MS, ("a",), (i,)) for i, s in enumerate(sent)]
    with caplog.at_level(logging.WARNING):
        found = cut(tmp_path, sent)
    assert [e.pictures["camera"].tolist() for e in found.excerpts] == [[*range(10)], [*range(11, 20)]]
    states = [e.rows["observation.state"][:, 0].tolist() for e in found.excerpts]
    assert states == [[*range(10)], [*range(10, 19)]]
    (said,) = [r.getMessage() for r in caplog.records]
    assert f"/image: nothing for {jump / SECOND + 0.1:.1f} s, 0.9 s into the episode, which is cut" in said


@pytest.mark.parametrize(("pause", "frames"), [(60, [10, 10]), (10, [110])])
def test_a_pause_of_more_than_ten_seconds_is_a_cut_and_a_value_that_is_said_once_holds(
    pause, frames, tmp_path
):
    sent = camera(10) + camera(10, after=pause * SECOND) + [b.joints(-MS, ("a",), (7,))]
    assert [len(e.moments) for e in cut(tmp_path, sent).excerpts] == frames


def test_by_the_header_clock_a_recorder_whose_clock_jumped_back_is_whole(tmp_path):
    sent = [b.image((i if i < 20 else i - 15) * 100 * MS, b.moving(i), taken=i * 100 * MS) for i in range(30)]
    found = cut(tmp_path, sent, TopicRequest(task="t", clock="header"))
    order = [i for _, i in sorted(((i if i < 20 else i - 15), i) for i in range(30))]
    assert [order[k] for k in found.excerpts[0].pictures["camera"]] == list(range(30))


CLOCKS = {
    "stamps of zero": lambda i: b.image(i * 100 * MS, b.moving(i), taken=-b.START),
    "a simulated clock": lambda i: b.image(i * 100 * MS - b.START, b.moving(i)),
}


@pytest.mark.parametrize("clock", CLOCKS)
def test_other_clocks_are_no_matter_by_reception(clock, tmp_path):
    found = cut(tmp_path, [CLOCKS[clock](i) for i in range(20)], TopicRequest(task="t"))
    assert found.excerpts[0].pictures["camera"].tolist() == list(range(20))


# -- broken pictures


def damaged(*places: int) -> list[b.Sent]:
    sent = [b.compressed(i * 100 * MS, b.moving(i)) for i in range(20)]
    for place in places:
        sent[place].fields["data"] = sent[place].fields["data"][:100]
    return sent


def shrunk(place: int) -> list[b.Sent]:
    sent = camera()
    sent[place] = b.image(sent[place].at, np.zeros((24, 24, 3), np.uint8))
    return sent


BROKEN = {
    "one": (damaged(7), [*range(7), 6, *range(8, 20)], "1 of 20 pictures cannot be used (message 7: "),
    "the first": (damaged(0, 1), [2, 2, *range(2, 20)], "2 of 20 pictures cannot be used (message 0: "),
    "the last": (damaged(19), [*range(19), 18], "1 of 20 pictures cannot be used (message 19: "),
    "another size": (shrunk(7), [*range(7), 6, *range(8, 20)], "(message 7: pictures of 48x48 and of 24x24"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_picture_is_replaced_and_said(name, tmp_path, caplog):
    sent, want, said = BROKEN[name]
    cuts = read_bags(b.write_bag(tmp_path / "bag", sent), TopicRequest(task="t"))
    convert(cuts, TopicRequest(task="t"), tmp_path / "out")
    source = Source.open(tmp_path / "out")
    pictures = source.episode(0).frames(CAMERA, range(20))
    assert [b.number_of(picture.pixels) for picture in pictures] == want
    assert source.features[CAMERA]["shape"] == [48, 48, 3]
    assert said in caplog.text


# -- a node that dies, a clock that is off


def test_the_goal_of_a_dead_node_ends_with_its_heartbeat(tmp_path):
    """Silent from 1 to 4 s: its goal was current for another 1.5 s, and again once it went on."""
    beats = [
        b.Sent(at * 250 * MS, f"{b.NODE}/progress", "goalreel_interfaces/msg/StoryboardProgress", {})
        for at in (0, 1, 2, 3, 4, 16, 17, 18, 19)
    ]
    sent = [*camera(50), b.subgoal(0, 0, "pick", picture=b.moving(5))]
    request = TopicRequest(task="t")
    (alone,) = cut(tmp_path / "alone", sent, request).excerpts[0].spans
    assert alone.end > b.START + 4900 * MS, "without a heartbeat nobody can know"
    spans = cut(tmp_path, sent + beats, request).excerpts[0].spans
    assert [(s.start - b.START, s.end - b.START) for s in spans[:1]] == [(0, 2500 * MS)]
    assert [s.start - b.START for s in spans[1:]] == [4000 * MS], "one that hung goes on without anything new"


def test_a_pipe_in_the_place_of_a_bag_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.mcap")
    with pytest.raises(DatasetError, match=r"not readable as a ROS 2 bag .*a pipe or a device"):
        read_bags(tmp_path, STATE)


@pytest.mark.parametrize("ahead", [-60, 3600])
def test_by_the_header_clock_a_camera_whose_clock_is_off_is_refused(tmp_path, ahead):
    off = [b.image(s.at, b.moving(i), taken=s.at + ahead * SECOND) for i, s in enumerate(camera())]
    states = joints(60, ("a", "b"))
    request = TopicRequest(task="t", state_topic=["/joint_states"], clock="header")
    with pytest.raises(DatasetError, match=rf"stamps of /.* are {abs(ahead)}.0 s older than .*--clock rec"):
        cut(tmp_path, off + states, request)
    assert cut(tmp_path / "fine", camera() + states, request).excerpts


def test_a_second_camera_that_stops_ends_the_episode(tmp_path, caplog):
    sent = camera(200) + [b.image(s.at, b.moving(1), topic="/wrist/image") for s in camera(30)]
    found = cut(tmp_path, sent, TopicRequest(task="t", image_topic=["/image", "/wrist/image"]))
    assert [len(e.moments) for e in found.excerpts] == [30]
    assert "/wrist/image: nothing for 17.0 s, 2.9 s into the episode" in caplog.text


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
