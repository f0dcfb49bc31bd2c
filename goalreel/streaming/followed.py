"""Language rows that say what a policy followed, for the dataset that lerobot's rollout records."""

from collections.abc import Mapping
from typing import Any

from lerobot.datasets.lerobot_dataset import LeRobotDataset

from goalreel.datasets.writing.language import (
    EVENTS,
    PERSISTENT,
    RecordedRow,
    memory_text,
    plan_text,
    put_rows,
)
from goalreel.streaming.board import Goal
from goalreel.streaming.subgoalcamera import NewestGoal


class FollowedRows:
    """Writes what each frame of a recording follows into the dataset, once lerobot has finished it.

    `subtask` is the step that was attempted, well or not; `memory` has only the steps that were seen to be
    done, so a failed try never enters it; `plan` is what was still to do. The task of every frame is the
    whole instruction.
    """

    def __init__(self, dataset: LeRobotDataset, instruction: str, goals: NewestGoal) -> None:
        """Watch the dataset from now on: its methods are replaced by ones that note what they do."""
        self._dataset, self._instruction, self._goals = dataset, instruction, goals
        self._frames, self._said = 0, dict[str, str]()
        self._rows: list[RecordedRow] = []
        self._episodes: dict[int, list[RecordedRow]] = {}
        for name in (PERSISTENT, EVENTS):  # of a dataset that is resumed: lerobot takes no frames of them
            dataset.meta.features.pop(name, None)
            if dataset.writer is not None and dataset.writer.episode_buffer is not None:
                dataset.writer.episode_buffer.pop(name, None)
        self._add, self._save = dataset.add_frame, dataset.save_episode
        self._clear, self._finalize = dataset.clear_episode_buffer, dataset.finalize
        vars(dataset).update(
            add_frame=self.add_frame,
            save_episode=self.save_episode,
            clear_episode_buffer=self.clear_episode_buffer,
            finalize=self.finalize,
        )

    def add_frame(self, frame: dict[str, Any]) -> None:
        """Add a frame, and note what is followed in it where that has changed."""
        self._add(frame | {"task": self._instruction})
        if self._goals.newest is not None:
            for style, text in _said(self._goals.newest).items():
                if self._said.get(style) != text:
                    self._rows.append((self._frames, style, text))
                    self._said[style] = text
        self._frames += 1

    def save_episode(self, *arguments: Any, **options: Any) -> None:
        """Save the episode, and keep its rows."""
        index = self._dataset.meta.total_episodes
        self._save(*arguments, **options)
        self._episodes[index] = self._rows
        self._begin()

    def clear_episode_buffer(self, *arguments: Any, **options: Any) -> None:
        """Discard the episode with its rows."""
        self._clear(*arguments, **options)
        self._begin()

    def finalize(self) -> None:
        """Finish the dataset, and write the rows."""
        self._finalize()
        if self._episodes:
            put_rows(self._dataset.root, self._episodes)
            self._episodes = {}

    def _begin(self) -> None:
        self._frames, self._rows = 0, []
        self._said.clear()


def _said(goal: Goal) -> Mapping[str, str]:
    """Give the row of each style that holds while this is the newest goal."""
    if goal.panel is None:
        return {}
    steps, at = goal.board.steps, goal.panel.index
    done = [(p.index, p.step.name) for p in steps if p.status == "completed" and p.index < at]
    memory = {"memory": memory_text(done)} if done else {}
    return {"plan": plan_text([p.step.name for p in steps[at:]]), **memory, "subtask": goal.panel.step.name}
