"""Models that are loaded when they are first asked."""

from collections.abc import Callable, Sequence
from functools import cached_property

from goalreel.image import Image
from goalreel.types import Candidate, Critic, Edit, Editor, Failure, Plan, Planner, Task, Verdict


class Later[M]:
    """A model that is built when it is first asked."""

    def __init__(self, build: Callable[[], M]) -> None:
        self._build = build

    @cached_property
    def model(self) -> M:
        """The model itself, built now if it has not been asked yet."""
        return self._build()


class LaterPlanner(Later[Planner]):
    """A Planner that is loaded when it is first asked."""

    def plan(self, tasks: Sequence[Task]) -> Sequence[Plan | Failure]:
        """Answer i plans task i."""
        return self.model.plan(tasks)


class LaterEditor(Later[Editor]):
    """An Editor that is loaded when it is first asked."""

    def edit(self, edits: Sequence[Edit]) -> Sequence[Image | Failure]:
        """Answer i is the picture of edit i."""
        return self.model.edit(edits)


class LaterCritic(Later[Critic]):
    """A Critic that is loaded when it is first asked."""

    def judge(self, candidates: Sequence[Candidate]) -> Sequence[Verdict | Failure]:
        """Answer i judges candidate i."""
        return self.model.judge(candidates)
