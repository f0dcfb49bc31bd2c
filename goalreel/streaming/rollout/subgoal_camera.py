"""The sub-goal of a storyboard in this process, as a LeRobot camera.

lerobot makes a camera from its configuration's type, and looks for the class in a module of its name.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from lerobot.cameras.camera import Camera
from lerobot.cameras.configs import CameraConfig
from lerobot.utils.decorators import check_if_already_connected, check_if_not_connected
from numpy.typing import NDArray

from goalreel.datasets.writing.video import fit
from goalreel.streaming.rollout.goals import PresentGoal
from goalreel.subgoal_camera import SubGoalForm, in_form


@CameraConfig.register_subclass("goalreel_rollout")
@dataclass(kw_only=True)
class SubgoalCameraConfig(CameraConfig):
    """Not for a command line: `goals` lives in this process. `width` and `height` must be given."""

    goals: PresentGoal
    form: SubGoalForm


class SubgoalCamera(Camera):
    """Shows the present sub-goal in the policy's size, with black borders where the shape differs, exactly as
    `goalreel annotate` writes sub-goals into datasets. Black where there is none."""

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
        """Whether the robot connected it."""
        return self._connected

    @staticmethod
    def find_cameras() -> list[dict[str, Any]]:
        """There is nothing to be found."""
        return []

    @check_if_already_connected
    def connect(self, warmup: bool = True) -> None:
        """There is nothing to wait for.

        Raises:
            DeviceAlreadyConnectedError: connected before.
        """
        self._connected = True

    @check_if_not_connected
    def read_latest(self, max_age_ms: int = 500) -> NDArray[np.uint8]:
        """The sub-goal, (height, width, 3) RGB: always as it is now.

        Raises:
            DeviceNotConnectedError: not connected.
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
        """Let go.

        Raises:
            DeviceNotConnectedError: not connected.
        """
        self._connected = False
