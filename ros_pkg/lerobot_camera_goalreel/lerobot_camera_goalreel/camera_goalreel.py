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
from .picture import show
from .subscriber import Subscriber

READ_TIMEOUT_MS = 10_000
"""As in lerobot's OpenCVCamera."""


class GoalreelCamera(Camera):
    """Shows the active sub-goal, scaled to the configured size with black borders where the shape differs,
    exactly as `goalreel annotate` writes sub-goals into datasets. Black where there is no goal picture, as
    there: before the first, between tasks, while paused, for a step in words only.

    The node makes the picture, in its `subgoal_form`: that of the dataset that the policy was trained on.

    A goal may stand for minutes, so a frame is as old as the time since its publisher's last sign of life;
    when the node is gone or hangs, reading fails instead of showing the policy a goal that nobody pursues.
    """

    def __init__(self, config: GoalreelCameraConfig) -> None:
        super().__init__(config)
        if importlib.util.find_spec("rclpy") is None:
            raise ImportError(
                "the goalreel camera needs rclpy in this environment; without it use the camera type zmq "
                "with `python -m goalreel_ros.zmq` on the ROS side"
            )
        self.config = config
        self._size = config.checked_size()
        self.color_mode = config.color_mode
        self._subscriber: Subscriber | None = None
        self._taken = (0, 0)
        self._shown: tuple[bytes, NDArray[np.uint8]] | None = None

    def __str__(self) -> str:
        return f"GoalreelCamera({self.config.topic})"

    @property
    def is_connected(self) -> bool:
        """Whether `connect` was called, not whether the node still lives: reading tells."""
        return self._subscriber is not None

    @staticmethod
    def find_cameras() -> list[dict[str, Any]]:
        """Not possible without waiting for the network; `ros2 topic list` shows the topics."""
        raise NotImplementedError("Camera detection is not implemented for goalreel cameras.")

    @check_if_already_connected
    def connect(self, warmup: bool = True) -> None:
        """Subscribe, and wait for the node; with `warmup` also a moment for the goal it latched.

        Raises:
            ConnectionError: nobody publishes the topic.
            DeviceAlreadyConnectedError: connected before.
        """
        subscriber = Subscriber(self.config.topic)
        if not subscriber.wait_for_publisher(self.config.timeout_s):
            subscriber.close()
            raise ConnectionError(
                f"Failed to open {self}: nobody publishes it with signs of life (after "
                f"{self.config.timeout_s:g} s). Is the goalreel node configured, and ROS_DOMAIN_ID the same?"
            )
        if warmup:
            subscriber.wait_for_message(self.config.warmup_s)
        self._subscriber = subscriber
        self._taken = (0, 0)

    @check_if_not_connected
    def read(self) -> NDArray[np.uint8]:
        """The next frame, RGB or BGR as configured, (height, width, 3).

        Raises:
            DeviceNotConnectedError: not connected.
            TimeoutError: the node is gone.
            RuntimeError: the goal image cannot be read.
        """
        self._taken = self._now()
        return self.async_read(READ_TIMEOUT_MS)

    @check_if_not_connected
    def async_read(self, timeout_ms: float = 200) -> NDArray[np.uint8]:
        """The newest frame not read before: a new goal at once, an unchanged one `fps` times a second.

        Raises:
            DeviceNotConnectedError: not connected.
            TimeoutError: no new frame within `timeout_ms`, or the node is gone.
            RuntimeError: the goal image cannot be read.
        """
        until = time.monotonic() + timeout_ms / 1000
        subscriber = self._connected
        while self._now() == self._taken or subscriber.absent > 0:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError(
                    f"Timed out waiting for frame from camera {self} after {timeout_ms} ms. "
                    f"Publisher there: {subscriber.absent == 0}."
                )
            subscriber.wait_for_change(min(left, self._until_tick()))
        self._taken = self._now()
        return self._frame()

    @check_if_not_connected
    def read_latest(self, max_age_ms: int = 500) -> NDArray[np.uint8]:
        """The present frame, at once.

        Raises:
            DeviceNotConnectedError: not connected.
            TimeoutError: the node has given no sign of life for more than `max_age_ms`, and a LEASE.
            RuntimeError: the goal image cannot be read.
        """
        age_ms = self._connected.absent * 1e3
        if age_ms > max_age_ms:
            raise TimeoutError(
                f"{self} latest frame is too old: {age_ms:.1f} ms (max allowed: {max_age_ms} ms): "
                "the goalreel node is gone or hangs."
            )
        return self._frame()

    def disconnect(self) -> None:
        """Let go of the topic.

        Raises:
            DeviceNotConnectedError: not connected.
        """
        self._connected.close()
        self._subscriber = None

    @property
    def _connected(self) -> Subscriber:
        if self._subscriber is None:
            raise DeviceNotConnectedError(f"{self} not connected.")
        return self._subscriber

    @property
    def _rate(self) -> float:
        """Frames a second, as lerobot's `fps` says now."""
        return self.fps or self.config.checked_rate()

    def _now(self) -> tuple[int, int]:
        """Which goal, and which frame of it: differs from `_taken` when there is something new."""
        return self._connected.count, int(time.monotonic() * self._rate)

    def _until_tick(self) -> float:
        return 1 / self._rate - time.monotonic() % (1 / self._rate)

    def _frame(self) -> NDArray[np.uint8]:
        data = self._connected.data
        if self._shown is None or self._shown[0] is not data:
            bgr = show(data, self._size)
            self._shown = data, bgr if self.color_mode == ColorMode.BGR else bgr[:, :, ::-1]
        return self._shown[1].copy()
