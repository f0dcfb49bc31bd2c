"""`~/subgoal/image`, its JPEG version and its camera_info: the goal, in the form that the policy knows."""

from collections.abc import Callable
from typing import Any

from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, CompressedImage
from sensor_msgs.msg import Image as RawImage
from std_msgs.msg import Header

from goalreel.image import Image
from goalreel.streaming.board import Frame, Goal
from goalreel.subgoal_camera import LIVE_FORMS, SubGoalForm, in_form
from goalreel_ros.camera_info import scaled
from goalreel_ros.convert import header
from goalreel_ros.pictures import Jpegs, black, raw
from goalreel_ros.qos import GOAL

UNKNOWN_SIZE = 16, 16
"""Width and height of the black picture before the camera's first frame: one block of a JPEG."""

type Create = Callable[[type[Any], str, QoSProfile], Publisher]


class GoalPictures:
    """Publishes the pictures of a policy's sub-goal camera. Use it from one thread.

    Image topics have no field for "no picture", so the pictures are black then, as in annotated datasets:
    without a goal, and in a form that follows the camera also while `live_frame` gives None.
    """

    def __init__(
        self,
        create: Create,
        jpegs: Jpegs,
        form: SubGoalForm,
        live_frame: Callable[[], Frame | None],
        camera_info: Callable[[], CameraInfo | None],
    ) -> None:
        self.follows = form in LIVE_FORMS
        self._form: SubGoalForm = form
        self._live_frame, self._jpegs, self._camera_info = live_frame, jpegs, camera_info
        self._raw = create(RawImage, "~/subgoal/image", GOAL)
        self._compressed = create(CompressedImage, "~/subgoal/image/compressed", GOAL)
        # Beside the image, where image_transport looks for it.
        self._info = create(CameraInfo, "~/subgoal/camera_info", GOAL)
        self._size: tuple[int, int] | None = None
        self._goal: Image | None = None

    def publish_black(self, size: tuple[int, int], at: Header) -> None:
        """Publish black in the camera's size, unless its size was known before."""
        if self._size is None:
            self._size = size
            self._publish(at)

    def publish_goal(self, goal: Goal, at: Header) -> None:
        """Publish a goal, or black where it has no picture.

        So a node that is just configured takes a previous node's goal away from whoever holds it.
        """
        self._goal = goal.panel.goal_image if goal.panel is not None and goal.active else None
        if self._goal is not None:
            self._size = self._goal.size
        elif self._size is None and goal.board.source is not None:
            self._size = goal.board.source.size
        self._publish(at)

    def follow(self, at: Header) -> None:
        """Publish the goal again: the camera's frame is new, or no longer fresh."""
        if self.follows and self._goal is not None:
            self._publish(at)

    def _publish(self, at: Header) -> None:
        frame = self._live_frame() if self.follows and self._goal is not None else None
        if frame is not None:
            at = header(frame.stamp, frame.frame_id)
        image = self._picture(frame)
        self._raw.publish(raw(image, at))
        encode = self._jpegs.message if image is self._goal else self._jpegs.message_once
        self._compressed.publish(encode(image, at))
        # Two views side by side are no camera's picture.
        info = None if self._form == "beside" else self._camera_info()
        self._info.publish(scaled(info, image.size, at))

    def _picture(self, frame: Frame | None) -> Image:
        goal = self._goal
        if goal is None or (self.follows and frame is None):
            return black(self._size or UNKNOWN_SIZE)
        live = None if frame is None else frame.image.resized(goal.size).pixels
        pixels = in_form(self._form, goal.pixels, live)
        return goal if pixels is goal.pixels else Image(pixels)
