"""What stands between lerobot's control loop and its policy."""

from collections.abc import Callable
from typing import Any

import torch
from lerobot.configs.types import PipelineFeatureType, PolicyFeature
from lerobot.processor import ComplementaryDataProcessorStep
from lerobot.rollout import InferenceEngine

from goalreel.streaming.board import Goal
from goalreel.streaming.rollout.goals import PresentGoal


class Following(InferenceEngine):
    """The policy's inference engine, asked only while there is a goal; `watch` gets every observation.

    Without a goal no action comes, and the robot holds its last command. With a new one, actions that the
    policy has imagined for another are dropped, as lerobot does where a task is changed under way.
    """

    def __init__(
        self, inner: InferenceEngine, goals: PresentGoal, watch: Callable[[dict[str, Any]], None]
    ) -> None:
        self._inner, self._goals, self._watch = inner, goals, watch
        self._goal: Goal | None = None

    @property
    def words(self) -> str | None:
        """The name of the goal that is followed, if one is: what annotated datasets call a sub-task."""
        goal = self._goal
        return goal.panel.step.name if goal and goal.active and goal.panel else None

    def get_action(self, obs_frame: dict[str, Any] | None) -> torch.Tensor | None:
        """The policy's next action; None where there is no goal to follow."""
        goal = self._goals.newest
        if goal is not self._goal:
            self._goal = goal
            self._inner.reset()
            return None  # this observation may still show the picture before
        return self._inner.get_action(obs_frame) if self.words is not None else None

    def notify_observation(self, obs: dict[str, Any]) -> None:
        """Let the policy, and who watches, have the newest observation."""
        self._watch(obs)
        self._inner.notify_observation(obs)

    # -- as the inner one does

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


class SubgoalWords(ComplementaryDataProcessorStep):
    """The first step of a policy's preprocessor: its task is the sub-goal that is followed.

    Before `InferenceEngine.set_task` (lerobot after 0.6) a rollout's task is fixed in its engine; every
    observation passes here, whichever engine it is.
    """

    def __init__(self, words: Callable[[], str | None]) -> None:
        self._words = words

    def complementary_data(self, complementary_data: dict[str, Any]) -> dict[str, Any]:
        """The same with the sub-goal's text, one or a batch of one as it was."""
        words, before = self._words(), complementary_data.get("task")
        if words is None:
            return complementary_data
        return complementary_data | {"task": [words] if isinstance(before, list) else words}

    def transform_features(
        self, features: dict[PipelineFeatureType, dict[str, PolicyFeature]]
    ) -> dict[PipelineFeatureType, dict[str, PolicyFeature]]:
        """No feature changes."""
        return features
