"""The guard, which feeds policies that know nothing of liveliness, as rosetta.

rosetta is on no package registry: its loader took the entry at commit dfd07e40 (github.com/iblnkn/rosetta).
"""

import importlib.util
import signal
import time

import cv2
import numpy as np
import pytest
import yaml
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from support.places import ROOT
from support.ros import other
from support.ros_bench import GREEN, RED, Robot, rgb, seen
from support.wait import until

CONTRACT = ROOT / "launch" / "rosetta_contract.yaml"
KEY = "observation.images.subgoal"
POLICIES = {
    "reliability": {"reliable": ReliabilityPolicy.RELIABLE, "best_effort": ReliabilityPolicy.BEST_EFFORT},
    "durability": {
        "volatile": DurabilityPolicy.VOLATILE,
        "transient_local": DurabilityPolicy.TRANSIENT_LOCAL,
    },
    "history": {"keep_last": HistoryPolicy.KEEP_LAST, "keep_all": HistoryPolicy.KEEP_ALL},
}


@pytest.fixture(scope="module")
def contract() -> dict:
    return yaml.safe_load(CONTRACT.read_text())


def get_message(kind: str) -> type:
    package, _, name = kind.split("/")
    return getattr(importlib.import_module(f"{package}.msg"), name)


def profile(qos: dict | None) -> QoSProfile:
    """rosetta's: reliable, volatile, keep_last, depth 10 unless said otherwise; unknown keys are refused."""
    given = {"reliability": "reliable", "durability": "volatile", "history": "keep_last"} | (qos or {})
    depth = given.pop("depth", 10)
    return QoSProfile(depth=depth, **{k: POLICIES[k][v] for k, v in given.items()})


class Stream:
    """One observation stream as rosetta keeps it: the newest message, a gap where that is too old."""

    def __init__(self, robot: Robot, entry: dict) -> None:
        channel = entry["channel"]
        assert (entry["align"]["strategy"], entry["align"]["timeline"]) == ("asof", "receive")
        self.tolerance = entry["align"]["tolerance_ms"] / 1000
        self.received, self.picture, self.dropped = 0.0, None, 0
        kind, settings = get_message(channel["type"]), profile(channel["qos"])
        robot.beside.run(lambda: robot.node.create_subscription(kind, channel["topic"], self.take, settings))

    def take(self, message) -> None:
        picture = cv2.imdecode(np.frombuffer(message.data, np.uint8), cv2.IMREAD_COLOR)
        if picture is None or "compressedDepth" in message.format:
            self.dropped += 1
            return
        # A bare format means BGR in OpenCV's hands; `... compressed rgb8` would be left as it is.
        bgr = not message.format.partition("compressed")[2].strip().startswith("rgb")
        self.received, self.picture = time.monotonic(), picture[:, :, ::-1] if bgr else picture

    def sample(self) -> np.ndarray | None:
        is_fresh = time.monotonic() - self.received <= self.tolerance
        return self.picture if is_fresh else None


def shows(picture: np.ndarray | None, colour: tuple[int, int, int]) -> bool:
    return picture is not None and bool(np.abs(seen(picture).astype(int) - colour).max() < 12)


@pytest.fixture(scope="module")
def guard(node):
    """A process of the guard; the node that it guards is there."""
    with other("-m", "goalreel_ros.guard", ready="ready") as process:
        yield process


@pytest.mark.process
def test_the_guards_topics_match_the_entries_types_and_qos(robot, guard, contract):
    for entry in (contract["observations"][KEY], contract["tasks"]["task"]):
        channel = entry["channel"]
        infos = until(lambda channel=channel: robot.node.get_publishers_info_by_topic(channel["topic"]))
        assert [i.topic_type for i in infos] == [channel["type"]]
        wanted, offered = profile(channel["qos"]), infos[0].qos_profile
        assert (offered.reliability, offered.durability) == (wanted.reliability, wanted.durability)


@pytest.mark.process
def test_sampled_as_rosetta_does_the_goal_stands_and_goes_with_its_node(node, robot, client, guard, contract):
    entry = contract["observations"][KEY]
    early = Stream(robot, entry)
    until(lambda: shows(early.sample(), (0, 0, 0)))
    client.execute(f"{RED} {GREEN}")
    first = client.wait_for_subgoal(60)
    until(lambda: shows(early.sample(), rgb(RED)))
    late = Stream(robot, entry)
    until(lambda: shows(late.sample(), rgb(RED)))
    client.set_active_step(1)
    client.wait_for_subgoal(60, after=first)
    until(lambda: shows(late.sample(), rgb(GREEN)))
    client.pause()
    until(lambda: shows(late.sample(), (0, 0, 0)))
    client.resume()
    until(lambda: shows(late.sample(), rgb(GREEN)))
    node.process.send_signal(signal.SIGSTOP)
    try:
        until(lambda: shows(late.sample(), (0, 0, 0)))
    finally:
        node.process.send_signal(signal.SIGCONT)
    until(lambda: shows(late.sample(), rgb(GREEN)))
    client.cancel()
    assert early.dropped == late.dropped == 0
    guard.process.send_signal(signal.SIGSTOP)
    until(lambda: late.sample() is None)  # a gap, which rosetta fills with zeros
    guard.process.send_signal(signal.SIGCONT)
    assert guard.stop(signal.SIGTERM) == 0
