"""Wraps the policy's inference engine in lerobot's control loop, so that it acts only towards a goal."""

from collections.abc import Callable
from typing import Any

import torch
from lerobot.configs.types import PipelineFeatureType, PolicyFeature
from lerobot.processor import ComplementaryDataProcessorStep
from lerobot.rollout import InferenceEngine

from goalreel.streaming.board import Goal
from goalreel.streaming.rollout.goals import NewestGoal


class GoalGatedEngine(InferenceEngine):
    """An inference engine that is asked for actions only while there is a goal.

    Without a goal there is no action, and the robot holds its last command. At a new goal, the actions that
    were predicted for the previous one are dropped, as lerobot does where a task changes during a rollout.
    `on_observation` gets every observation.
    """

    def __init__(
        self, inner: InferenceEngine, goals: NewestGoal, on_observation: Callable[[dict[str, Any]], None]
    ) -> None:
        self._inner, self._goals, self._on_observation = inner, goals, on_observation
        self._goal: Goal | None = None

    @property
    def subtask(self) -> str | None:
        """The name of the goal that is followed, or None. Annotated datasets call it a sub-task."""
        goal = self._goal
        return goal.panel.step.name if goal and goal.active and goal.panel else None

    def get_action(self, obs_frame: dict[str, Any] | None) -> torch.Tensor | None:
        """Give the policy's next action; None where there is no goal to follow."""
        goal = self._goals.newest
        if goal is not self._goal:
            self._goal = goal
            self._inner.reset()
            return None  # this observation may still show the previous picture
        return self._inner.get_action(obs_frame) if self.subtask is not None else None

    def notify_observation(self, obs: dict[str, Any]) -> None:
        """Pass the newest observation on."""
        self._on_observation(obs)
        self._inner.notify_observation(obs)

    # -- as the inner engine does

    def start(self) -> None:
        self._inner.start()

    def stop(self) -> None:
        self._inner.stop()

    def reset(self) -> None:
        self._inner.reset()

    def pause(self) -> None:
        self._inner.pause()

    def resume(self) -> None:
        self._inner.resume()

    @property
    def ready(self) -> bool:
        return self._inner.ready

    @property
    def failed(self) -> bool:
        return self._inner.failed


class SubgoalTaskStep(ComplementaryDataProcessorStep):
    """First step of a policy's preprocessor, which replaces the task by the sub-goal that is followed.

    Up to lerobot 0.6, which has no `InferenceEngine.set_task`, a rollout's task is fixed in its engine. Every
    observation passes the preprocessor, whatever the engine.
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
