"""A node that is killed, hangs or falls silent: whatever follows its goals says so, and finds it again.

How soon follows from the leases; here it is only waited for. The first tests share a real node, and the last
of them kills it. The others are for a middleware that tells nothing of liveliness, as rmw_zenoh, where
consumers go by the heartbeat: its events are taken away, and a node in this process stops its heartbeat.
"""

import signal
import time
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import cv2
import numpy as np
import pytest
from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
from sensor_msgs.msg import CompressedImage
from support.ros_bench import GREEN, RED, node as start
from support.wait import until

from goalreel_interfaces.msg import StoryboardProgress, StoryboardStep, SubGoal
from goalreel_ros.client import GoalreelClient, GoalreelError, NodeGoneError
from goalreel_ros.liveliness import LiveSubscription
from goalreel_ros.qos import DEFAULT_LEASE, GOAL, OFFERED_LEASE
from goalreel_ros.spin import BackgroundNode

pytestmark = pytest.mark.process


@pytest.fixture(scope="module", autouse=True)
def _short_lease():
    with pytest.MonkeyPatch.context() as patch:
        # Each silence below lasts as long. Signs of life come from threads that no Python keeps busy.
        patch.setattr("goalreel_ros.liveliness.LEASE", 5.0)
        yield


@pytest.fixture
def camera(client):
    from lerobot_camera_goalreel import GoalreelCamera, GoalreelCameraConfig

    with GoalreelCamera(GoalreelCameraConfig(width=64, height=48, timeout_s=60, warmup_s=0)) as camera:
        yield camera


def stale(client) -> bool:
    """True if the client refuses to give a goal, and says why."""
    try:
        client.subgoal()
    except NodeGoneError as e:
        return "gone or hangs" in str(e)
    return False


def shows(camera) -> str:
    """Give what a policy would get now: `goal`, `black`, or `nothing` because its node is gone."""
    try:
        return "goal" if camera.read_latest().any() else "black"
    except TimeoutError as e:
        return "nothing" if "gone or hangs" in str(e) else str(e)


@contextmanager
def hanging(node) -> Iterator[None]:
    """Stop the node's process, and let it go on afterwards."""
    node.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        node.process.send_signal(signal.SIGCONT)


def test_the_leases_are_in_order():
    assert 2 * OFFERED_LEASE < DEFAULT_LEASE


def test_a_node_that_hangs_is_as_good_as_gone_and_its_goal_is_current_again_when_it_goes_on(
    node, client, camera
):
    task = client.execute(RED)
    goal = client.wait_for_subgoal(60)
    until(lambda: shows(camera) == "goal")
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(task.result), pool.submit(client.wait_for_subgoal, after=goal)]
        with hanging(node):
            for ask in waiting:
                with pytest.raises(NodeGoneError):
                    ask.result(60)
            until(lambda: stale(client) and shows(camera) == "nothing")
            assert not camera.read_latest(max_age_ms=10**6).any(), "however old a picture may be"
    until(lambda: shows(camera) == "goal" and not stale(client))
    assert client.subgoal().instruction == RED
    assert task.done, "but its task is not trusted"
    client.cancel()
    until(lambda: shows(camera) == "black")


def test_a_cancelling_is_found_by_a_node_that_goes_on(node, client):
    task = client.execute(RED)
    client.wait_for_subgoal(60)
    with hanging(node), pytest.raises(NodeGoneError):
        task.cancel(60)
    until(lambda: not stale(client) and not client.subgoal().active)
    with pytest.raises(GoalreelError, match="CANCELED"):
        until(lambda: task._outcome)
        task.result()


def test_a_killed_node_makes_the_goal_stale_and_its_successor_does_not_revive_the_task(
    node, served, client, camera, robot
):
    task = client.execute(RED)
    assert client.wait_for_subgoal(60).instruction == RED
    until(lambda: shows(camera) == "goal")
    node.process.kill()
    until(lambda: stale(client) and shows(camera) == "nothing")
    assert task.done
    for ask in (task.result, task.cancel, client.wait_for_subgoal, lambda: client.goal_image):
        with pytest.raises(NodeGoneError):
            ask()
    robot.stop_filming()
    with start(url=served[1]) as successor:
        shown: list[str] = []
        until(lambda: shown.append(shows(camera)) or "black" in shown)
        assert "goal" not in shown, "there is no camera frame, and the goal is the dead node's"
        until(lambda: not stale(client) and not client.subgoal().active)
        robot.film()
        assert task.done
        with pytest.raises(NodeGoneError):
            task.result()
        again = client.execute(GREEN)
        assert client.wait_for_subgoal(60).instruction == GREEN
        assert not again.done
        assert successor.stop(signal.SIGINT) == 0
        assert not [line for line in successor.lines if "Traceback" in line or "ERROR" in line]
        with pytest.raises(GoalreelError):
            again.result(60)


# -- by the heartbeat

NODE = "/fake/goalreel"
VERIFIED = StoryboardStep.IMAGE_VERIFIED
IMAGE = f"{NODE}/subgoal/image/compressed"


class FakeNode:
    """Latches a goal and its picture, and gives a heartbeat, all in a participant that stays."""

    def __init__(self, home: BackgroundNode, name: str = "pick", **fields: Any) -> None:
        self._home, self._publishers = home, []
        home.run(lambda: self._open(home.node, name, fields))
        self.go_on()

    def _open(self, node: Any, name: str, fields: dict[str, Any]) -> None:
        red = cv2.imencode(".jpg", np.full((48, 64, 3), (20, 20, 250), np.uint8))[1].tobytes()
        picture = CompressedImage(format="jpeg", data=array("B", red))
        self.goal = {"name": name, "goal_image": picture, "active": True, "image_status": VERIFIED}
        for topic, message in ((f"{NODE}/subgoal", SubGoal(**self.goal | fields)), (IMAGE, picture)):
            self._publishers.append(node.create_publisher(type(message), topic, GOAL))
            self._publishers[-1].publish(message)
        self._publishers.append(node.create_publisher(StoryboardProgress, f"{NODE}/progress", 10))

    def go_on(self) -> None:
        beat = lambda: self._publishers[-1].publish(StoryboardProgress())  # noqa: E731
        self._timer = self._home.run(lambda: self._home.node.create_timer(0.1, beat))

    def send(self, goal: SubGoal) -> None:
        self._home.run(lambda: self._publishers[0].publish(goal))

    def fall_silent(self) -> None:
        self._home.run(lambda: self._home.node.destroy_timer(self._timer))

    def close(self) -> None:
        self.fall_silent()
        for publisher in self._publishers:
            self._home.run(lambda gone=publisher: self._home.node.destroy_publisher(gone))


@pytest.fixture(scope="module")
def home() -> Iterator[BackgroundNode]:
    """One participant for all fakes: where they come and go, Fast DDS may find none for minutes."""
    node = BackgroundNode("fake", args=[])
    node.start()
    yield node
    node.close()


@pytest.fixture(scope="module")
def open_until_the_end() -> Iterator[ExitStack]:
    """What is closed after the last test, so that no participant ends while another is looked for."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def fake(home, monkeypatch) -> Iterator[FakeNode]:
    """It is in the consumers' process: if that is held up, so is everybody."""
    monkeypatch.setattr("goalreel_ros.liveliness.LEASE", 2.0)
    node = FakeNode(home)
    yield node
    node.close()


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


def picky_camera(**settings: bool) -> tuple[Callable[[], str], Callable[[], None]]:
    from lerobot_camera_goalreel import GoalreelCamera, GoalreelCameraConfig

    it = GoalreelCamera(
        GoalreelCameraConfig(
            topic=IMAGE,
            width=64,
            height=48,
            timeout_s=180,  # while another participant of this process ends: Fast DDS issue 6513
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


def follower() -> tuple[Callable[[], str], Callable[[], None]]:
    it = GoalreelClient(server=NODE, args=[])

    def shown() -> str:
        try:
            return "goal" if it.goal_image is not None else "black"
        except NodeGoneError:
            return "gone"

    return shown, it.close


def test_every_consumer_notices_a_heartbeat_that_stops_and_finds_the_goal_again(
    no_events, fake, open_until_the_end
):
    """All at once: each waits as long as the others for a heartbeat that does not come."""
    shown = {}
    for consumer in (picky_camera, follower):
        shown[consumer.__name__], close = consumer()
        open_until_the_end.callback(close)

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
        ("require_verified", {"image_status": StoryboardStep.IMAGE_REJECTED}, "black"),
        ("require_verified", {"image_status": StoryboardStep.IMAGE_ACCEPTED}, "black"),
        ("require_verified", {"active": False}, "black"),
        ("refuse_degraded", {"degraded": ["the planner: 500"]}, "black"),
        ("refuse_degraded", {"image_status": StoryboardStep.IMAGE_REJECTED}, "goal"),
    ],
)
def test_the_camera_shows_no_goal_that_its_settings_refuse(
    home, open_until_the_end, setting, fields, expected
):
    node = FakeNode(home, **fields)
    shown, close = picky_camera(**{setting: True})
    open_until_the_end.callback(close)
    try:
        until(lambda: shown() == expected)
        for _ in range(5):
            time.sleep(0.05)
            assert shown() == expected
        node.send(SubGoal(**node.goal))  # the same goal, and nothing is said against it now
        until(lambda: shown() == "goal")
    finally:
        node.close()


def test_of_two_nodes_only_the_silent_one_is_forgotten(no_events, home, fake):
    with ExitStack() as stack:
        listener, held = BackgroundNode("listener", home.node), []
        stack.callback(listener.close)
        listener.start()
        goal = listener.run(
            lambda: LiveSubscription(
                listener.node, SubGoal, f"{NODE}/subgoal", lambda m: held.append(m.name), held.clear
            )
        )
        until(lambda: held[-1:] == ["pick"] and goal.alive)  # alive: its heartbeat was heard
        stack.callback(FakeNode(home, "place").close)
        until(lambda: "place" in held)
        fake.fall_silent()
        until(lambda: goal.losses)
        until(lambda: goal.alive and "place" in held)


def test_without_events_and_without_a_heartbeat_it_says_what_to_do(no_events, request):
    if request.node.callspec.params["no_events"] == "never sent":
        pytest.skip("nobody can know then: it waits for a publisher in vain, and says so")
    listener = BackgroundNode("listener", args=[])
    with pytest.raises(RuntimeError, match="keep the node's topic"):
        LiveSubscription(listener.node, CompressedImage, "/own/goal", print, print)
    listener.start()
    listener.close()
