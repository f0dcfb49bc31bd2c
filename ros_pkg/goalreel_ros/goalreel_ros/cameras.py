"""The node's inputs from the camera: the newest frame, and the optical frame it was taken in."""

import os
import threading
from collections.abc import Callable
from functools import partial

from rclpy import get_rmw_implementation_identifier
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CameraInfo, CompressedImage
from sensor_msgs.msg import Image as RawImage

from goalreel.streaming.camera import explain_spacing
from goalreel.streaming.frames import FrameSlot
from goalreel_ros.camera_graph import COMPRESSED, RAW, explain_silence, publishers
from goalreel_ros.camera_stamps import CameraStamps
from goalreel_ros.diagnostics import Diagnosis, camera
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.qos import subscription_qos
from goalreel_ros.spin import Spin
from goalreel_ros.times import from_time

type CameraSlot = FrameSlot[RawImage | CompressedImage]

NEWEST = QoSProfile(depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT)
"""For sensor data: a deeper queue would only make frames older."""
LARGE = 1_000_000
"""Bytes of a raw frame from which on Fast DDS loses most of them without its shared-memory profile."""
PROFILES = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")
LOSS = 0.2
"""Share of large frames lost that is a warning."""


def _compressed_topic(node: Node, image: str) -> str:
    """`image/compressed` where that is remapped, else `compressed` below `image`, as image_transport does."""
    topic = node.resolve_topic_name("image/compressed")
    default = node.resolve_topic_name("image/compressed", only_expand=True)
    return f"{image}/compressed" if topic == default else topic


def explain_losses(size: int, lost_share: float | None) -> str:
    """Say in one line what is wrong with raw frames of `size` bytes, of which a share is lost; or nothing."""
    loses = lost_share is not None and lost_share >= LOSS
    if size < LARGE or not get_rmw_implementation_identifier().startswith("rmw_fastrtps"):
        return ""
    loss = f", {lost_share:.0%} are lost" if loses else ""
    start = f"raw frames of {size / 1e6:.1f} MB{loss}"
    if not any(os.environ.get(name) for name in PROFILES):
        return f"{start}: set {PROFILES[0]} to launch/fastdds_shm.xml here and for the driver, or compress"
    return f"{start}: the driver needs the shared-memory profile too ({PROFILES[0]})" if loses else ""


class CameraInputs:
    """Subscribes to `image` and `camera_info`. The callbacks only fill the slot; its reader decodes.

    `on_frame` is called after every frame and must return at once. `explain_silence()` says in one line what
    the ROS graph tells of a topic on which nothing arrives.

    It has a node and a thread of its own. An executor that serves twenty other entities takes milliseconds
    longer to pass a frame on (`benchmarks/ros.py`), and a node of rclpy belongs to one executor. Its QoS
    parameters are those of `node`, which makes it in configure and removes it in cleanup.
    """

    def __init__(
        self, node: Node, options: Callable[[], NodeOptions], slot: CameraSlot, on_frame: Callable[[], None]
    ) -> None:
        self.slot = slot
        self._options, self._on_frame = options, on_frame
        self.info: CameraInfo | None = None
        """The newest message of `camera_info`."""
        self._clock, self._stamps, self._frame_bytes = node.get_clock(), CameraStamps(), 0
        kind, topic = RawImage, node.resolve_topic_name("image")
        if options().image_transport == "compressed":
            kind, topic = CompressedImage, _compressed_topic(node, topic)
        type_name = COMPRESSED if kind is CompressedImage else RAW
        self.explain_silence = partial(explain_silence, node, topic, type_name)
        self._topic, self._publishers = topic, partial(publishers, node, topic)
        # Remappings are resolved already, and a remapping of the node's name must not apply to this node.
        self._node = Node(
            f"{node.get_name()}_camera",
            namespace=node.get_namespace(),
            context=node.context,
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
        )
        qos = subscription_qos(node, topic, NEWEST)
        self._node.create_subscription(kind, topic, self._on_image, qos)
        info_topic = node.resolve_topic_name("camera_info")
        qos = subscription_qos(node, info_topic, NEWEST)
        self._node.create_subscription(CameraInfo, info_topic, self._on_info, qos)
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(self._node)
        self._spin = Spin(self._executor)
        self._thread = threading.Thread(target=self._spin.run, name="goalreel-camera", daemon=True)
        self._thread.start()

    def diagnose(self, max_age: float) -> Diagnosis:
        """Diagnose the camera by its frames, their stamps and the graph; `max_age` is in seconds."""
        counts, names, lost_share = self.slot.counts(), self._publishers(), self._stamps.lost_share()
        warnings = []
        if len(names) > 1:
            warnings.append(
                f"{len(names)} publishers of {self._topic}, whose frames alternate: {', '.join(names)}"
            )
        elif counts.age is not None and counts.age > max_age and not names:
            warnings.append(f"nobody publishes {self._topic} any more")
        warnings += [
            self._stamps.problem(max_age),
            explain_losses(self._frame_bytes, lost_share),
            explain_spacing(counts.spacing, max_age),
        ]
        values = {
            "topic": self._topic,
            "publishers": ", ".join(names),
            "latency [s]": self._stamps.latency(max_age),
            "lost on the way": "" if lost_share is None else f"{lost_share:.0%}",
        }
        silence = self.explain_silence() if counts.age is None else ""
        return camera(counts, max_age, silence, [w for w in warnings if w], values)

    def destroy(self) -> None:
        """Unsubscribe and end the thread."""
        self._spin.stop(self._thread)
        self._node.destroy_node()

    def _on_image(self, message: RawImage | CompressedImage) -> None:
        header = message.header
        frame_id = (
            self._options().frame_id
            or header.frame_id
            or (self.info.header.frame_id if self.info is not None else "")
        )
        stamp = from_time(header.stamp)
        self.slot.put(message, stamp, frame_id)
        self._stamps.put(stamp, self._clock.now().nanoseconds)
        if isinstance(message, RawImage):
            self._frame_bytes = message.step * message.height
        self._on_frame()

    def _on_info(self, message: CameraInfo) -> None:
        self.info = message
