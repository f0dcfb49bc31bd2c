"""The configuration of the sub-goal camera.

lerobot looks for the camera's class in the module of this one's name without `config_`.
"""

from dataclasses import dataclass

from lerobot.cameras.configs import CameraConfig

from goalreel.streaming.rollout.goals import NewestGoal
from goalreel.subgoal_camera import SubGoalForm


@CameraConfig.register_subclass("goalreel_rollout")
@dataclass(kw_only=True)
class SubgoalCameraConfig(CameraConfig):
    """Not for a command line, since `goals` lives in this process. `width` and `height` must be set."""

    goals: NewestGoal
    form: SubGoalForm
