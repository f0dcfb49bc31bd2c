"""The node's inputs from the camera: the newest frame in a slot, and the optical frame it was taken in."""

from collections.abc import Callable

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CameraInfo, CompressedImage
from sensor_msgs.msg import Image as RawImage

from goalreel.streaming.frames import FrameSlot
from goalreel_ros.parameters import Options
from goalreel_ros.pictures import decode
from goalreel_ros.times import from_time

NEWEST = QoSProfile(depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Sensor data, where a deeper queue would only add age."""


class CameraInputs:
    """Subscribes to `image` and `camera_info`. The callbacks only store; decoding is the reader's."""

    def __init__(self, node: Node, options: Callable[[], Options]) -> None:
        self.slot: FrameSlot[RawImage | CompressedImage] = FrameSlot(decode)
        self._node, self._options = node, options
        self._info_frame = ""
        kind, topic = RawImage, node.resolve_topic_name("image")
        if options().image_transport == "compressed":
            # As image_transport does: remapping `image` moves its compressed twin along.
            kind, topic = CompressedImage, f"{topic}/compressed"
        alone, aside = MutuallyExclusiveCallbackGroup(), MutuallyExclusiveCallbackGroup()
        self._subscriptions = [
            node.create_subscription(kind, topic, self._take, NEWEST, callback_group=alone),
            node.create_subscription(CameraInfo, "camera_info", self._info, NEWEST, callback_group=aside),
        ]

    def destroy(self) -> None:
        """Stop listening."""
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)

    def _take(self, message: RawImage | CompressedImage) -> None:
        at = message.header
        frame_id = self._options().frame_id or at.frame_id or self._info_frame
        self.slot.put(message, from_time(at.stamp), frame_id)

    def _info(self, message: CameraInfo) -> None:
        self._info_frame = message.header.frame_id
