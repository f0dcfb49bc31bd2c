"""Key poses: a sub-goal as two decisions, where to take hold and where to let go; a script moves the arm.

An action is (6,) = x, y, z of the fingertip in m (world), cos and sin of twice its yaw, and the gripper. The
yaw is doubled since a hand turned by half a turn is the same hand. The gripper is closed below 0 and open
from 0 on. Policies that predict the next key frame act so on RLBench (James et al., arXiv 2105.14829).
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from goalreel.tabletop.env import REACH, Tabletop
from goalreel.tabletop.expert import Move, clear_yaw, let_go, take_hold
from goalreel.tabletop.scene import Floats, SubGoal, find_spot

KEY_POSE_NAMES = ("x", "y", "z", "cos_2yaw", "sin_2yaw", "gripper")


def key_poses(env: Tabletop, goal: SubGoal) -> NDArray[np.float32]:
    """Compute the two key poses (2, 6) by which the expert would reach a sub-goal from here."""
    layout, turned = env.layout(), env.block_yaw(goal.object)
    at = layout[goal.object]
    grip = clear_yaw(layout, goal.object, at, turned, env.yaw)
    spot, _ = find_spot(layout, goal)
    square = env.block_yaw(goal.target) if goal.kind == "on" else 0.0
    put = clear_yaw(layout, goal.object, spot, grip + square - turned, grip)
    return np.stack([_pose(at, 0.002, grip, -1), _pose(spot, 0.005, put, 1)])


def _pose(centre: Floats, above: float, yaw: float, gripper: float) -> NDArray[np.float32]:
    x, y, z = centre
    return np.array([x, y, z + above, math.cos(2 * yaw), math.sin(2 * yaw), gripper], np.float32)


def approach(env: Tabletop, pose: NDArray[np.floating]) -> Iterator[Move]:
    """Yield actions of `Tabletop.step` that carry out a key pose (6,), clipped to what the arm reaches.

    To it from above, the gripper as commanded, up again; with an open hand home.
    """
    tip = np.clip(np.asarray(pose[:3], np.float64), *REACH)
    yaw = math.atan2(float(pose[4]), float(pose[3])) / 2
    if pose[5] < 0:
        return take_hold(env, tip, max(tip[2] + 0.09, 0.15), yaw)
    return let_go(env, tip, max(tip[2] + 0.08, 0.16), yaw)
