"""The node's inputs from the camera: the newest frame in a slot, and the optical frame it was taken in."""

import threading
from collections.abc import Callable

from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CameraInfo, CompressedImage
from sensor_msgs.msg import Image as RawImage

from goalreel.streaming.frames import FrameSlot
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.spin import Spin
from goalreel_ros.times import from_time

type CameraSlot = FrameSlot[RawImage | CompressedImage]

NEWEST = QoSProfile(depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Sensor data, where a deeper queue would only add age."""


def _compressed(node: Node, image: str) -> str:
    """`image/compressed` by its own remapping, else, as image_transport does, where `image` was moved to."""
    own = node.resolve_topic_name("image/compressed")
    unmoved = node.resolve_topic_name("image/compressed", only_expand=True)
    return f"{image}/compressed" if own == unmoved else own


class CameraInputs:
    """Subscribes to `image` and `camera_info`. The callbacks only fill the slot; its reader decodes.

    `arrived` is called after every frame, and must return at once.

    A node of its own with a thread of its own: an executor that serves twenty other entities takes
    milliseconds longer to hand a frame over (`benchmarks/ros.py`), and rclpy gives one node to one executor.
    """

    def __init__(
        self, node: Node, options: Callable[[], NodeOptions], slot: CameraSlot, arrived: Callable[[], None]
    ) -> None:
        self.slot = slot
        self._options, self._arrived = options, arrived
        self._info_frame = ""
        kind, topic = RawImage, node.resolve_topic_name("image")
        if options().image_transport == "compressed":
            kind, topic = CompressedImage, _compressed(node, topic)
        # Remappings are resolved already, and one of the node's name must not name this one too.
        self._node = Node(
            f"{node.get_name()}_camera",
            namespace=node.get_namespace(),
            context=node.context,
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
        )
        self._node.create_subscription(kind, topic, self._take, NEWEST)
        self._node.create_subscription(CameraInfo, node.resolve_topic_name("camera_info"), self._info, NEWEST)
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(self._node)
        self._spin = Spin(self._executor)
        self._thread = threading.Thread(target=self._spin.run, name="goalreel-camera", daemon=True)
        self._thread.start()

    def destroy(self) -> None:
        """Stop listening."""
        self._spin.stop(self._thread)
        self._node.destroy_node()

    def _take(self, message: RawImage | CompressedImage) -> None:
        at = message.header
        frame_id = self._options().frame_id or at.frame_id or self._info_frame
        self.slot.put(message, from_time(at.stamp), frame_id)
        self._arrived()

    def _info(self, message: CameraInfo) -> None:
        self._info_frame = message.header.frame_id
