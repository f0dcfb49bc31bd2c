# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""LeRobot finds this package by its name and with it a camera of type `goalreel`: the live sub-goal.

lerobot-rollout --robot.cameras="{subgoal: {type: goalreel, width: 640, height: 480}, ...}" ...
"""

from .camera_goalreel import GoalreelCamera, GoalreelCameraConfig

__all__ = ["GoalreelCamera", "GoalreelCameraConfig"]
