"""A LeRobot robot of two joints that do not move, one still camera, and whatever cameras it is given.

It writes a line for every action to `log`: the time, what its cameras showed (mean colour), the action.
"""

import json
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lerobot.cameras.configs import CameraConfig
from lerobot.cameras.utils import make_cameras_from_configs
from lerobot.robots.config import RobotConfig
from lerobot.robots.robot import Robot

from support.act_policy import FRONT

JOINTS = ("shoulder.pos", "gripper.pos")


@RobotConfig.register_subclass("still")
@dataclass(kw_only=True)
class StillConfig(RobotConfig):
    log: str
    cameras: dict[str, CameraConfig] = field(default_factory=dict)


class Still(Robot):
    config_class = StillConfig
    name = "still"

    def __init__(self, config: StillConfig) -> None:
        super().__init__(config)
        self.cameras = make_cameras_from_configs(config.cameras)
        self.log = Path(config.log)
        self.shown: dict[str, list[float]] = {}

    @cached_property
    def observation_features(self) -> dict[str, Any]:
        cameras = {name: (c.height, c.width, 3) for name, c in self.cameras.items()}
        return {**dict.fromkeys(JOINTS, float), "front": FRONT.shape, **cameras}

    @cached_property
    def action_features(self) -> dict[str, Any]:
        return dict.fromkeys(JOINTS, float)

    @property
    def is_connected(self) -> bool:
        return all(camera.is_connected for camera in self.cameras.values())

    is_calibrated = True

    def connect(self, calibrate: bool = True) -> None:
        for camera in self.cameras.values():
            camera.connect()

    def calibrate(self) -> None: ...

    def configure(self) -> None: ...

    def get_observation(self) -> dict[str, Any]:
        pictures = {name: camera.read_latest() for name, camera in self.cameras.items()}
        self.shown = {name: picture.mean((0, 1)).tolist() for name, picture in pictures.items()}
        return {**dict.fromkeys(JOINTS, 0.5), "front": FRONT, **pictures}

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        line = {"time": time.time(), "shown": self.shown, "action": [float(action[j]) for j in JOINTS]}
        with self.log.open("a") as log:
            log.write(json.dumps(line) + "\n")
        return action

    def disconnect(self) -> None:
        for camera in self.cameras.values():
            camera.disconnect()
