"""What a dialect is: the words in which a model is asked. What it replies is read the same way in all."""

from typing import Literal, Protocol

from goalreel.planners.agents.replan import ReplanContext
from goalreel.planners.chat.conversation import Conversation
from goalreel.types import Candidate, Task

type DialectName = Literal["own", "interleavethinker"]
type Mode = Literal["strict", "fast"]


class Dialect(Protocol):
    """How Planner and Critic are asked. The turn after an unreadable reply is no part of it.

    `plan` and `replan` raise ValueError where pictures do not fit the `<image>` marks of an instruction.
    """

    @property
    def name(self) -> DialectName: ...
    @property
    def note(self) -> str | None:
        """What is lost against the published prompts, and how to mend it; None where nothing is."""
        ...

    @property
    def scored(self) -> bool:
        """Whether a Critic can be asked for scores in it."""
        ...

    @property
    def overlay(self) -> bool:
        """Whether a Critic is shown the source and the candidate laid over each other too."""
        ...

    def plan(self, task: Task, max_steps: int) -> Conversation:
        """Ask for a plan, which goes on after `task.done`."""
        ...

    def replan(self, progress: ReplanContext, max_steps: int) -> Conversation:
        """Ask for a plan of what remains."""
        ...

    def judge(self, candidate: Candidate, *, mode: Mode, scores: bool) -> Conversation:
        """Ask for a verdict."""
        ...
