"""Inverse kinematics of the arm: gripper pointing down, by damped least squares."""

import math

import mujoco
import numpy as np

from goalreel.tabletop.sim.scene import Floats

REST = np.array([0.0, -0.6, 0.0, -2.5, 0.0, 1.9, math.pi / 4])
"""Joint angles (rad) that the spare degree of freedom is drawn to."""
HOME_TIP = (0.31, 0.0, 0.34)
"""Fingertip at home (m): behind the objects, so that no fixed camera loses sight of them."""


class Arm:
    """Solves for joint angles; keeps a scratch copy of the model's data and no state of its own."""

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
        """Compute the position (m) and the rotation (rad) still missing, (6,)."""
        c, s = math.cos(yaw), math.sin(yaw)
        target = np.array([[c, s, 0], [s, -c, 0], [0, 0, -1.0]])
        turn, spin = np.zeros(4), np.zeros(3)
        mujoco.mju_mat2Quat(turn, (target @ self._scratch.site_xmat[self._tip].reshape(3, 3).T).ravel())
        mujoco.mju_quat2Vel(spin, turn, 1.0)
        return np.concatenate([tip - self._scratch.site_xpos[self._tip], spin])
