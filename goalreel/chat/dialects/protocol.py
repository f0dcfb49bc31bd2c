"""A dialect: the words in which a model is asked, and the form of a verdict."""

from typing import Literal, Protocol

from goalreel.chat.conversation import Conversation
from goalreel.chat.verdict import VerdictFormat
from goalreel.terms import Mode
from goalreel.types import Candidate, ReplanContext, Task

type DialectName = Literal["own", "interleavethinker"]
"""The dialects that a user can name."""


class Dialect(Protocol):
    """Words the questions to Planner and Critic, but not the turn after an unreadable reply.

    `plan` and `replan` raise ValueError where pictures do not fit the `<image>` marks of an instruction.
    """

    @property
    def name(self) -> DialectName | Literal["observed"]: ...
    @property
    def note(self) -> str | None:
        """The part of the published prompts that is missing, and how to get it; None if complete."""
        ...

    @property
    def scored(self) -> bool:
        """True if it can ask a Critic for scores."""
        ...

    @property
    def verdict_format(self) -> VerdictFormat:
        """The form of a Critic's reply."""
        ...

    @property
    def overlay(self) -> bool:
        """True if a Critic also sees the source and the candidate laid over each other."""
        ...

    @property
    def trained_steps(self) -> int | None:
        """The number of steps in every question to a planner; None where the question names the limit."""
        ...

    def plan(self, task: Task, max_steps: int) -> Conversation:
        """Ask for a plan, which goes on after `task.done`."""
        ...

    def replan(self, progress: ReplanContext, max_steps: int) -> Conversation:
        """Ask for a plan of the remaining steps."""
        ...

    def judge(self, candidate: Candidate, *, mode: Mode, scores: bool) -> Conversation:
        """Ask for a verdict."""
        ...
