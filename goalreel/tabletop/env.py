"""The tabletop in physics: state, control step, predicates and pictures.

An action is (5,) = dx, dy, dz (m) and dyaw (rad) of the commanded fingertip in the world frame, and the
gripper from -1 (closed) to +1 (open), at `CONTROL_HZ`.
"""

import math
import os
import sys
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

if sys.platform == "linux" and not os.environ.get("DISPLAY"):
    os.environ.setdefault("MUJOCO_GL", "egl")  # read once, when mujoco is imported

import mujoco

from goalreel.tabletop.mjcf import CAMERAS, build_xml
from goalreel.tabletop.scene import Floats, SceneLayout, SubGoal, TabletopScene, find_spot, shows

CONTROL_HZ = 10
STATE_NAMES = (*(f"joint{i}" for i in range(1, 8)), "x", "y", "z", "yaw", "gripper")
"""Joint angles (rad), measured fingertip (m), commanded yaw (rad), gap between the fingers (m)."""
REACH = (np.array([0.25, -0.40, 0.008]), np.array([0.76, 0.40, 0.50]))
"""The lowest and the highest x, y and z that the fingertip is sent to (m)."""
ACTION_NAMES = ("dx", "dy", "dz", "dyaw", "gripper")
STILL = 0.05
"""A block faster than this, in m/s or rad/s, is not still."""
PHYSICS = mujoco.mjtState.mjSTATE_INTEGRATION


@dataclass(frozen=True)
class TabletopState:
    """A snapshot that `set_state` continues from exactly: the physics and the arm's last command."""

    physics: Floats
    joints: Floats
    tip: Floats
    yaw: float
    grip: float


class Tabletop:
    """A scene with its arm in MuJoCo: step it, ask what holds, take its picture.

    >>> from goalreel.tabletop.grammar import sample_episode
    >>> episode = sample_episode(0)
    >>> with Tabletop(episode.scene) as env:
    ...     picture = env.render("front", size=128)
    ...     reached = env.holds(episode.goals[0])
    >>> picture.shape, reached
    ((128, 128, 3), False)
    """

    def __init__(self, scene: TabletopScene) -> None:
        self.scene = scene
        self.model = mujoco.MjModel.from_xml_string(build_xml(scene))
        self.data = mujoco.MjData(self.model)
        self.blocks = tuple(b.name for b in scene.blocks)
        self.bowls = tuple(b.name for b in scene.bowls)
        self._arm = Arm(self.model)
        self._renderer: mujoco.Renderer | None = None
        self._substeps = round(1 / CONTROL_HZ / self.model.opt.timestep)
        self._pads = {self.model.geom(f"finger_{side}").id for side in ("left", "right")}
        self.reset()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self) -> None:
        """Put objects where the scene has them and the arm, open, at home; all come to rest."""
        mujoco.mj_resetData(self.model, self.data)
        self.home()
        self.settle(0.2)

    def home(self) -> None:
        """Put the arm, empty and open, at its home pose at once."""
        self.tip, self.yaw, self.grip = self._arm.home_tip.copy(), 0.0, 1.0
        self.joints = self._arm.home_joints.copy()
        self.data.qpos[:9] = [*self.joints, 0.04, 0.04]
        self.data.qvel[:9] = 0
        mujoco.mj_forward(self.model, self.data)

    def settle(self, seconds: float) -> None:
        """Let physics run while the arm holds still."""
        for _ in range(round(seconds / self.model.opt.timestep)):
            self._substep(self.joints)
        mujoco.mj_forward(self.model, self.data)

    def get_state(self) -> TabletopState:
        physics = np.empty(mujoco.mj_stateSize(self.model, PHYSICS))
        mujoco.mj_getState(self.model, self.data, physics, PHYSICS)
        return TabletopState(physics, self.joints.copy(), self.tip.copy(), self.yaw, self.grip)

    def set_state(self, state: TabletopState) -> None:
        """Continue from a snapshot of an environment with the same scene."""
        mujoco.mj_setState(self.model, self.data, state.physics, PHYSICS)
        mujoco.mj_forward(self.model, self.data)
        self.joints, self.tip = state.joints.copy(), state.tip.copy()
        self.yaw, self.grip = state.yaw, state.grip

    def observation(self) -> NDArray[np.float32]:
        """Read the robot's own state, (12,), named by STATE_NAMES."""
        q = self.data.qpos
        return np.array([*q[:7], *self._arm.tip(self.data), self.yaw, q[7] + q[8]], np.float32)

    def step(self, action: NDArray[np.floating]) -> NDArray[np.float32]:
        """Carry out one action for 1 / CONTROL_HZ seconds and give the observation after it."""
        self.tip = np.clip(np.asarray(self.tip + action[:3], np.float64), *REACH)
        self.yaw = float(np.clip(self.yaw + action[3], -1.7, 1.7))
        self.grip = float(np.clip(action[4], -1, 1))
        joints_before = self.joints
        self.joints = self._arm.solve(self.data, joints_before, self.tip, self.yaw)
        for i in range(1, self._substeps + 1):
            self._substep(joints_before + (self.joints - joints_before) * i / self._substeps)
        # mj_step leaves positions and contacts one substep behind: bring them up to the state just reached.
        mujoco.mj_forward(self.model, self.data)
        return self.observation()

    def _substep(self, joints: Floats) -> None:
        self.data.ctrl[:7] = joints
        self.data.ctrl[7:9] = 0.02 * (self.grip + 1)
        mujoco.mj_step(self.model, self.data)

    @property
    def time_s(self) -> float:
        """The simulated time since the last reset."""
        return float(self.data.time)  # pyrefly: ignore[missing-attribute]

    def layout(self) -> SceneLayout:
        """Give the position of every block and bowl."""
        return {name: self.data.body(name).xpos.copy() for name in (*self.blocks, *self.bowls)}

    def place(self, block: str, position: Floats, yaw: float = 0.0) -> None:
        """Set a block down at rest, upright, with its centre at `position` (3,)."""
        joint = self.data.joint(block)
        joint.qpos[:] = [*position, math.cos(yaw / 2), 0, 0, math.sin(yaw / 2)]
        joint.qvel[:] = 0
        mujoco.mj_forward(self.model, self.data)

    def block_yaw(self, block: str) -> float:
        """Compute a block's turn about z modulo its symmetry, in (-pi/4, pi/4]."""
        turn = self.data.body(block).xmat.reshape(3, 3)
        return (math.atan2(turn[1, 0], turn[0, 0]) + math.pi / 4) % (math.pi / 2) - math.pi / 4

    def grasped(self, block: str) -> bool:
        """Tell whether both fingers touch the block."""
        geom = self.model.geom(block).id
        return {pad for pair in self._contacts() if geom in pair for pad in pair & self._pads} == self._pads

    def touched(self) -> tuple[str, ...]:
        """Name the blocks that a finger touches."""
        near = set().union(*(pair for pair in self._contacts() if pair & self._pads))
        return tuple(block for block in self.blocks if self.model.geom(block).id in near)

    def _contacts(self) -> list[set[int]]:
        return [{int(a), int(b)} for a, b in self.data.contact.geom[: self.data.ncon]]

    def still(self, block: str) -> bool:
        return bool(np.abs(self.data.joint(block).qvel).max() < STILL)

    def holds(self, goal: SubGoal) -> bool:
        """Tell whether the sub-goal is true now: its geometry is right and the hand has let go."""
        return shows(self.layout(), goal) and not self.grasped(goal.object)

    def render(self, camera: str = "front", size: int = 128) -> NDArray[np.uint8]:
        """Take the picture of a camera (one of `mjcf.CAMERAS`), (size, size, 3) RGB.

        Raises:
            ValueError: no such camera.
        """
        if camera not in CAMERAS:
            raise ValueError(f"no camera {camera!r}: choose from {', '.join(CAMERAS)}")
        if self._renderer is None or self._renderer.width != size:
            self.close()
            self._renderer = mujoco.Renderer(self.model, size, size)
        self._renderer.update_scene(self.data, camera=camera)
        flags = self._renderer.scene.flags
        flags[mujoco.mjtRndFlag.mjRND_SHADOW] = flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        return self._renderer.render()

    def close(self) -> None:
        """Free the renderer; it comes back with the next picture."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


REST = np.array([0.0, -0.6, 0.0, -2.5, 0.0, 1.9, math.pi / 4])
"""Joint angles (rad) that the spare degree of freedom is drawn to."""
HOME_TIP = (0.31, 0.0, 0.34)
"""Fingertip at home (m): behind the objects, so that no fixed camera loses sight of them."""


class Arm:
    """Solves for joint angles, on a scratch copy of the model's data."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self._scratch = mujoco.MjData(model)
        self._tip = model.site("tcp").id
        self._low = model.jnt_range[:7, 0] + 0.01
        self._high = model.jnt_range[:7, 1] - 0.01
        self.home_tip = np.array(HOME_TIP)
        self.home_joints = self.solve(self._scratch, REST, self.home_tip, 0.0, iterations=200)

    def tip(self, data: mujoco.MjData) -> Floats:
        """Give the position of the fingertips, (3,) in m."""
        return data.site_xpos[self._tip].copy()

    def solve(
        self, data: mujoco.MjData, start: Floats, tip: Floats, yaw: float, iterations: int = 8
    ) -> Floats:
        """Find joint angles (7,) near `start` that bring the fingertips to `tip`, turned by `yaw`."""
        k, model = self._scratch, self._model
        k.qpos[:] = data.qpos
        k.qpos[:7] = start
        jacobian = np.zeros((6, model.nv))
        for _ in range(iterations):
            mujoco.mj_kinematics(model, k)
            mujoco.mj_comPos(model, k)
            error = self._error(tip, yaw)
            if np.abs(error).max() < 1e-4:
                break
            mujoco.mj_jacSite(model, k, jacobian[:3], jacobian[3:], self._tip)
            a = jacobian[:, :7]
            move = a.T @ np.linalg.solve(a @ a.T + 1e-4 * np.eye(6), error)
            rest = 0.05 * (REST - k.qpos[:7]) * (np.arange(7) < 3)
            move += rest - np.linalg.pinv(a) @ (a @ rest)
            k.qpos[:7] = np.clip(k.qpos[:7] + np.clip(move, -0.2, 0.2), self._low, self._high)
        return k.qpos[:7].copy()

    def _error(self, tip: Floats, yaw: float) -> Floats:
        """The position (m) and the rotation (rad) still missing, (6,)."""
        c, s = math.cos(yaw), math.sin(yaw)
        target = np.array([[c, s, 0], [s, -c, 0], [0, 0, -1.0]])
        turn, spin = np.zeros(4), np.zeros(3)
        mujoco.mju_mat2Quat(turn, (target @ self._scratch.site_xmat[self._tip].reshape(3, 3).T).ravel())
        mujoco.mju_quat2Vel(spin, turn, 1.0)
        return np.concatenate([tip - self._scratch.site_xpos[self._tip], spin])


DROPS = (0.0, 0.001)
"""Heights to let go at (m). Rarely a cube set down exactly on another is thrown off by the solver; from a
millimetre above it is not."""


def teleport(env: Tabletop, goal: SubGoal, spot: NDArray[np.float64] | None = None) -> TabletopState:
    """Set the block down at `spot` (3,), or where the expert would, and give the state reached.

    The block settles while the arm is at home; everything else stays where it is.

    Raises:
        ValueError: the sub-goal cannot be reached from here in one move; the environment is unchanged.
    """
    state_before = env.get_state()
    if spot is None:
        spot, _ = find_spot(env.layout(), goal)
    yaw = env.block_yaw(goal.target) if goal.kind == "on" else 0.0
    for drop in DROPS:
        env.home()
        env.place(goal.object, spot + np.array([0, 0, drop]), yaw)
        env.settle(0.4)
        if env.holds(goal) and all(map(env.still, env.blocks)):
            return env.get_state()
        env.set_state(state_before)
    raise ValueError(f"cannot {goal.text} from here in one move")
