"""The recorder against a real publisher in another process, and what its bag becomes."""

import signal
import time
from pathlib import Path

import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rosbags.interfaces import QosDurability, QosReliability
from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from std_msgs.msg import String
from support.bags import typestore
from support.places import SUPPORT
from support.ros import Other, other
from support.wait import until

from goalreel_ros.record import Recorder, drain, main

pytestmark = pytest.mark.process

FRAMES = 16
TOPICS = {
    "/goalreel/subgoal": "goalreel_interfaces/msg/SubGoal",
    "/image": "sensor_msgs/msg/Image",
    "/joint_states": "sensor_msgs/msg/JointState",
    "/target": "std_msgs/msg/Float64MultiArray",
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """Recorded from the second process by the third; `/late` is never published."""
    bag = tmp_path_factory.mktemp("recorded") / "bag"
    with other(str(SUPPORT / "bag_publisher.py"), str(FRAMES)) as publisher:
        recorder = Other("-m", "goalreel_ros.record", "--out", str(bag), *TOPICS, "/late")
        until(lambda: sum("recording /" in line for line in recorder.lines) == len(TOPICS))
        publisher.say("go")
        until(lambda: "DONE" in publisher.lines)
        assert recorder.stop(signal.SIGINT) == 0, recorder.lines
        assert recorder.lines[-1] == f"{3 * FRAMES + 3} messages"
        assert not [line for line in recorder.lines if "Traceback" in line]
    return bag


def test_the_bag_has_every_message_its_definition_and_the_offered_qos(recorded):
    with Reader(recorded) as reader:
        assert {c.topic: c.msgtype for c in reader.connections} == TOPICS
        assert {c.topic: c.msgcount for c in reader.connections} == {
            "/goalreel/subgoal": 3,
            "/image": FRAMES,
            "/joint_states": FRAMES,
            "/target": FRAMES,
        }
        for connection in reader.connections:
            assert connection.digest == typestore().hash_rihs01(connection.msgtype)
        qos = {c.topic: c.ext.offered_qos_profiles[0] for c in reader.connections}
    assert qos["/goalreel/subgoal"].durability is QosDurability.TRANSIENT_LOCAL
    assert qos["/image"].reliability is QosReliability.BEST_EFFORT
    assert qos["/target"].reliability is QosReliability.RELIABLE


def test_what_was_latched_before_comes_first_and_times_ascend(recorded):
    with Reader(recorded) as reader:
        told = [(c.topic, t) for c, t, _ in reader.messages()]
        assert told[0][0] == "/goalreel/subgoal"
        assert [t for _, t in told] == sorted(t for _, t in told)
        seconds = (told[-1][1] - told[1][1]) / 1e9
    assert 0.05 * FRAMES < seconds < 60


def test_an_out_that_exists_is_refused_in_one_line(recorded):
    with pytest.raises(SystemExit) as end:
        main(["--out", str(recorded), "/image"])
    line = str(end.value.code)
    assert "exists already" in line
    assert "\n" not in line


def test_what_waits_when_it_ends_is_recorded_too(tmp_path):
    with (
        rclpy.init(args=[]),
        Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer,
    ):
        node, executor = rclpy.create_node("recorder"), SingleThreadedExecutor()
        executor.add_node(node)
        publishers = [node.create_publisher(String, topic, 50) for topic in ("/a", "/b")]
        Recorder(node, writer, ["/a", "/b"])
        until(lambda: executor.spin_once(0.1) or all(p.get_subscription_count() for p in publishers))
        for i in range(20):
            for publisher in publishers:
                publisher.publish(String(data=str(i)))
        time.sleep(1)
        drain(executor, writer)
        assert sum(writer.counts.values()) == 40


def test_before_anything_was_published_it_ends_cleanly(tmp_path):
    with other("-m", "goalreel_ros.record", "--out", str(tmp_path / "bag"), "/nobody", ready="waiting") as it:
        assert it.stop(signal.SIGTERM) == 0
        assert it.lines[-1] == "0 messages"
    assert (tmp_path / "bag" / "metadata.yaml").is_file()


def test_a_full_disk_is_one_line_and_status_1(tmp_path, monkeypatch):
    """The kernel's own error, from a file that is always full."""

    def fill(writer: Writer, topics: list[str], command: list[str]) -> None:
        writer.storage.bio = Path("/dev/full").open("wb")  # noqa: SIM115
        connection = writer.add_connection("/text", "std_msgs/msg/String", typestore=typestore())
        for at in range(4):
            writer.write(connection, at, bytes(2**20))

    monkeypatch.setattr("goalreel_ros.record._record", fill)
    with pytest.raises(SystemExit) as end:
        main(["--out", str(tmp_path / "bag"), "/text"])
    line = str(end.value.code)
    assert "No space left on device: the bag ends early" in line
    assert "\n" not in line
