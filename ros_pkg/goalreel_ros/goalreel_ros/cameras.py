"""The node's inputs from the camera: the newest frame, and the optical frame it was taken in."""

import threading
from collections.abc import Callable
from functools import partial

from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CameraInfo, CompressedImage
from sensor_msgs.msg import Image as RawImage

from goalreel.streaming.frames import FrameSlot
from goalreel_ros.camera_graph import COMPRESSED, RAW, explain_silence
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.qos import subscription_qos
from goalreel_ros.spin import Spin
from goalreel_ros.times import from_time

type CameraSlot = FrameSlot[RawImage | CompressedImage]

NEWEST = QoSProfile(depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT)
"""For sensor data: a deeper queue would only make frames older."""


def _compressed_topic(node: Node, image: str) -> str:
    """`image/compressed` where that is remapped, else `compressed` below `image`, as image_transport does."""
    topic = node.resolve_topic_name("image/compressed")
    default = node.resolve_topic_name("image/compressed", only_expand=True)
    return f"{image}/compressed" if topic == default else topic


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
        kind, topic = RawImage, node.resolve_topic_name("image")
        if options().image_transport == "compressed":
            kind, topic = CompressedImage, _compressed_topic(node, topic)
        type_name = COMPRESSED if kind is CompressedImage else RAW
        self.explain_silence = partial(explain_silence, node, topic, type_name)
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
        self.slot.put(message, from_time(header.stamp), frame_id)
        self._on_frame()

    def _on_info(self, message: CameraInfo) -> None:
        self.info = message
