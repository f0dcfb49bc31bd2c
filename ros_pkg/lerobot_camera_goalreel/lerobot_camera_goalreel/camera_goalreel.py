"""The goal image on a ROS 2 topic as a LeRobot camera."""

import importlib.util
import time
from typing import Any

import numpy as np
from lerobot.cameras.camera import Camera
from lerobot.cameras.configs import ColorMode
from lerobot.utils.decorators import check_if_already_connected, check_if_not_connected
from lerobot.utils.errors import DeviceNotConnectedError
from numpy.typing import NDArray

from .config_goalreel import GoalreelCameraConfig
from .picture import decode
from .subscriber import Subscriber

READ_TIMEOUT_MS = 10_000
"""As in lerobot's OpenCVCamera."""


class GoalreelCamera(Camera):
    """Shows the active sub-goal, scaled to the configured size, with black borders where the shape differs.

    The pictures are exactly those that `goalreel annotate` writes into datasets. They are black without a
    goal picture: before the first goal, between tasks, while paused, and for a step in words only. The node
    makes them in its `subgoal_form`, which should be that of the policy's training dataset.

    A goal may stand for minutes, so a frame's age is the time since its publisher was last alive. When the
    node is gone or hangs, reading fails, so that the policy does not follow an outdated goal. The goal of a
    node that is gone is forgotten: whoever comes after it starts with black.
    """

    def __init__(self, config: GoalreelCameraConfig) -> None:
        super().__init__(config)
        for package in ("rclpy", "goalreel_ros"):
            if importlib.util.find_spec(package) is None:
                raise ImportError(
                    f"the goalreel camera needs {package} in this environment; without it use the camera "
                    "type zmq with `ros2 run goalreel_ros zmq` on the ROS side"
                )
        self.config = config
        self._size = config.checked_size()
        self.color_mode = config.color_mode
        self._subscriber: Subscriber | None = None
        self._last_read = (0, 0)
        self._cache: tuple[bytes, NDArray[np.uint8]] | None = None

    def __str__(self) -> str:
        return f"GoalreelCamera({self.config.topic})"

    @property
    def is_connected(self) -> bool:
        """Whether `connect` was called. Whether the node is alive shows in reading."""
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
        if not subscriber.wait_for_publisher(self.config.timeout_s):
            subscriber.close()
            raise ConnectionError(
                f"Failed to open {self}: nobody publishes it with signs of life (after "
                f"{self.config.timeout_s:g} s). Is the goalreel node configured, and ROS_DOMAIN_ID the same?"
            )
        if warmup:
            subscriber.wait_for_message(self.config.warmup_s)
        self._subscriber = subscriber
        self._last_read = (0, 0)

    @check_if_not_connected
    def read(self) -> NDArray[np.uint8]:
        """Wait for the next frame, RGB or BGR as configured, (height, width, 3).

        Raises:
            DeviceNotConnectedError: it is not connected.
            TimeoutError: the node is gone.
            RuntimeError: the goal image cannot be read.
        """
        self._last_read = self._frame_number()
        return self.async_read(READ_TIMEOUT_MS)

    @check_if_not_connected
    def async_read(self, timeout_ms: float = 200) -> NDArray[np.uint8]:
        """Wait for an unread frame: that of a new goal comes at once, an unchanged one `fps` times a second.

        Raises:
            DeviceNotConnectedError: it is not connected.
            TimeoutError: there is no new frame within `timeout_ms`, or the node is gone.
            RuntimeError: the goal image cannot be read.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        subscriber = self._require_subscriber()
        while self._frame_number() == self._last_read or subscriber.absent > 0:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError(
                    f"Timed out waiting for frame from camera {self} after {timeout_ms} ms. "
                    f"Publisher there: {subscriber.absent == 0}."
                )
            subscriber.wait_for_change(min(remaining, self._until_next_frame()))
        self._last_read = self._frame_number()
        return self._frame()

    @check_if_not_connected
    def read_latest(self, max_age_ms: int = 500) -> NDArray[np.uint8]:
        """Give the present frame at once.

        Raises:
            DeviceNotConnectedError: it is not connected.
            TimeoutError: the node has not been alive for more than `max_age_ms`, LEASE included.
            RuntimeError: the goal image cannot be read.
        """
        age_ms = self._require_subscriber().absent * 1e3
        if age_ms > max_age_ms:
            raise TimeoutError(
                f"{self} latest frame is too old: {age_ms:.1f} ms (max allowed: {max_age_ms} ms): "
                "the goalreel node is gone or hangs."
            )
        return self._frame()

    def disconnect(self) -> None:
        """Unsubscribe.

        Raises:
            DeviceNotConnectedError: it is not connected.
        """
        self._require_subscriber().close()
        self._subscriber = None

    def _require_subscriber(self) -> Subscriber:
        if self._subscriber is None:
            raise DeviceNotConnectedError(f"{self} not connected.")
        return self._subscriber

    @property
    def _rate(self) -> float:
        """Frames per second, from lerobot's present `fps`."""
        return self.fps or self.config.checked_rate()

    def _frame_number(self) -> tuple[int, int]:
        """The numbers of the goal and of its frame; different from `_last_read` if there is a new one."""
        return self._require_subscriber().count, int(time.monotonic() * self._rate)

    def _until_next_frame(self) -> float:
        return 1 / self._rate - time.monotonic() % (1 / self._rate)

    def _frame(self) -> NDArray[np.uint8]:
        data = self._require_subscriber().data
        if self._cache is None or self._cache[0] is not data:
            bgr = decode(data, self._size)
            self._cache = data, bgr if self.color_mode == ColorMode.BGR else bgr[:, :, ::-1]
        return self._cache[1].copy()
