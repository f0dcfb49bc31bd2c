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

from goalreel.tabletop.sim import predicates
from goalreel.tabletop.sim.arm import Arm
from goalreel.tabletop.sim.cameras import NAMES as CAMERAS
from goalreel.tabletop.sim.mjcf import build_xml
from goalreel.tabletop.sim.predicates import SubGoal
from goalreel.tabletop.sim.scene import Floats, SceneLayout, TabletopScene

CONTROL_HZ = 10
STATE_NAMES = (*(f"joint{i}" for i in range(1, 8)), "x", "y", "z", "yaw", "gripper")
"""Joint angles (rad), measured fingertip (m), commanded yaw (rad), gap between the fingers (m)."""
REACH = (np.array([0.25, -0.40, 0.008]), np.array([0.76, 0.40, 0.50]))
"""The lowest and the highest x, y and z that the fingertip is sent to (m)."""
ACTION_NAMES = ("dx", "dy", "dz", "dyaw", "gripper")
STILL = 0.05
"""A block faster than this, in m/s or rad/s, is not still."""


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

    >>> from goalreel.tabletop.sim.grammar import sample_episode
    >>> episode = sample_episode(0)
    >>> with Tabletop(episode.scene) as env:
    ...     picture = env.render("front", size=128)
    ...     reached = env.holds(episode.goals[0])
    >>> picture.shape, reached
    ((128, 128, 3), False)
    """

    def __init__(self, scene: TabletopScene, shadows: bool = False) -> None:
        self.scene = scene
        self.model = mujoco.MjModel.from_xml_string(build_xml(scene, shadows))
        self.data = mujoco.MjData(self.model)
        self.blocks = tuple(b.name for b in scene.blocks)
        self.bowls = tuple(b.name for b in scene.bowls)
        self._arm = Arm(self.model)
        self._shadows = shadows
        self._renderer: mujoco.Renderer | None = None
        self._substeps = round(1 / CONTROL_HZ / self.model.opt.timestep)
        self._pads = {self.model.geom(f"finger_{side}").id for side in ("left", "right")}
        self.reset()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- state

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
        spec = mujoco.mjtState.mjSTATE_INTEGRATION
        physics = np.empty(mujoco.mj_stateSize(self.model, spec))
        mujoco.mj_getState(self.model, self.data, physics, spec)
        return TabletopState(physics, self.joints.copy(), self.tip.copy(), self.yaw, self.grip)

    def set_state(self, state: TabletopState) -> None:
        """Continue from a snapshot of an environment with the same scene."""
        mujoco.mj_setState(self.model, self.data, state.physics, mujoco.mjtState.mjSTATE_INTEGRATION)
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

    # -- objects and predicates

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
        """List the pairs of geoms that touch."""
        return [{int(a), int(b)} for a, b in self.data.contact.geom[: self.data.ncon]]

    def still(self, block: str) -> bool:
        return bool(np.abs(self.data.joint(block).qvel).max() < STILL)

    def holds(self, goal: SubGoal) -> bool:
        """Tell whether the sub-goal is true now: its geometry is right and the hand has let go."""
        return predicates.shows(self.layout(), goal) and not self.grasped(goal.object)

    # -- pictures

    def render(self, camera: str = "front", size: int = 128) -> NDArray[np.uint8]:
        """Take the picture of a camera (one of `cameras.NAMES`), (size, size, 3) RGB.

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
        flags[mujoco.mjtRndFlag.mjRND_SHADOW] = self._shadows
        flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        return self._renderer.render()

    def close(self) -> None:
        """Free the renderer; it comes back with the next picture."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
