"""launch/rosetta_contract.yaml against rosetta's documented schema, and against what the real node publishes.

rosetta is on no package registry, so its own loader is not run here. What is written down below of its rules
(doc/reference/contract.md, contract/specs.py, frames/resample.py, robots/ros2/{timelines,decoders}.py at
commit 3f084699) was read, and is the least that an entry needs.
"""

import importlib
import time

import cv2
import numpy as np
import pytest
import yaml
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from support.places import ROOT
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
CODECS = {"sensor_msgs/msg/CompressedImage", "sensor_msgs/msg/JointState", "std_msgs/msg/String"}


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


def timelines(kind: str) -> set[str]:
    header = get_message(kind).get_fields_and_field_types().get("header") == "std_msgs/Header"
    return {"receive", "header"} if header else {"receive"}


def check_entry(key: str, entry: dict) -> None:
    assert set(entry) <= {"channel", "align", "select", "apply", "kind"}, key
    channel = entry["channel"]
    assert set(channel) <= {"topic", "type", "qos", "dtype", "safety", "decoder", "encoder"}, key
    assert channel["type"] in CODECS
    profile(channel.get("qos"))
    assert entry["align"]["strategy"] in {"hold", "asof", "drop"}
    assert entry["align"]["timeline"] in timelines(channel["type"])
    if key.startswith("observation.images."):
        sizes = [op["resize"] for op in entry.get("apply", []) if "resize" in op]
        assert sizes, f"{key} must declare its size"
        assert all(isinstance(n, int) and n > 0 for n in sizes[-1])
    else:
        assert entry["select"], f"{key} must select fields"


def test_it_keeps_to_the_documented_schema(contract):
    assert set(contract) == {"robot_type", "robot_interface", "fps", "observations", "actions", "tasks"}
    assert contract["robot_interface"] == "ros2"
    for section in ("observations", "actions"):
        for key, entry in contract[section].items():
            check_entry(key, entry)
    numeric = [k for k in contract["observations"] if not k.startswith("observation.images.")]
    assert len(numeric) == len(contract["actions"]) == 1, "all that LeRobot's live path can take"
    assert set(contract["tasks"]["task"]) == {"channel"}, "a task is not on the frame clock"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("align", "strategy"), "nearest"),
        (("align", "timeline"), "publish"),
        (("apply",), []),
        (("channel", "qos"), {"durability": "latched"}),
        (("channel", "qos"), {"deadline": 1}),
        (("channel", "type"), "goalreel_interfaces/msg/SubGoal"),
    ],
)
def test_the_schema_check_can_fail(path, value):
    entry = yaml.safe_load(CONTRACT.read_text())["observations"][KEY]
    where = entry
    for name in path[:-1]:
        where = where[name]
    where[path[-1]] = value
    with pytest.raises((AssertionError, KeyError)):
        check_entry(KEY, entry)


class Stream:
    """One observation stream as rosetta keeps it: the newest message by the chosen timeline, resampled."""

    def __init__(self, robot: Robot, entry: dict, strategy: str = "", **qos: str) -> None:
        channel = entry["channel"]
        self.strategy = strategy or entry["align"]["strategy"]
        self.stamp, self.picture, self.dropped = 0, None, 0
        kind = get_message(channel["type"])
        settings = profile(channel["qos"] | qos)
        self.subscription = robot.beside.run(
            lambda: robot.node.create_subscription(kind, channel["topic"], self.take, settings)
        )

    def take(self, message) -> None:
        stamp = message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
        picture = cv2.imdecode(np.frombuffer(message.data, np.uint8), cv2.IMREAD_COLOR)
        if stamp == 0 or picture is None or "compressedDepth" in message.format:
            self.dropped += 1
        elif stamp >= self.stamp:
            # A bare format means BGR in OpenCV's hands; `... compressed rgb8` would be left as it is.
            bgr = not message.format.partition("compressed")[2].strip().startswith("rgb")
            self.stamp, self.picture = stamp, picture[:, :, ::-1] if bgr else picture

    def sample(self, fps: float) -> np.ndarray | None:
        age = time.time_ns() - self.stamp
        if self.picture is None or (self.strategy == "drop" and age >= 10**9 / fps):
            return None
        return self.picture


def shows(picture: np.ndarray | None, colour: tuple[int, int, int]) -> bool:
    return picture is not None and bool(np.abs(seen(picture).astype(int) - colour).max() < 12)


@pytest.mark.process
def test_the_nodes_topics_match_the_entries_types_and_qos(robot, contract):
    for entry in (contract["observations"][KEY], contract["tasks"]["task"]):
        channel = entry["channel"]
        infos = until(lambda channel=channel: robot.node.get_publishers_info_by_topic(channel["topic"]))
        assert [i.topic_type for i in infos] == [channel["type"]]
        wanted, offered = profile(channel["qos"]), infos[0].qos_profile
        assert (offered.reliability, offered.durability) == (wanted.reliability, wanted.durability)


@pytest.mark.process
def test_held_on_the_frame_clock_the_goal_has_no_gaps(robot, client, contract):
    entry, fps = contract["observations"][KEY], contract["fps"]
    early = Stream(robot, entry)
    task = client.execute(f"{RED} {GREEN}")
    first = client.wait_for_subgoal(20)
    until(lambda: shows(early.sample(fps), rgb(RED)))
    late = Stream(robot, entry)
    volatile = Stream(robot, entry, durability="volatile")
    gaps = Stream(robot, entry, strategy="drop")
    until(lambda: late.picture is not None and gaps.picture is not None)
    sampled = []
    for _ in range(10):
        time.sleep(1 / fps)
        sampled.append((late.sample(fps), gaps.sample(fps)))
    assert all(shows(held, rgb(RED)) for held, _ in sampled)
    assert sampled[-1][1] is None, "with `drop` a latched goal becomes a gap"
    assert volatile.picture is None, "without `transient_local` a late joiner sees no goal"
    client.set_active_step(1)
    client.wait_for_subgoal(20, after=first)
    until(lambda: shows(late.sample(fps), rgb(GREEN)) and shows(volatile.sample(fps), rgb(GREEN)))
    client.pause()
    until(lambda: shows(late.sample(fps), (0, 0, 0)))
    task.cancel()
    assert early.dropped == late.dropped == 0
