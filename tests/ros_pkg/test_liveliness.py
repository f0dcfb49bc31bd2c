"""Consumers where the middleware tells nothing of liveliness, as rmw_zenoh: they go by the heartbeat.

The middleware here has the events; they are taken away as rmw_zenoh does. A node that publishes what
goalreel's does, in this process, stops its heartbeat.
"""

import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import cv2
import numpy as np
import pytest
import rclpy
from rclpy.context import Context
from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
from rclpy.executors import SingleThreadedExecutor
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import String
from support.wait import until

from goalreel_interfaces.msg import StoryboardProgress, StoryboardStep, SubGoal
from goalreel_ros.client import GoalreelClient, NodeGoneError
from goalreel_ros.guard import GuardNode
from goalreel_ros.liveliness import LiveSubscription
from goalreel_ros.pictures import decode
from goalreel_ros.qos import GOAL
from goalreel_ros.spin import BackgroundNode, Spin

pytestmark = pytest.mark.process

NODE = "/goalreel"
VERIFIED = StoryboardStep.IMAGE_VERIFIED
IMAGE = f"{NODE}/subgoal/image/compressed"


class FakeNode:
    """Latches a goal and its picture, and gives a heartbeat."""

    def __init__(self, name: str = "pick", **fields: Any) -> None:
        self.beside = BackgroundNode("fake", args=[])
        node = self.beside.node
        self._publishers: list[Any] = []
        red = cv2.imencode(".jpg", np.full((48, 64, 3), (20, 20, 250), np.uint8))[1].tobytes()
        picture = CompressedImage(format="jpeg", data=array("B", red))
        for topic, message in (
            (
                f"{NODE}/subgoal",
                SubGoal(name=name, goal_image=picture, **{"active": True, "image_status": VERIFIED} | fields),
            ),
            (IMAGE, picture),
            (f"{NODE}/subgoal/name", String(data=name)),
        ):
            self._publishers.append(node.create_publisher(type(message), topic, GOAL))
            self._publishers[-1].publish(message)
        self._progress = node.create_publisher(StoryboardProgress, f"{NODE}/progress", 10)
        self._timer: Any = None
        self.beside.start()
        self.go_on()

    def go_on(self) -> None:
        beat = lambda: self._progress.publish(StoryboardProgress())  # noqa: E731
        self._timer = self.beside.run(lambda: self.beside.node.create_timer(0.1, beat))

    def fall_silent(self) -> None:
        self.beside.run(lambda: self.beside.node.destroy_timer(self._timer))


@pytest.fixture
def fake() -> Iterator[FakeNode]:
    node = FakeNode()
    yield node
    node.beside.close()


@pytest.fixture(params=["refused", "never sent"])
def no_events(request, monkeypatch) -> None:
    """Liveliness events as in rmw_zenoh before and since its pull request 934."""
    create = SubscriptionEventCallbacks.create_event_handlers

    def without(callbacks: SubscriptionEventCallbacks, *arguments: Any) -> list[Any]:
        if callbacks.liveliness is not None and request.param == "refused":
            raise UnsupportedEventTypeError("event type is not supported")
        callbacks.liveliness = None
        return create(callbacks, *arguments)

    monkeypatch.setattr(SubscriptionEventCallbacks, "create_event_handlers", without)


def camera(**settings: bool) -> tuple[Callable[[], str], Callable[[], None]]:
    from lerobot_camera_goalreel import GoalreelCamera, GoalreelCameraConfig

    it = GoalreelCamera(
        GoalreelCameraConfig(
            topic=IMAGE,
            width=64,
            height=48,
            timeout_s=60,
            warmup_s=20,
            **(settings or {"require_verified": True}),
        )
    )
    it.connect()

    def shown() -> str:
        try:
            return "goal" if it.read_latest(0).any() else "black"
        except TimeoutError:
            return "gone"

    return shown, it.disconnect


def client() -> tuple[Callable[[], str], Callable[[], None]]:
    it = GoalreelClient(server=NODE, args=[])

    def shown() -> str:
        try:
            return "goal" if it.goal_image is not None else "black"
        except NodeGoneError:
            return "gone"

    return shown, it.close


def bridge() -> tuple[Callable[[], str], Callable[[], None]]:
    from goalreel_ros.zmq import Bridge

    it = Bridge(IMAGE, "tcp://127.0.0.1:*", "subgoal", (64, 48))
    black = it._encoded
    return lambda: ("black" if it._encoded == black else "goal") if it.send() else "gone", it.close


def guard() -> tuple[Callable[[], str], Callable[[], None]]:
    """Give what a consumer gets from it that knows nothing of liveliness, and asks for nothing latched."""
    context, newest = Context(), []
    rclpy.init(context=context, args=[])
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(GuardNode(context=context))
    spin, policy = Spin(executor), BackgroundNode("policy", args=[])
    thread = threading.Thread(target=spin.run)
    thread.start()
    for kind, topic in ((CompressedImage, "image/compressed"), (String, "name")):
        policy.node.create_subscription(kind, f"/goalreel_guard/{topic}", newest.append, 10)
    policy.start()

    def shown() -> str:
        picture = next((m for m in newest[::-1] if isinstance(m, CompressedImage)), None)
        name = next((m.data for m in newest[::-1] if isinstance(m, String)), "")
        lit = picture is not None and decode(picture).pixels.any()
        return ("goal" if lit and name else "") or ("gone" if not lit and not name else "mixed")

    def close() -> None:
        policy.close()
        spin.stop(thread)
        context.try_shutdown()

    return shown, close


def test_every_consumer_notices_a_heartbeat_that_stops_and_finds_the_goal_again(no_events, fake):
    """All at once: each waits as long as the others for a heartbeat that does not come."""
    with ExitStack() as stack:
        shown = {}
        for consumer in (camera, client, bridge, guard):
            shown[consumer.__name__], close = consumer()
            stack.callback(close)

        def all_show(state: str) -> bool:
            return {name: now() for name, now in shown.items()} == dict.fromkeys(shown, state)

        until(lambda: all_show("goal"), 180)  # the node of the test before ends: Fast DDS issue 6513
        fake.fall_silent()
        until(lambda: all_show("gone"))
        fake.go_on()
        until(lambda: all_show("goal"))


@pytest.mark.parametrize(
    ("setting", "fields", "expected"),
    [
        ("require_verified", {}, "goal"),
        ("require_verified", {"image_status": StoryboardStep.IMAGE_UNVERIFIED}, "black"),
        ("require_verified", {"active": False}, "black"),
        ("refuse_degraded", {"degraded": ["the planner: 500"]}, "black"),
        ("refuse_degraded", {"image_status": StoryboardStep.IMAGE_UNVERIFIED}, "goal"),
    ],
)
def test_the_camera_shows_no_goal_that_its_settings_refuse(setting, fields, expected):
    node = FakeNode(**fields)
    shown, close = camera(**{setting: True})
    try:
        until(lambda: shown() == expected)
        for _ in range(5):
            time.sleep(0.05)
            assert shown() == expected
    finally:
        close()
        node.beside.close()


def test_settings_that_refuse_goals_need_the_nodes_own_topic():
    from lerobot_camera_goalreel import GoalreelCameraConfig

    with pytest.raises(ValueError, match="need a topic in /image/compressed: got /own/goal"):
        GoalreelCameraConfig(topic="/own/goal", width=64, height=48, refuse_degraded=True)


def test_of_two_nodes_only_the_silent_one_is_forgotten(no_events, fake):
    with ExitStack() as stack:
        listener, held = BackgroundNode("listener", args=[]), []
        stack.callback(listener.close)
        listener.start()
        goal = listener.run(
            lambda: LiveSubscription(
                listener.node, SubGoal, f"{NODE}/subgoal", lambda m: held.append(m.name), held.clear
            )
        )
        until(lambda: held[-1:] == ["pick"] and goal.alive, 180)  # alive: its heartbeat was heard
        stack.callback(FakeNode("place").beside.close)
        until(lambda: held[-1:] == ["place"])
        fake.fall_silent()
        until(lambda: goal.losses)
        until(lambda: goal.alive and "place" in held)


def test_without_events_and_without_a_heartbeat_it_says_what_to_do(no_events, request):
    if request.node.callspec.params["no_events"] == "never sent":
        pytest.skip("nobody can know then: it waits for a publisher in vain, and says so")
    listener = BackgroundNode("listener", args=[])
    with pytest.raises(RuntimeError, match="give the topic of the node's heartbeat"):
        LiveSubscription(listener.node, CompressedImage, "/own/goal", print, print)
    listener.start()
    listener.close()
