"""The simulated tabletop as a LeRobot robot; models that ask it for the truth are served at `models_port`.

Its state and its actions are the fingertip's place (m), its yaw (rad) and the gripper from -1 to 1. It writes
a line for every action to `log`. An untrained policy gets nowhere: after every `patience` actions the table
makes the next sub-goal true.

Importing this also registers a step that notes the task that a policy reads, for its preprocessor, and a
teleoperator, whose actions are not counted.
"""

import json
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from lerobot.cameras.configs import CameraConfig
from lerobot.cameras.utils import make_cameras_from_configs
from lerobot.processor import ComplementaryDataProcessorStep, ProcessorStepRegistry
from lerobot.robots.config import RobotConfig
from lerobot.robots.robot import Robot
from lerobot.teleoperators.config import TeleoperatorConfig
from lerobot.teleoperators.teleoperator import Teleoperator

from goalreel.serving.settings import Models
from goalreel.tabletop.env import HOME_TIP, teleport
from goalreel_ros.tabletop.exact import CriticChat, PlannerChat, SimulatorEditor, World
from goalreel_ros.tabletop.simulator import serving

MOVES = ("x.pos", "y.pos", "z.pos", "yaw.pos", "gripper.pos")
SIZE = 128
HAND = 0.5
"""Where a person's hand holds the gripper."""


@ProcessorStepRegistry.register("note_task")
@dataclass
class NoteTask(ComplementaryDataProcessorStep):
    def complementary_data(self, complementary_data):
        with Path(os.environ["TASKS_READ"]).open("a") as log:
            log.write(json.dumps(complementary_data.get("task")) + "\n")
        return complementary_data

    def transform_features(self, features):
        return features


@RobotConfig.register_subclass("tabletop")
@dataclass(kw_only=True)
class TabletopRobotConfig(RobotConfig):
    log: str
    seed: int = 0
    models_port: int = 0
    patience: int = 5
    remote: bool = False
    """Its cameras are on another machine."""
    cameras: dict[str, CameraConfig] = field(default_factory=dict)


class TabletopRobot(Robot):
    config_class = TabletopRobotConfig
    name = "tabletop"

    def __init__(self, config: TabletopRobotConfig) -> None:
        super().__init__(config)
        self.config = config
        self.cameras = {} if config.remote else make_cameras_from_configs(config.cameras)
        self.log = Path(config.log)
        self.world: World | None = None
        self.acted = 0
        self.shown: dict[str, np.ndarray] = {}

    @cached_property
    def observation_features(self) -> dict[str, Any]:
        cameras = {name: (c.height, c.width, 3) for name, c in self.cameras.items()}
        return {**dict.fromkeys(MOVES, float), "front": (SIZE, SIZE, 3), **cameras}

    @cached_property
    def action_features(self) -> dict[str, Any]:
        return dict.fromkeys(MOVES, float)

    @property
    def is_connected(self) -> bool:
        return self.world is not None

    is_calibrated = True

    def connect(self, calibrate: bool = True) -> None:
        self.world = world = World(self.config.seed, SIZE)
        models = Models(planner=PlannerChat(world), critic=CriticChat(world), editor=SimulatorEditor(world))
        self.server = ExitStack()
        self.server.enter_context(serving(models, self.config.models_port))
        for camera in self.cameras.values():
            camera.connect()
        self._move(np.array([0.0, 0.0, 0.0, 0.0, 1.0]))

    def calibrate(self) -> None: ...

    def configure(self) -> None: ...

    def _move(self, step: np.ndarray) -> None:
        tick = self.world.tick(step, look=True)
        self.picture = tick.picture.pixels
        self.at = np.array([*tick.observation[7:11], step[4]])

    def get_observation(self) -> dict[str, Any]:
        self.shown = {name: camera.read_latest() for name, camera in self.cameras.items()}
        return {**dict(zip(MOVES, map(float, self.at), strict=True)), "front": self.picture, **self.shown}

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        target = np.array([action[name] for name in MOVES])
        self.acted += target[4] != HAND
        goals, now = self.world.episode.goals, self.world.now()
        missing = [goal for goal in goals if not now.holds(goal)]
        line = {"action": target.tolist(), "missing": len(missing)} | {
            name: picture.mean((0, 1)).tolist() for name, picture in self.shown.items()
        }
        with self.log.open("a") as log:
            log.write(json.dumps(line) + "\n")
        if missing and self.acted % self.config.patience == 0:
            self.world._do(lambda: teleport(self.world._real, missing[0]))
        self._move(np.array([*(target - self.at)[:4], target[4]]))
        return action

    def disconnect(self) -> None:
        for camera in self.cameras.values():
            camera.disconnect()
        self.server.close()
        self.world.close()
        self.world = None
        with self.log.open("a") as log:
            log.write('"let go"\n')


@TeleoperatorConfig.register_subclass("hand")
@dataclass(kw_only=True)
class HandConfig(TeleoperatorConfig): ...


class Hand(Teleoperator):
    """A person's hand, which holds the arm in one place."""

    config_class = HandConfig
    name = "hand"
    action_features = dict.fromkeys(MOVES, float)
    feedback_features = dict.fromkeys((), float)
    is_connected = is_calibrated = True

    def connect(self, calibrate: bool = True) -> None: ...

    def calibrate(self) -> None: ...

    def configure(self) -> None: ...

    def get_action(self) -> dict[str, Any]:
        return dict(zip(MOVES, (*HOME_TIP, 0.0, HAND), strict=True))

    def send_feedback(self, feedback: dict[str, Any]) -> None: ...

    def disconnect(self) -> None: ...
