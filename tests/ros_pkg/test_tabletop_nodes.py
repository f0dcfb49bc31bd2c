"""Simulator and follower as processes, each alone."""

import contextlib
import json
import signal
import socket
import time
from array import array

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
pytest.importorskip("rclpy", reason="needs ROS 2: pip install 'goalreel[ros]'")

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Float64MultiArray, String
from support.ros import Other, other
from support.wait import until

from goalreel.tabletop.env import ACTION_NAMES, STATE_NAMES
from goalreel.tabletop.reach import HOME_TIP
from goalreel_interfaces.msg import SubGoal
from goalreel_ros.qos import GOAL

pytestmark = [pytest.mark.lab, pytest.mark.process]

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
TABLETOP = ("-m", "goalreel_ros.tabletop.simulator", "--ros-args", "-p", "port:=0", "-p", "seed:=1")
FOLLOWER = ("-m", "goalreel_ros.tabletop.follower", "--ros-args", "-p", "seed:=1")


class Listener:
    """A node in this process; `heard[TOPIC]` is what came, newest last."""

    def __init__(self, **topics) -> None:
        self.node = rclpy.create_node("listener")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self.heard = {name: [] for name in topics}
        for name, (kind, qos) in topics.items():
            self.node.create_subscription(kind, name.replace("__", "/"), self.heard[name].append, qos)

    def spin_until(self, there):
        until(lambda: self._executor.spin_once(0.02) or there())


@contextlib.contextmanager
def listening(**topics):
    with rclpy.init():
        listener = Listener(**topics)
        yield listener
        listener.node.destroy_node()


def numbers(values) -> Float64MultiArray:
    return Float64MultiArray(data=array("d", values))


@pytest.fixture(scope="module")
def simulator():
    with other(*TABLETOP, "-p", "rate:=2.0", "-p", "size:=128", ready="ready") as it:
        yield it


def test_camera_state_and_truth_come_by_themselves(simulator):
    with listening(
        image=(Image, qos_profile_sensor_data),
        state=(Float64MultiArray, 1),
        tabletop__truth=(String, LATCHED),
    ) as here:
        heard = here.heard
        here.spin_until(lambda: all(heard.values()))
    image = heard["image"][0]
    state = heard["state"][-1]
    assert (image.width, image.height, image.encoding, image.step) == (128, 128, "rgb8", 384)
    assert image.header.frame_id == "front_optical_frame"
    assert image.header.stamp.sec > 0
    assert len(state.data) == len(STATE_NAMES)
    np.testing.assert_allclose(state.data[7:10], HOME_TIP, atol=1e-3)
    truth = json.loads(heard["tabletop__truth"][-1].data)
    assert truth["instruction"] in "\n".join(simulator.lines)
    assert not any(goal["holds"] for goal in truth["goals"])


def test_every_action_is_carried_out_once_and_the_arm_holds_after_the_last(simulator):
    with listening(state=(Float64MultiArray, 1)) as here:
        send = here.node.create_publisher(Float64MultiArray, "action", 20)
        here.spin_until(lambda: send.get_subscription_count() and here.heard["state"])
        before = np.array(here.heard["state"][-1].data)
        for step in ([0.01, 0, 0, 0.02, 1], [0, 0.01, 0, 0.02, 1], [1, 2], [np.nan] * 5):
            for _ in range(5):
                send.publish(numbers(step))
        wanted = before + np.eye(12)[7] * 0.05 + np.eye(12)[8] * 0.05 + np.eye(12)[10] * 0.2
        here.spin_until(lambda: np.allclose(here.heard["state"][-1].data[7:11], wanted[7:11], atol=5e-3))
        count = len(here.heard["state"])
        here.spin_until(lambda: len(here.heard["state"]) > count + 20)
        np.testing.assert_allclose(here.heard["state"][-1].data[7:11], wanted[7:11], atol=5e-3)
        for _ in range(5):
            send.publish(numbers([-0.01, -0.01, 0, -0.04, 1]))
        here.spin_until(lambda: np.allclose(here.heard["state"][-1].data[7:11], before[7:11], atol=5e-3))
    assert any(f"not an action ({', '.join(ACTION_NAMES)}): [1.0, 2.0]" in line for line in simulator.lines)


@pytest.mark.parametrize(("command", "how"), [(TABLETOP, signal.SIGINT), (FOLLOWER, signal.SIGTERM)])
def test_a_signal_ends_each_cleanly(command, how):
    with other(*command, ready="ready") as it:
        assert it.stop(how) == 0
        assert "Traceback" not in "\n".join(it.lines)


@pytest.mark.parametrize(
    ("parameter", "why"), [("seed:=-1", "seed"), ("port:=TAKEN", "Address already in use")]
)
def test_a_simulator_that_cannot_start_says_why_in_one_line(parameter, why):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        it = Other(*TABLETOP, "-p", parameter.replace("TAKEN", str(taken.getsockname()[1])))
        assert it.process.wait(60) == 1
    until(lambda: any(why in line for line in it.lines))
    assert "Traceback" not in "\n".join(it.lines)


def test_the_follower_declines_words_and_holds_without_a_sub_goal():
    with (
        # The module's simulator may be running: its states are none of this follower's business.
        other(*FOLLOWER, "-r", "__ns:=/alone", ready="ready") as follower,
        listening(alone__action=(Float64MultiArray, 10)) as here,
    ):
        goals = here.node.create_publisher(SubGoal, "alone/subgoal", GOAL)
        states = here.node.create_publisher(Float64MultiArray, "alone/state", 1)
        here.spin_until(lambda: goals.get_subscription_count() and states.get_subscription_count())

        def moves() -> int:
            """Count the actions with which it answers ten states, far from home."""
            here.heard["alone__action"].clear()
            for _ in range(10):
                states.publish(numbers([0.0] * 12))
                end = time.monotonic() + 0.05
                while time.monotonic() < end:
                    here._executor.spin_once(0.01)
            return len(here.heard["alone__action"])

        words = SubGoal(active=True, name="(words)", instruction="the red block is in the blue bowl")
        goals.publish(words)
        here.spin_until(
            lambda: any("declined" in line and words.instruction in line for line in follower.lines)
        )
        assert moves() == 0
        picture = CompressedImage(format="jpeg", data=array("B", b"?"))
        goals.publish(SubGoal(active=True, name="(picture)", goal_image=picture))
        here.spin_until(lambda: moves() > 3)
        goals.publish(SubGoal(active=False, goal_image=picture))
        here.spin_until(lambda: moves() == 0)
        goals.publish(SubGoal(active=True, name="(picture)", goal_image=picture))
        here.spin_until(lambda: moves() > 3)
        here.node.destroy_publisher(goals)  # as if its node were gone
        here.spin_until(lambda: moves() == 0)
