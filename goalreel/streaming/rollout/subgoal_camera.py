"""The sub-goal of a storyboard in this process, as a LeRobot camera."""

from typing import Any

import numpy as np
from lerobot.cameras.camera import Camera
from lerobot.utils.decorators import check_if_already_connected, check_if_not_connected
from numpy.typing import NDArray

from goalreel.streaming.rollout.config_subgoal_camera import SubgoalCameraConfig
from goalreel.subgoal_camera import SubGoalForm, fit, in_form


class SubgoalCamera(Camera):
    """Shows the present sub-goal in the policy's size; black where there is none.

    Black borders fill up the shape, exactly as `goalreel annotate` writes sub-goals into datasets.
    """

    def __init__(self, config: SubgoalCameraConfig) -> None:
        super().__init__(config)
        assert config.width
        assert config.height
        self._goals, self._size = config.goals, (config.width, config.height)
        self._form: SubGoalForm = config.form
        self._connected = False

    def __str__(self) -> str:
        return "SubgoalCamera"

    @property
    def is_connected(self) -> bool:
        """Whether the robot has connected it."""
        return self._connected

    @staticmethod
    def find_cameras() -> list[dict[str, Any]]:
        """Give an empty list: there is no device to find."""
        return []

    @check_if_already_connected
    def connect(self, warmup: bool = True) -> None:
        """Mark the camera as connected; there is no device.

        Raises:
            DeviceAlreadyConnectedError: it is connected.
        """
        self._connected = True

    @check_if_not_connected
    def read_latest(self, max_age_ms: int = 500) -> NDArray[np.uint8]:
        """Give the present sub-goal, (height, width, 3) RGB.

        Raises:
            DeviceNotConnectedError: it is not connected.
        """
        picture = self._goals.picture
        if picture is None:
            return np.zeros((self._size[1], self._size[0], 3), np.uint8)
        return in_form(self._form, fit(picture.pixels, self._size)).copy()

    def read(self) -> NDArray[np.uint8]:
        """As `read_latest`."""
        return self.read_latest()

    def async_read(self, timeout_ms: float = 200) -> NDArray[np.uint8]:
        """As `read_latest`."""
        return self.read_latest()

    @check_if_not_connected
    def disconnect(self) -> None:
        """Mark the camera as not connected.

        Raises:
            DeviceNotConnectedError: it is not connected.
        """
        self._connected = False
