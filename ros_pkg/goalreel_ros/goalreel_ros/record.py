"""Records topics to a bag where there is no rosbag2: `python -m goalreel_ros.record --out run /image`.

The bag is MCAP in a folder, as `ros2 bag record` writes it: messages as they were serialised, definitions,
type hashes and the QoS that was offered. A latched topic gives its present message first. Ends on SIGINT
and SIGTERM; `--ros-args` as for any node.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import rclpy
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rclpy.subscription import MessageInfo
from rclpy.utilities import remove_ros_args
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import StoragePlugin, Writer, WriterError
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from goalreel_ros.signals import StopSignal

LOOK_S = 0.1
"""How often to look for publishers of topics not yet heard."""
DRAIN_S = 1.0
"""At most, when more comes in all the time."""
DEPTH = 100
_NAME = 2  # rosbags' node type of a message inside a message
_SEQUENCES = (3, 4)


def main(args: Sequence[str] | None = None) -> None:
    """Record until a signal comes. Exit status 1 when the bag cannot be written."""
    parser = argparse.ArgumentParser(
        prog="python -m goalreel_ros.record", description="Record topics to MCAP."
    )
    parser.add_argument("--out", type=Path, required=True, help="the new bag's folder")
    parser.add_argument("topics", nargs="+", metavar="TOPIC")
    command = [sys.argv[0], *(sys.argv[1:] if args is None else args)]
    options = parser.parse_args(remove_ros_args(command)[1:])
    try:
        with Writer(options.out, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
            _record(writer, options.topics, command)
    except (WriterError, OSError) as e:
        sys.exit(f"{parser.prog}: {options.out}: {e}")


def _record(writer: Writer, topics: Sequence[str], command: list[str]) -> None:
    # rclpy's own handlers end the context at once, and what is not spinning yet would raise.
    stop = StopSignal()
    with rclpy.init(args=command, signal_handler_options=SignalHandlerOptions.NO):
        node, executor = Node("recorder"), SingleThreadedExecutor()
        executor.add_node(node)
        Recorder(node, writer, topics)
        while not stop.requested:
            executor.spin_once(LOOK_S)
        drain(executor, writer)
    sys.stderr.write(f"{sum(writer.counts.values())} messages\n")


def drain(executor: SingleThreadedExecutor, writer: Writer) -> None:
    """Write what had arrived and waited when the signal came."""
    end, count = time.monotonic() + DRAIN_S, -1
    while count < (count := sum(writer.counts.values())) and time.monotonic() < end:
        for _ in range(len(writer.counts) + 1):  # one turn each, and the timer's
            executor.spin_once(0)


class Recorder:
    """Subscribes to each topic as soon as somebody publishes it, and writes what comes."""

    def __init__(self, node: Node, writer: Writer, topics: Sequence[str]) -> None:
        self._node = node
        self._writer = writer
        self._awaited = {node.resolve_topic_name(topic) for topic in topics}
        self._types = get_typestore(Stores.ROS2_KILTED)
        node.create_timer(LOOK_S, self._look)
        node.get_logger().info("waiting for " + ", ".join(sorted(self._awaited)))

    def _look(self) -> None:
        for topic in sorted(self._awaited):
            if publishers := self._node.get_publishers_info_by_topic(topic):
                self._awaited.remove(topic)
                self._subscribe(topic, publishers[0].topic_type, [p.qos_profile for p in publishers])

    def _subscribe(self, topic: str, type_: str, offered: Sequence[QoSProfile]) -> None:
        define(self._types, type_)
        profiles = [_offered(qos) for qos in offered]
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
    """What hears all of the publishers, and as much of each as they all give (rosbag2's own rule)."""
    reliable = all(q.reliability == ReliabilityPolicy.RELIABLE for q in offered)
    latched = all(q.durability == DurabilityPolicy.TRANSIENT_LOCAL for q in offered)
    return QoSProfile(
        depth=DEPTH,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


def define(types: Typestore, name: str) -> None:
    """Add a type and those inside it from the .msg files that its package installed.

    Raises:
        FileNotFoundError: they are not installed.
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
    found = get_types_from_msg(file.read_text(), name)
    for _, kind in found[name][1]:
        node, detail = kind
        inner, inner_name = detail[0] if node in _SEQUENCES else (node, detail)
        if inner == _NAME and isinstance(inner_name, str):
            define(types, inner_name)
    types.register(found)


def _offered(qos: QoSProfile) -> Qos:
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
