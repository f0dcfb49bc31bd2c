# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""The node's inputs from the camera: the newest frame, its stamps, and what the ROS graph says of it."""

import os
from collections import deque
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

from rclpy import get_rmw_implementation_identifier
from rclpy.exceptions import ParameterException
from rclpy.node import Node
from rclpy.qos import HistoryPolicy, QoSCompatibility, QoSProfile, ReliabilityPolicy, qos_check_compatible
from rclpy.topic_endpoint_info import TopicEndpointInfo
from sensor_msgs.msg import CameraInfo, CompressedImage, Image as RawImage

from goalreel.errors import InputError, first_line
from goalreel.streaming.camera import FrameSlot, explain_spacing
from goalreel_ros.convert import from_time
from goalreel_ros.diagnostics import ERROR, OK, WARN, Diagnosis
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.qos import OVERRIDABLE
from goalreel_ros.spin import BackgroundNode

RAW, COMPRESSED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
NEWEST = QoSProfile(depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT)
"""For sensor data: a deeper queue would only make frames older."""
NAMED = 5
"""Other topics of pictures that are named."""


def explain_silence(node: Node, topic: str, kind: str, qos: QoSProfile) -> str:
    """Say in one line what is known of `topic`, on which messages of the type `kind` are waited for.

    Topics that `node` itself publishes, and those that nobody does, are left out of what could be meant.
    """
    start = f"no camera frame has arrived on {topic} ({kind})"
    publishers = node.get_publishers_info_by_topic(topic)
    if not publishers:
        if not (others := _image_topics(node)):
            return f"{start}: nobody publishes it, nor any other picture: is the camera's driver running?"
        more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
        return f"{start}: nobody publishes it. Pictures there are: {', '.join(others[:NAMED])}{more}"
    names = ", ".join(sorted(f"{_name(p)} ({p.topic_type})" for p in publishers))
    checks = [qos_check_compatible(p.qos_profile, qos) for p in publishers if p.topic_type == kind]
    if not checks:
        return f"{start}: {names} publishes another type there: see image_transport, raw or compressed"
    if all(compatible == QoSCompatibility.ERROR for compatible, _ in checks):
        return (
            f"{start}: {names} offers it with another QoS ({checks[0][1].strip(' ;')}): "
            "set qos_overrides of this subscription, or the publisher's QoS"
        )
    return f"{start}, though {names} offers it: is the camera switched on, and on this network?"


def _image_topics(node: Node) -> list[str]:
    """Name the pictures that other nodes publish, with their types."""
    own = node.get_namespace(), node.get_name()
    return [
        f"{topic} ({kind})"
        for topic, types in sorted(node.get_topic_names_and_types())
        for kind in sorted({RAW, COMPRESSED}.intersection(types))
        if any((p.node_namespace, p.node_name) != own for p in node.get_publishers_info_by_topic(topic))
    ]


def _name(publisher: TopicEndpointInfo) -> str:
    return f"{publisher.node_namespace.rstrip('/')}/{publisher.node_name}"


FRAMES = 10
"""Frames of which the fastest tells the latency: one that is late says nothing of the clocks."""
AHEAD = 0.05
"""Seconds that a stamp may lie ahead of the node's clock, as between machines with synchronized clocks."""


def read_latency(stamp: int, arrival: int, max_age: float) -> tuple[str, str]:
    """Give a frame's time from stamp to arrival, in seconds, or in its place a line on what is wrong.

    `stamp` is by the camera's clock and `arrival` by the node's, in ns; `max_age` is in seconds.
    """
    age = (arrival - stamp) / 1e9
    if arrival <= 1:
        return "", "this node has no time (use_sim_time): nobody publishes /clock"
    if not stamp:
        return "", "its frames carry no stamps"
    if age < -AHEAD:
        return "", f"its stamps are {-age:.1f} s ahead of this node's clock: the two clocks differ"
    if age > max_age:
        return "", f"its stamps are {age:.1f} s old on arrival: they are late, or the two clocks differ"
    return f"{age:.3f}", ""


type CameraSlot = FrameSlot[RawImage | CompressedImage]

LARGE = 1_000_000
"""Bytes of a raw frame from which on Fast DDS loses most of them without its shared-memory profile."""
PROFILES = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")


def _compressed_topic(node: Node, image: str) -> str:
    """`image/compressed` where that is remapped, else `compressed` below `image`, as image_transport does."""
    topic = node.resolve_topic_name("image/compressed")
    default = node.resolve_topic_name("image/compressed", only_expand=True)
    return f"{image}/compressed" if topic == default else topic


def explain_size(size: int) -> str:
    """Say in one line what large raw frames of `size` bytes need; nothing where they have it."""
    is_fast = get_rmw_implementation_identifier().startswith("rmw_fastrtps")
    if size < LARGE or not is_fast or any(os.environ.get(name) for name in PROFILES):
        return ""
    return (
        f"raw frames of {size / 1e6:.1f} MB: "
        f"set {PROFILES[0]} to launch/fastdds_shm.xml here and for the driver, or compress"
    )


class CameraInputs:
    """Subscribes to `image`, and to `camera_info` for the frame_id. The reader of the slot decodes.

    `on_frame` is called after every frame and must return at once. `explain_silence()` says in one line what
    the ROS graph tells of a topic on which nothing arrives.

    It has a node and a thread of its own: an executor that serves twenty other entities takes milliseconds
    longer to pass a frame on (`benchmarks/ros.py`). Its QoS parameters are given to `node`.
    """

    def __init__(
        self, node: Node, options: Callable[[], NodeOptions], slot: CameraSlot, on_frame: Callable[[], None]
    ) -> None:
        self.slot = slot
        self._options, self._on_frame = options, on_frame
        self._clock, self._frame_bytes = node.get_clock(), 0
        self._newest: deque[tuple[int, int]] = deque(maxlen=FRAMES)
        """Stamps and arrivals of the newest frames."""
        self._info_frame = ""
        """The frame_id of `camera_info`, for frames that have none."""
        kind, type_name, topic = RawImage, RAW, node.resolve_topic_name("image")
        if options().image_transport == "compressed":
            kind, type_name, topic = CompressedImage, COMPRESSED, _compressed_topic(node, topic)
        self._topic, self._publishers = topic, partial(node.get_publishers_info_by_topic, topic)
        # Remappings are resolved already, and a remapping of the node's name must not apply to this node.
        given = [p for name, p in node._parameter_overrides.items() if name.startswith("qos_overrides.")]
        name = f"{node.get_name()}_camera"
        self._background = BackgroundNode(name, node, use_global_arguments=False, parameter_overrides=given)
        qos = self._subscribe(kind, topic, self._on_image)
        self._subscribe(CameraInfo, node.resolve_topic_name("camera_info"), self._on_info)
        self.explain_silence = partial(explain_silence, node, topic, type_name, qos)
        self._background.start()

    def _subscribe(self, kind: type[Any], topic: str, callback: Callable[[Any], None]) -> QoSProfile:
        """Subscribe, and give the QoS as the parameters override it.

        Raises:
            InputError: a parameter names no such policy. The node is closed.
        """
        qos = copy(NEWEST)  # rclpy changes it
        create = self._background.node.create_subscription
        try:
            create(kind, topic, callback, qos, qos_overriding_options=OVERRIDABLE)
        except (ParameterException, RuntimeError) as e:
            self._background.close()
            raise InputError(f"qos_overrides.{topic}.subscription: {first_line(e)}") from e
        return qos

    def diagnose(self, max_age: float) -> Diagnosis:
        """Diagnose the camera by its frames, their stamps and the graph; `max_age` is in seconds."""
        counts, names = self.slot.counts(), sorted(map(_name, self._publishers()))
        stamp, arrival = min(self._newest.copy(), key=lambda times: times[1] - times[0], default=(0, 0))
        latency, problem = read_latency(stamp, arrival, max_age) if arrival else ("", "")
        warnings, count = [counts.problem], len(names)
        if count > 1:
            warnings.append(
                f"{count} publishers of {self._topic}, whose frames alternate: {', '.join(names)}"
            )
        if counts.repeated:
            warnings.append(f"the newest frame was sent again {counts.repeated} times, with its stamp")
        if counts.age is None:
            warnings.append(self.explain_silence())
        elif counts.age > max_age:
            gone = "" if names else f", and nobody publishes {self._topic} any more"
            warnings.append(f"the newest frame is {counts.age:.1f} s old{gone}")
        warnings += [problem, explain_size(self._frame_bytes), explain_spacing(counts.spacing, max_age)]
        values = {
            "topic": self._topic,
            "publishers": ", ".join(names),
            "latency [s]": latency,
            "received": counts.received,
            "read": counts.read,
            "dropped": counts.dropped,
            "unreadable": counts.unreadable,
            "longest between the last frames [s]": f"{counts.spacing:.3f}",
            "newest frame sent again": counts.repeated,
            "age of newest frame [s]": "" if counts.age is None else f"{counts.age:.3f}",
            "problem": counts.problem,
        }
        text = "; ".join(warning for warning in warnings if warning)
        return ERROR if counts.problem else WARN if text else OK, text or "frames arrive", values

    def destroy(self) -> None:
        """Unsubscribe and end the thread."""
        self._background.close()

    def _on_image(self, message: RawImage | CompressedImage) -> None:
        frame_id = self._options().frame_id or message.header.frame_id or self._info_frame
        stamp = from_time(message.header.stamp)
        if not self.slot.put(message, stamp, frame_id):
            return
        self._newest.append((stamp, self._clock.now().nanoseconds))
        if isinstance(message, RawImage):
            self._frame_bytes = message.step * message.height
        self._on_frame()

    def _on_info(self, message: CameraInfo) -> None:
        self._info_frame = message.header.frame_id
