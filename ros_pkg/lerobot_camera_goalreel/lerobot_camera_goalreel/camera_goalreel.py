# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""The goal image on a ROS 2 topic as a LeRobot camera."""

import importlib.util
import logging
import time
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from lerobot.cameras.camera import Camera
from lerobot.cameras.configs import CameraConfig, ColorMode
from lerobot.utils.decorators import check_if_already_connected
from lerobot.utils.errors import DeviceNotConnectedError
from numpy.typing import NDArray

LOG = logging.getLogger(__name__)
IMAGE = "/image/compressed"


@CameraConfig.register_subclass("goalreel")
@dataclass(kw_only=True)
class GoalreelCameraConfig(CameraConfig):
    """Settings of a GoalreelCamera. `width` and `height` are those that the policy was trained with.

    Raises:
        ValueError: a value is not valid.
    """

    topic: str = "/goalreel/subgoal/image/compressed"
    fps: int | None = 30
    color_mode: ColorMode = ColorMode.RGB
    timeout_s: float = 5.0
    """Seconds that `connect` waits for the node."""
    warmup_s: float = 1.0
    """Seconds that `connect` waits for a first goal; without one the picture is black."""
    require_verified: bool = False
    """Show no goal image that is not verified: black in its place."""
    refuse_degraded: bool = False
    """Show no goal of a plan that lost a model: black in its place."""

    def __post_init__(self) -> None:
        self.color_mode = ColorMode(self.color_mode)
        if min(self.width or 0, self.height or 0) <= 0:
            raise ValueError(f"`width` and `height` must be given, got {self.width}x{self.height}")
        if self.goal_topic == self.topic:
            raise ValueError(
                f"`topic` cannot be empty; `require_verified` and `refuse_degraded` need one in {IMAGE}: "
                f"got {self.topic}"
            )
        if min(self.timeout_s, self.warmup_s) < 0:
            raise ValueError(
                f"`timeout_s` and `warmup_s` cannot be negative: got {self.timeout_s}, {self.warmup_s}"
            )

    @property
    def goal_topic(self) -> str:
        """The topic of the whole sub-goal, where its status counts; empty where any goal is shown."""
        return self.topic.removesuffix(IMAGE) if self.require_verified or self.refuse_degraded else ""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, which are optional in lerobot's own class."""
        assert self.width
        assert self.height
        return self.width, self.height


class Subscriber:
    """Follows the goal image, and the goal itself where its status counts, in a thread until `close`.

    Raises:
        ImportError: the settings refuse goals, and goalreel_interfaces is not installed.
        RuntimeError: the middleware has no liveliness events, and there is no heartbeat to go by.
    """

    def __init__(self, config: GoalreelCameraConfig) -> None:
        from sensor_msgs.msg import CompressedImage

        from goalreel_ros.liveliness import LiveSubscription
        from goalreel_ros.spin import BackgroundNode

        self.data = b""
        """The JPEG to be shown; empty where there is no picture, and where its goal is refused."""
        self.count = 0
        """Number of changes so far: messages, and losses of the publisher."""
        self._config = config
        self._picture: Any = None
        self._goal: Any = None
        self._refused: Any = None
        """Stamp of the newest goal that was refused."""
        self._background = BackgroundNode("lerobot_camera_goalreel")
        node = self._background.node
        try:
            self.topic = LiveSubscription(
                node, CompressedImage, config.topic, self._on_picture, self._forget_picture
            )
            if config.goal_topic:
                from goalreel_interfaces.msg import StoryboardStep, SubGoal

                self._verified = StoryboardStep.IMAGE_VERIFIED
                LiveSubscription(node, SubGoal, config.goal_topic, self._on_goal, self._forget_goal)
        except BaseException:
            self._background.close()
            raise
        self.changed = self.topic.changed
        """Notified of a message, and of a publisher that comes or goes."""
        self._background.start()

    @property
    def absent(self) -> float:
        """Seconds for which there has been no live publisher, the lease included; 0 while there is one."""
        return 0.0 if self.topic.alive else max(time.monotonic() - self.topic.last_sign, 1e-9)

    def close(self) -> None:
        """Stop spinning and destroy the node."""
        self._background.close()

    # -- in the executor's thread

    def _on_picture(self, message: Any) -> None:
        self._picture = message
        self._show()

    def _on_goal(self, message: Any) -> None:
        self._goal = message
        if self._picture is not None and self._picture.header.stamp != message.header.stamp:
            self._picture = None  # of the goal before
        if refusal := self._refusal(message):
            self._refused = message.header.stamp
            LOG.warning("the goal %r is not shown: %s", message.name, refusal)
        elif self._refused == message.header.stamp:
            self._refused = None  # sent again, as the models are well
        self._show()

    def _forget_picture(self) -> None:
        self._picture = None
        self._show()

    def _forget_goal(self) -> None:
        self._goal = None
        self._show()

    def _show(self) -> None:
        data = b"" if self._picture is None or not self._fits() else bytes(self._picture.data)
        with self.changed:
            self.data = data
            self.count += 1
            self.changed.notify_all()

    def _fits(self) -> bool:
        """Tell if the picture is that of a goal that is not refused. The two come in no fixed order."""
        if not self._config.goal_topic:
            return True
        # A picture that follows the camera has the stamp of its frame, any other one that of its goal.
        is_late = self._picture.header.stamp == self._refused
        return self._goal is not None and self._goal.active and not self._refusal(self._goal) and not is_late

    def _refusal(self, goal: Any) -> str:
        """Say why the settings refuse the goal, or nothing."""
        if not goal.active:
            return ""
        if self._config.require_verified and goal.image_status != self._verified:
            return "no examined critic accepted its picture"
        return "; ".join(goal.degraded) if self._config.refuse_degraded else ""


class GoalreelCamera(Camera):
    """Shows the active sub-goal, scaled to the configured size, with black borders where the shape differs.

    The pictures are exactly those that `goalreel annotate` writes into datasets, in the node's
    `subgoal_form`. They are black without a goal picture: before the first goal, between tasks, while paused,
    and for a step in words only.

    A goal may stand for minutes, so a frame's age is the time since its publisher was last alive. When the
    node is gone or hangs, reading fails, so that the policy does not follow an outdated goal, and the goal is
    forgotten: whoever comes after it starts with black.
    """

    def __init__(self, config: GoalreelCameraConfig) -> None:
        super().__init__(config)
        for package in ("rclpy", "goalreel_ros"):
            if importlib.util.find_spec(package) is None:
                raise ImportError(
                    f"the goalreel camera needs {package} here; `goalreel rollout` needs no ROS"
                )
        self.config = config
        self._size = config.size
        self.color_mode = config.color_mode
        self._subscriber: Subscriber | None = None
        self._cache: tuple[bytes, NDArray[np.uint8]] | None = None

    def __str__(self) -> str:
        return f"GoalreelCamera({self.config.topic})"

    @property
    def is_connected(self) -> bool:
        """True once `connect` was called. Only reading shows if the node is alive."""
        return self._subscriber is not None

    @staticmethod
    def find_cameras() -> list[dict[str, Any]]:
        """Not supported, since it would have to wait for the network; see `ros2 topic list`.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Camera detection is not implemented for goalreel cameras.")

    @check_if_already_connected
    def connect(self, warmup: bool = True) -> None:
        """Subscribe and wait for the node; with `warmup` also for its latched goal, at most `warmup_s`.

        Raises:
            ConnectionError: nobody publishes the topic.
            DeviceAlreadyConnectedError: it is connected.
            ImportError: the settings refuse goals, and goalreel_interfaces is not installed.
            RuntimeError: the middleware does not tell whether the node is alive, and there is no heartbeat.
        """
        subscriber = Subscriber(self.config)
        with subscriber.changed:
            is_there = subscriber.changed.wait_for(lambda: subscriber.topic.alive, self.config.timeout_s)
            if is_there and warmup:
                subscriber.changed.wait_for(lambda: subscriber.count > 0, self.config.warmup_s)
        if not is_there:
            subscriber.close()
            raise ConnectionError(
                f"Failed to open {self}: nobody publishes it with signs of life (after "
                f"{self.config.timeout_s:g} s). Is the goalreel node configured, and ROS_DOMAIN_ID the same?"
            )
        self._subscriber = subscriber

    def read_latest(self, max_age_ms: int = 500) -> NDArray[np.uint8]:
        """Give the present frame at once.

        Raises:
            DeviceNotConnectedError: it is not connected.
            TimeoutError: the node has not been alive for more than `max_age_ms`, LEASE included.
            RuntimeError: the goal image cannot be read.
        """
        subscriber = self._require_subscriber()
        age_ms = subscriber.absent * 1e3
        if age_ms > max_age_ms:
            raise TimeoutError(
                f"{self} latest frame is too old: {age_ms:.1f} ms (max allowed: {max_age_ms} ms): "
                "the goalreel node is gone or hangs."
            )
        data = subscriber.data
        if self._cache is None or self._cache[0] is not data:
            bgr = decode(data, self._size)
            self._cache = data, bgr if self.color_mode == ColorMode.BGR else bgr[:, :, ::-1]
        return self._cache[1].copy()

    def read(self) -> NDArray[np.uint8]:
        """Do the same as `read_latest`: a goal stands, and nobody waits for a newer picture of it."""
        return self.read_latest()

    def async_read(self, timeout_ms: float = 200) -> NDArray[np.uint8]:
        """Do the same as `read_latest`."""
        return self.read_latest()

    def disconnect(self) -> None:
        """Unsubscribe.

        Raises:
            DeviceNotConnectedError: it is not connected.
        """
        self._require_subscriber().close()
        self._subscriber = None

    def _require_subscriber(self) -> Subscriber:
        if self._subscriber is None:
            raise DeviceNotConnectedError(f"{self} is not connected. Run `.connect()` first.")
        return self._subscriber


def decode(data: bytes, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Decode to BGR (height, width, 3), where `size` = (width, height); black without data.

    Raises:
        RuntimeError: the data is no picture.
    """
    if not data:
        return np.zeros((size[1], size[0], 3), np.uint8)
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if picture is None:
        raise RuntimeError(f"failed to decode the goal image ({len(data)} bytes).")
    return fit(np.asarray(picture, np.uint8), size)


def fit(picture: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Scale to (width, height), with black borders: the same bits as `goalreel.subgoal_camera.fit`.

    goalreel itself need not be installed where the policy runs.
    """
    height, width = picture.shape[:2]
    if (width, height) == size:
        return picture
    scale = min(size[0] / width, size[1] / height)
    inner = max(round(width * scale), 1), max(round(height * scale), 1)
    x, y = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
    canvas = np.zeros((size[1], size[0], 3), np.uint8)
    interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    canvas[y : y + inner[1], x : x + inner[0]] = cv2.resize(picture, inner, interpolation=interpolation)
    return canvas
