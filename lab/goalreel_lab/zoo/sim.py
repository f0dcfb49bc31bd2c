"""Robots of robosuite at work by a scripted expert: pictures, all numbers, and the simulator's truth."""

import logging
import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import cv2
import numpy as np

if sys.platform == "linux" and not os.environ.get("DISPLAY"):
    os.environ.setdefault("MUJOCO_GL", "egl")  # read once, when mujoco is imported

# isort: split
import mujoco
import robosuite
from robosuite.controllers import load_composite_controller_config
from robosuite.environments.manipulation.lift import Lift
from robosuite.environments.manipulation.stack import Stack

from goalreel_lab.zoo.episode import CAMERAS, EVERY, HZ, Numbers, SimulatedEpisode
from goalreel_lab.zoo.tasks import ROBOTS, TASKS

logging.getLogger("robosuite_logs").setLevel(logging.ERROR)

_FASTEST = 0.25
"""Share of the controller's greatest step, 5 cm, that the expert asks for: at most 0.2 m/s."""
_NEAR = 0.008
"""Metres from a target at which the hand has arrived."""
_TRIES = 3
"""Starts for each episode that is wanted."""
_SIDES = ("left_finger", "right_finger")
_BUTTON = """<body name="button" pos="0.03 0.15 0.85">
<joint name="button_joint" type="slide" axis="0 0 1" range="-0.03 0" limited="true" stiffness="60"
damping="6"/>
<inertial pos="0 0 0" mass="0.05" diaginertia="0.0001 0.0001 0.0001"/>
<geom name="button" group="1" type="cylinder" size="0.035 0.02" mass="0.05" rgba="0.9 0.1 0.1 1"/></body>"""


class Button(Lift):
    """The table of robosuite's `Lift` with a button that a spring holds up."""

    def _load_model(self) -> None:
        super()._load_model()
        self.model.worldbody.append(ET.fromstring(_BUTTON))

    def _check_success(self) -> bool:
        return float(self.sim.data.get_joint_qpos("button_joint")) < -0.01


class Beside(Stack):
    """The two cubes of robosuite's `Stack`, of which one is put beside the other."""

    def _check_success(self) -> bool:
        first, second = (self.sim.data.get_body_xpos(name) for name in ("cubeA_main", "cubeB_main"))
        near = 0.05 < np.linalg.norm(first[:2] - second[:2]) < 0.16
        return bool(near and abs(first[2] - second[2]) < 0.02)


class Expert:
    """A robot and a task in simulation; each run begins elsewhere."""

    def __init__(self, robot: str, task: str, size: int) -> None:
        self._robot, self._task = ROBOTS[robot], TASKS[task]
        self._env: Any = robosuite.make(
            self._task.env,
            robots=robot,
            gripper_types=self._robot.gripper,
            controller_configs=load_composite_controller_config(robot=robot),
            has_renderer=False,
            has_offscreen_renderer=False,
            use_camera_obs=False,
            control_freq=HZ,
            horizon=10**6,
            ignore_done=True,
            hard_reset=False,
            seed=0,
            **({"use_latch": False} if task == "door" else {}),
        )
        (arm,) = self._env.robots[0].arms
        self._gripper = self._env.robots[0].gripper[arm]
        self._model, self._data = self._env.sim.model._model, self._env.sim.data._data
        self._model.vis.quality.shadowsize = self._model.vis.quality.offsamples = 0
        self._renderer: Any = mujoco.Renderer(self._model, size, size)
        visible: Any = mujoco.MjvOption()
        visible.geomgroup[:] = [0, 1, 0, 0, 0, 0]
        self._visible = visible
        names = [self._model.geom(g).name for g in range(self._model.ngeom)]
        self._geoms = [name for name in names if name.startswith(self._task.geoms)]
        self._frames: list[dict[str, Any]] = []
        self._pictures: dict[str, list[bytes]] = {}
        self._grip = -1.0

    def run(self, starts_closed: bool) -> SimulatedEpisode | None:
        """Record the expert; None where it fails."""
        self._observation = self._env.reset()
        self._frames, self._pictures = [], {camera: [] for camera in CAMERAS}
        self._turn_things()
        self._hold(1.5 if starts_closed else 0.2, 1.0 if starts_closed else -1.0, record=False)
        self._middle = self._place + _up(0.08)
        self._hold(0.4, self._grip)
        self._grip = -1.0
        {"Door": self._door, "Button": self._press}.get(self._task.env, self._carry)()
        done = [frame["success"] for frame in self._frames]
        if not (any(done) if self._task.env == "Button" else self._env._check_success()):
            return None
        arrays = {name: np.array([frame[name] for frame in self._frames]) for name in self._frames[0]}
        return SimulatedEpisode(**arrays, pictures=self._pictures)

    def close(self) -> None:
        """Free the simulator."""
        self._renderer.close()
        self._env.close()

    def _turn_things(self) -> None:
        """Turn free things as the fingers close."""
        across = self._data.site(self._gripper.important_sites["grip_site"]).xmat.reshape(3, 3)[:, 0]
        yaw = float(np.arctan2(across[1], across[0]))
        turn = [np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)]
        for joint in range(self._model.njnt):
            if self._model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
                start = self._model.jnt_qposadr[joint]
                self._data.qpos[start + 3 : start + 7] = turn
        self._env.sim.forward()

    def _carry(self) -> None:
        place = self._place + _up(self._robot.lower)
        self._go(place + _up(0.12))
        self._go(place)
        self._hold(3.0 if self._robot.slow else 1.0, 1.0)
        self._go(self._eef + _up(0.15))
        if self._task.env == "Lift":
            return self._hold(0.5, 1.0)
        other = np.array(self._data.body("cubeB_main").xpos)
        aside = (
            (0, 0, 0.045) if self._task.env == "Stack" else (0, np.sign(self._place[1] - other[1]) * 0.1, 0)
        )
        goal = other + aside + self._eef - self._place
        self._go(np.array([*goal[:2], max(goal[2] + 0.1, self._eef[2])]))
        self._go(goal)
        self._hold(1.5 if self._robot.slow else 0.8, -1.0)
        return self._go(self._eef + _up(0.12))

    def _door(self) -> None:
        handle = np.array(self._data.site_xpos[self._env.door_handle_site_id])
        self._go(handle + _up(0.1))
        self._go(handle)
        self._hold(3.0 if self._robot.slow else 1.5, 1.0)
        self._go(self._eef + np.array([-0.05, 0.2, 0]))
        self._hold(1.0, -1.0)
        self._go(self._eef + np.array([0, 0.05, 0.1]), limit=2)

    def _press(self) -> None:
        above = self._place + _up(0.12)
        self._go(above)
        self._hold(3.0 if self._robot.slow else 0.8, 1.0)
        self._go(self._place - _up(0.03), limit=2)
        self._go(above)

    @property
    def _eef(self) -> Numbers:
        return np.array(self._observation["robot0_eef_pos"])

    @property
    def _place(self) -> Numbers:
        return np.array(self._data.body(self._task.body).xpos)

    def _go(self, target: Numbers, limit: float = 3.5) -> None:
        for _ in range(int(limit * HZ)):
            way = target - self._eef
            if np.linalg.norm(way) < _NEAR:
                return
            self._tick(20 * way)

    def _hold(self, seconds: float, grip: float, record: bool = True) -> None:
        self._grip = grip
        for _ in range(int(seconds * HZ)):
            self._tick(np.zeros(3), record)

    def _tick(self, way: Numbers, record: bool = True) -> None:
        way = way * min(1.0, _FASTEST / max(float(np.linalg.norm(way)), 1e-9))
        action = np.zeros(self._env.action_dim)
        action[:3], action[6:] = way, self._grip
        if record:
            self._record(way)
        self._observation, *_ = self._env.step(action)

    def _record(self, way: Numbers) -> None:
        state, geoms = self._observation, self._gripper.important_geoms
        sides = [self._env.check_contact(geoms[side], self._geoms) for side in _SIDES]
        pads = [
            np.mean([self._data.geom(name).xpos for name in geoms[f"{side}pad"]], axis=0) for side in _SIDES
        ]
        self._frames.append(
            {
                "success": bool(self._env._check_success()),
                "eef": self._eef,
                "quaternion": np.array(state["robot0_eef_quat"]),
                "joints": np.array(state["robot0_joint_pos"]),
                "torques": self._data.qfrc_actuator[self._env.robots[0]._ref_joint_vel_indexes].copy(),
                "fingers": np.array(state["robot0_gripper_qpos"]),
                "width": float(np.linalg.norm(pads[0] - pads[1])),
                "command": self._grip,
                "target": self._eef + 0.05 * way,
                "touched": any(sides) or bool(self._env.check_contact(self._gripper, self._geoms)),
                "held": all(sides),
                "pose": np.array(self._data.joint(self._task.joint).qpos[:3]),
            }
        )
        if len(self._frames) % EVERY == 1:
            self._look()

    def _look(self) -> None:
        moment = len(self._frames) / HZ
        views: dict[str, Any] = {
            "front": self._camera(0.0),
            "side": self._camera(70.0),
            "wrist": "robot0_eye_in_hand",
            "moving": self._camera(30 + 25 * np.sin(moment)),
        }
        for name, camera in views.items():
            self._renderer.update_scene(self._data, camera, self._visible)
            self._renderer.scene.flags[:] = 0  # neither shadows nor reflections
            picture = cv2.cvtColor(self._renderer.render(), cv2.COLOR_RGB2BGR)
            _, file = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 90])
            self._pictures[name].append(file.tobytes())

    def _camera(self, azimuth: float) -> mujoco.MjvCamera:
        camera: Any = mujoco.MjvCamera()
        camera.lookat[:] = self._middle
        camera.distance, camera.elevation, camera.azimuth = 0.8, -25, azimuth + 180
        return camera


def _up(height: float) -> Numbers:
    return np.array([0, 0, height])


def record(robot: str, task: str, starts_closed: bool, count: int, folder: Path, size: int) -> None:
    """Simulate `count` episodes into the new folder `folder`.

    Raises:
        RuntimeError: the expert fails from most of its starts.
    """
    partial = folder.with_name(f"part-{folder.name}")
    partial.mkdir(parents=True, exist_ok=True)
    expert, done = Expert(robot, task, size), 0
    for _ in range(_TRIES * count):
        episode = expert.run(starts_closed)
        if episode is not None:
            episode.save(partial / f"{done}.npz")
            done += 1
        if done == count:
            break
    expert.close()
    if done < count:
        raise RuntimeError(f"{robot}, {task}: the scripted expert fails")
    partial.rename(folder)
