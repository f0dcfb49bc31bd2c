"""Records topics to a bag where there is no rosbag2: `ros2 run goalreel_ros record --out run /image`.

The executable's name is `goalreel_ros_record` where pip installed it. The bag is MCAP in a folder, as
`ros2 bag record` writes it: serialised messages, definitions, type hashes, offered QoS. A latched topic
gives its present message first. SIGINT and SIGTERM end it; it takes `--ros-args` as any node.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import MessageInfo
from rclpy.utilities import remove_ros_args
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import StoragePlugin, Writer, WriterError
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from goalreel_ros.spin import POLL_SECONDS, rclpy_until_signal

MAX_DRAIN_SECONDS = 1.0
"""Limit of draining the queues, where messages keep arriving."""
DEPTH = 100
_NAME = 2  # rosbags' node type of a message inside a message
_SEQUENCES = (3, 4)


def main(args: Sequence[str] | None = None) -> None:
    """Record until a signal comes. The exit status is 1 if the bag cannot be written."""
    parser = argparse.ArgumentParser(prog="goalreel_ros_record", description="Record topics to MCAP.")
    parser.add_argument("--out", type=Path, required=True, help="the new bag's folder")
    parser.add_argument("topics", nargs="+", metavar="TOPIC")
    command = [sys.argv[0], *(sys.argv[1:] if args is None else args)]
    options = parser.parse_args(remove_ros_args(command)[1:])
    try:
        with Writer(options.out, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
            _record(writer, options.topics, command)
    except WriterError as e:
        sys.exit(f"{parser.prog}: {options.out}: {e}")
    except OSError as e:
        reason = f"{e.strerror or e}: the bag ends early; `mcap recover` saves what is there"
        sys.exit(f"{parser.prog}: {options.out}: {reason}")


def _record(writer: Writer, topics: Sequence[str], command: list[str]) -> None:
    with rclpy_until_signal(command) as stop:
        node, executor = Node("recorder"), SingleThreadedExecutor()
        executor.add_node(node)
        Recorder(node, writer, topics)
        while not stop.is_set():
            executor.spin_once(POLL_SECONDS)
        drain(executor, writer)
    sys.stderr.write(f"{sum(writer.counts.values())} messages\n")


def drain(executor: SingleThreadedExecutor, writer: Writer) -> None:
    """Write the messages that were queued when the signal came."""
    deadline, count = time.monotonic() + MAX_DRAIN_SECONDS, -1
    while count < (count := sum(writer.counts.values())) and time.monotonic() < deadline:
        for _ in range(len(writer.counts) + 1):  # once for each topic, and for the timer
            executor.spin_once(0)


class Recorder:
    """Subscribes to each topic as soon as it has a publisher, and writes its messages."""

    def __init__(self, node: Node, writer: Writer, topics: Sequence[str]) -> None:
        self._node = node
        self._writer = writer
        self._pending_topics = {node.resolve_topic_name(topic) for topic in topics}
        self._types = get_typestore(Stores.ROS2_KILTED)
        node.create_timer(POLL_SECONDS, self._find_publishers)
        node.get_logger().info("waiting for " + ", ".join(sorted(self._pending_topics)))

    def _find_publishers(self) -> None:
        for topic in sorted(self._pending_topics):
            if publishers := self._node.get_publishers_info_by_topic(topic):
                self._pending_topics.remove(topic)
                self._subscribe(topic, publishers[0].topic_type, [p.qos_profile for p in publishers])

    def _subscribe(self, topic: str, type_: str, offered: Sequence[QoSProfile]) -> None:
        define(self._types, type_)
        profiles = [_offered_qos(qos) for qos in offered]
        connection = self._writer.add_connection(
            topic, type_, typestore=self._types, offered_qos_profiles=profiles
        )

        def write(data: bytes, info: MessageInfo) -> None:
            self._writer.write(connection, info["received_timestamp"], data)

        package, _, name = type_.split("/")
        message_class = getattr(import_module(f"{package}.msg"), name)
        self._node.create_subscription(message_class, topic, write, compatible(offered), raw=True)
        self._node.get_logger().info(f"recording {topic} ({type_})")


def compatible(offered: Sequence[QoSProfile]) -> QoSProfile:
    """Give the strongest QoS that is compatible with all of the publishers, as rosbag2 does."""
    reliable = all(q.reliability == ReliabilityPolicy.RELIABLE for q in offered)
    latched = all(q.durability == DurabilityPolicy.TRANSIENT_LOCAL for q in offered)
    return QoSProfile(
        depth=DEPTH,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


def define(types: Typestore, name: str) -> None:
    """Add a type, and the types of its fields, from the .msg files of their packages.

    Raises:
        FileNotFoundError: a file is not installed.
    """
    if name in types.fielddefs:
        return
    package, _, stem = name.split("/")
    relative = Path("share", package, "msg", f"{stem}.msg")
    # Wheels install into the environment itself, and set no AMENT_PREFIX_PATH.
    prefixes = [*filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)), sys.prefix]
    file = next((Path(p) / relative for p in prefixes if (Path(p) / relative).is_file()), None)
    if file is None:
        raise FileNotFoundError(f"{name} has no definition here: is {package} installed?")
    definitions = get_types_from_msg(file.read_text(), name)
    for _, kind in definitions[name][1]:
        node, detail = kind
        inner, inner_name = detail[0] if node in _SEQUENCES else (node, detail)
        if inner == _NAME and isinstance(inner_name, str):
            define(types, inner_name)
    types.register(definitions)


def _offered_qos(qos: QoSProfile) -> Qos:
    return Qos(
        QosHistory(qos.history.value),
        qos.depth,
        QosReliability(qos.reliability.value),
        QosDurability(qos.durability.value),
        _time(qos.deadline),
        _time(qos.lifespan),
        QosLiveliness(qos.liveliness.value),
        _time(qos.liveliness_lease_duration),
        qos.avoid_ros_namespace_conventions,
    )


def _time(duration: Duration) -> QosTime:
    return QosTime(*divmod(duration.nanoseconds, 1_000_000_000))


if __name__ == "__main__":
    main()
