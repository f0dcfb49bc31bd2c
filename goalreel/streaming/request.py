"""What is asked of the engine, and what it answers."""

from dataclasses import dataclass
from typing import Literal, Protocol
from uuid import UUID

from goalreel.image import Image
from goalreel.streaming.board import Board, ErrorCode, Goal
from goalreel.types import Verdict

EXCERPT = 200
"""Characters of a text of any length that logs and messages about it show."""


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A task. Zero values mean the engine's settings; `timeout` in seconds."""

    task: str
    kind: Literal["generate", "annotate"] = "annotate"
    image: Image | None = None
    """Plan from this instead of the camera (generate only)."""
    storyboard_id: UUID | None = None
    """Execute this storyboard, made before, instead of planning (annotate only)."""
    auxiliary_text: str = ""
    max_steps: int = 0
    max_attempts: int = 0
    max_replans: int = 0
    timeout: float = 0.0
    text_only: bool = False


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """How a task ended. Times in seconds."""

    board: Board
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    replans: int = 0
    planning_time: float = 0.0
    elapsed: float = 0.0
    verdict: Verdict | None = None
    """The critic's, on the task as a whole; None where it was not asked, or gave none."""


def excerpt(text: str) -> str:
    """The text in one line, cut to EXCERPT characters; says how long it is then."""
    line = " ".join(text[: 2 * EXCERPT].split())
    short = len(text) <= 2 * EXCERPT and len(line) <= EXCERPT
    return line if short else f"{line[:EXCERPT]}... ({len(text)} characters)"


class BoardListener(Protocol):
    """Told of every change, in order, on the engine's own thread; must not block."""

    def board(self, board: Board) -> None: ...
    def goal(self, goal: Goal) -> None: ...
