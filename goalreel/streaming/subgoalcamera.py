"""The policy's side of a rollout: the goal it follows, as a LeRobot camera, and its gated inference engine.

lerobot looks for the class of a `SubgoalCameraConfig` in a module of this name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from lerobot.cameras.camera import Camera
from lerobot.cameras.configs import CameraConfig
from lerobot.configs.types import PipelineFeatureType, PolicyFeature
from lerobot.processor import ComplementaryDataProcessorStep
from lerobot.rollout import InferenceEngine
from lerobot.utils.decorators import check_if_already_connected, check_if_not_connected
from numpy.typing import NDArray

from goalreel.streaming.board import Board, Goal
from goalreel.subgoal_camera import SubGoalForm, fit, in_form


class NewestGoal:
    """A BoardListener that holds the newest goal, for any thread to read, and reports each in a line."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.newest: Goal | None = None
        self._report = report

    def on_board(self, board: Board) -> None:
        """Ignore boards: the policy gets goals only."""

    def on_goal(self, goal: Goal) -> None:
        """Store the goal and report it."""
        self.newest = goal
        if goal.panel is not None:
            what = f"{goal.panel.step.name} ({goal.panel.image_status})" if goal.active else "hold still"
            parts = filter(None, (what, goal.board.degraded))
            self._report(f"{goal.panel.index + 1}/{len(goal.board.steps)}: {'; '.join(parts)}")


@CameraConfig.register_subclass("goalreel_rollout")
@dataclass(kw_only=True)
class SubgoalCameraConfig(CameraConfig):
    """Not for a command line, since `goals` lives in this process. `width` and `height` must be set."""

    goals: NewestGoal
    form: SubGoalForm


class SubgoalCamera(Camera):
    """Shows the present sub-goal in the policy's size; black where there is none.

    Black borders fill up the shape, exactly as `goalreel annotate` writes sub-goals into datasets.
    """

    def __init__(self, config: SubgoalCameraConfig) -> None:
        super().__init__(config)
        assert config.width
        assert config.height
        self._config, self._size = config, (config.width, config.height)
        self._connected = False

    def __str__(self) -> str:
        return "SubgoalCamera"

    @property
    def is_connected(self) -> bool:
        """True once the robot has connected it."""
        return self._connected

    @staticmethod
    def find_cameras() -> list[dict[str, Any]]:
        """Give an empty list: there is no device to find."""
        return []

    @check_if_already_connected
    def connect(self, warmup: bool = True) -> None:
        """Mark the camera as connected; there is no device."""
        self._connected = True

    @check_if_not_connected
    def read_latest(self, max_age_ms: int = 500) -> NDArray[np.uint8]:
        """Give the present sub-goal, (height, width, 3) RGB."""
        goal = self._config.goals.newest
        if goal is None or goal.image is None:
            return np.zeros((self._size[1], self._size[0], 3), np.uint8)
        return in_form(self._config.form, fit(goal.image.pixels, self._size)).copy()

    def read(self) -> NDArray[np.uint8]:
        """Do the same as `read_latest`."""
        return self.read_latest()

    def async_read(self, timeout_ms: float = 200) -> NDArray[np.uint8]:
        """Do the same as `read_latest`."""
        return self.read_latest()

    @check_if_not_connected
    def disconnect(self) -> None:
        """Mark the camera as not connected."""
        self._connected = False


def _key(goal: Goal | None) -> object:
    """Identity of a goal, whichever models have failed since."""
    return goal and (goal.stamp, goal.reason, goal.panel and goal.panel.step)


class GoalGatedEngine:
    """An inference engine that is asked for actions only while there is a goal; all else is the inner one's.

    Without a goal there is no action, and the robot holds its last command. At a new goal the policy is told
    it, and the actions that were predicted for the previous one are dropped.
    """

    def __init__(
        self,
        inner: InferenceEngine,
        goals: NewestGoal,
        on_observation: Callable[[dict[str, Any]], None],
        tell: Callable[[str], object] = lambda _: None,
        hold: Callable[[bool], object] = lambda _: None,
    ) -> None:
        """`on_observation` gets every observation, `tell` the name of every goal, `hold` each pause."""
        self._inner, self._goals, self._on_observation = inner, goals, on_observation
        self._tell, self._hold = tell, hold
        self._goal: Goal | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def subtask(self) -> str | None:
        """The name of the goal that is followed, or None. Annotated datasets call it a sub-task."""
        goal = self._goal
        return goal.panel.step.name if goal and goal.active and goal.panel else None

    def get_action(self, obs_frame: dict[str, Any] | None) -> torch.Tensor | None:
        """Give the policy's next action; None where there is no goal to follow."""
        before, goal = self._goal, self._goals.newest
        self._goal = goal
        if _key(before) != _key(goal):
            if self.subtask is not None:
                self._tell(self.subtask)
            self._inner.reset()
            return None  # this observation may still show the previous picture
        return self._inner.get_action(obs_frame) if self.subtask is not None else None

    def pause(self) -> None:
        """Pause the policy and the task: a person acts, and no observation is passed on."""
        self._inner.pause()
        self._hold(True)

    def resume(self) -> None:
        """Resume both."""
        self._inner.resume()
        self._hold(False)

    def notify_observation(self, obs: dict[str, Any]) -> None:
        """Pass the newest observation on."""
        self._on_observation(obs)
        self._inner.notify_observation(obs)


class SubgoalTaskStep(ComplementaryDataProcessorStep):
    """First step of a policy's preprocessor, which replaces the task by the sub-goal that is followed.

    For lerobot up to 0.6.1, where a rollout's task is fixed in its engine: later ones have `set_task`.
    """

    def __init__(self, subtask: Callable[[], str | None]) -> None:
        self._subtask = subtask

    def complementary_data(self, complementary_data: dict[str, Any]) -> dict[str, Any]:
        """Put the sub-goal's text in place of the task, as a text or as a list of one, as the task was."""
        subtask, task = self._subtask(), complementary_data.get("task")
        if subtask is None:
            return complementary_data
        return complementary_data | {"task": [subtask] if isinstance(task, list) else subtask}

    def transform_features(
        self, features: dict[PipelineFeatureType, dict[str, PolicyFeature]]
    ) -> dict[PipelineFeatureType, dict[str, PolicyFeature]]:
        """Change no feature."""
        return features
