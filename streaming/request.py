"""What is asked of the engine, and what it answers."""

from dataclasses import dataclass
from typing import Literal, Protocol
from uuid import UUID

from goalreel.image import Image
from goalreel.streaming.board import Board, ErrorCode, Goal


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


class BoardListener(Protocol):
    """Told of every change, in order, on the engine's own thread; must not block."""

    def board(self, board: Board) -> None: ...
    def goal(self, goal: Goal) -> None: ...
