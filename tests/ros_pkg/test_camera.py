"""The camera: its newest frame, its calibration, what the graph says of it, and /diagnostics."""

import pytest

pytest.importorskip("rclpy")

import re
from contextlib import closing
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from rclpy.clock import ROSClock
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.time import Time
from sensor_msgs.msg import CompressedImage, Image as RawImage
from std_msgs.msg import Header
from support.wait import until

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.streaming.camera import FrameSlot
from goalreel_ros import cameras
from goalreel_ros.cameras import NEWEST, RAW, CameraInputs, explain_silence, read_latency
from goalreel_ros.node import TaskClock
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.pictures import decode, raw


@pytest.fixture
def node(context):
    """A node as goalreel's: it publishes a picture of its own."""
    node = Node("goalreel", context=context, use_global_arguments=False)
    node.create_publisher(RawImage, "/goalreel/goal", 1)
    yield node
    node.destroy_node()


@pytest.fixture
def driver(context):
    node = Node("driver", context=context, namespace="/cam", use_global_arguments=False)
    yield node
    node.destroy_node()


@pytest.mark.parametrize(
    ("offered", "topic", "says"),
    [
        ([], "/image", r"nobody publishes it, nor any other picture: is the camera's driver running\?"),
        ([("/cam/raw", RawImage)], "/image", r"there are: /cam/raw \(sensor_msgs/msg/Image\)"),
        ([("/cam/jpeg", CompressedImage)], "/cam/jpeg", r"/cam/driver \(.*\) publishes another type there"),
        ([("/off", RawImage)], "/off", r"though /cam/driver \(.*\) offers it: is the camera switched on"),
    ],
)
def test_silence_on_a_topic_is_explained(node, driver, offered, topic, says):
    for name, kind in offered:
        driver.create_publisher(kind, name, 1)
        until(lambda name=name: node.count_publishers(name))
    assert re.search(
        rf"arrived on {topic} \(sensor_msgs/msg/Image\).*{says}", explain_silence(node, topic, RAW, NEWEST)
    )


def test_of_many_topics_five_are_named(node, driver):
    names = [f"/cam/p{i}" for i in range(7)]
    for name in names:
        driver.create_publisher(RawImage, name, 1)
    until(lambda: all(map(node.count_publishers, names)))
    said = explain_silence(node, "/image", RAW, NEWEST)
    assert said.count("/cam/p") == 5
    assert said.endswith(" and 2 more")


def test_a_publisher_whose_qos_does_not_fit(node, driver):
    driver.create_publisher(RawImage, "/best", NEWEST)
    until(lambda: node.count_publishers("/best"))
    said = explain_silence(node, "/best", RAW, QoSProfile(depth=1))
    assert "/cam/driver (sensor_msgs/msg/Image) offers it with another QoS (ERROR: Best effort" in said
    assert "switched on" not in said


FRAME = Image(np.full((4, 6, 3), (10, 200, 30), np.uint8))


# -- the camera

S = 10**9


@pytest.mark.parametrize(
    ("stamp", "arrival", "latency", "problem"),
    [
        (100 * S, 100 * S + S // 50, "0.020", ""),
        (40 * S, 100 * S, "", "its stamps are 60.0 s old on arrival"),
        (103 * S, 100 * S, "", "its stamps are 3.0 s ahead of this node's clock: the two clocks differ"),
        (0, 100 * S, "", "its frames carry no stamps"),
        (100 * S, 1, "", "this node has no time (use_sim_time): nobody publishes /clock"),
    ],
)
def test_stamps_that_tell_no_latency_are_named_instead(stamp, arrival, latency, problem):
    found, says = read_latency(stamp, arrival, 1.0)
    assert found == latency
    assert says.startswith(problem)
    assert bool(says) == bool(problem)


def test_one_late_frame_says_nothing_of_the_clocks(node):
    inputs = CameraInputs(node, NodeOptions, FrameSlot(decode), lambda: None)
    with closing(inputs._background):
        for age in (S // 50, 60 * S):
            now = node.get_clock().now().nanoseconds
            inputs._on_image(raw(FRAME, Header(stamp=Time(nanoseconds=now - age).to_msg())))
        _, text, values = inputs.diagnose(30.0)
    assert "old on arrival" not in text
    assert values["latency [s]"]


def test_a_qos_policy_that_does_not_exist_is_one_line(context):
    words = ["--ros-args", "-p", "qos_overrides./image.subscription.reliability:=perfect"]
    node = Node("goalreel", context=context, cli_args=words, use_global_arguments=False)
    with pytest.raises(InputError, match=r"^qos_overrides\./image\.subscription: .*reliability.*perfect"):
        CameraInputs(node, NodeOptions, FrameSlot(decode), lambda: None)
    node.destroy_node()


@pytest.mark.parametrize("profile", cameras.PROFILES)
def test_large_raw_frames_want_the_profile(monkeypatch, profile):
    for name in cameras.PROFILES:
        monkeypatch.delenv(name, raising=False)
    large = 1920 * 1080 * 3
    assert cameras.explain_size(large).startswith("raw frames of 6.2 MB: set FASTDDS_")
    assert not cameras.explain_size(640 * 480 * 3)
    monkeypatch.setenv(profile, "/some.xml")
    assert not cameras.explain_size(large)


def test_a_jump_of_simulated_time_makes_nothing_late():
    clock = ROSClock()
    clock._set_ros_time_is_active(True)
    now = TaskClock(SimpleNamespace(get_clock=lambda: clock, count_publishers=lambda _: 1))
    times = []
    for seconds in (0, 1234, 1236, 9000, 5, 6):
        clock.set_ros_time_override(Time(seconds=seconds, clock_type=clock.clock_type))
        times.append(now())
    assert [b - a for a, b in pairwise(times)] == [0, 2, 0, 0, 1]
