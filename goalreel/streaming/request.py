"""Requests to the engine, their outcomes, and the listener that the engine notifies."""

from dataclasses import dataclass
from typing import Literal, Protocol
from uuid import UUID

from goalreel.image import Image
from goalreel.streaming.board import Board, ErrorCode, Goal
from goalreel.types import Verdict

EXCERPT_LENGTH = 200
"""Characters of a long text that logs and messages show."""


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A task. Numbers of -1 stand for the engine's settings."""

    task: str
    kind: Literal["generate", "execute"] = "execute"
    image: Image | None = None
    """Plan from this picture instead of a camera frame ("generate" only)."""
    storyboard_id: UUID | None = None
    """Execute this storyboard from an earlier request instead of planning ("execute" only)."""
    storyboard: Board | None = None
    """Execute this storyboard, made elsewhere, instead of planning ("execute" only)."""
    auxiliary_text: str = ""
    max_steps: int = -1
    max_attempts: int = -1
    max_replans: int = -1
    timeout: float = 0.0
    """Seconds; 0 stands for the engine's `task_timeout`, and less for no limit."""
    text_only: bool = False


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """How a task ended. Times in seconds."""

    board: Board
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    """Why it failed; of a task that succeeded, that nobody checked its end, where nobody did."""
    replans: int = 0
    planning_time: float = 0.0
    elapsed: float = 0.0
    verdict: Verdict | None = None
    """The critic's verdict on the task as a whole; None where there is none."""


def excerpt(text: str) -> str:
    """Give the text in one line; a long one is cut to EXCERPT_LENGTH characters, followed by its length."""
    line = " ".join(text[: 2 * EXCERPT_LENGTH].split())
    short = len(text) <= 2 * EXCERPT_LENGTH and len(line) <= EXCERPT_LENGTH
    return line if short else f"{line[:EXCERPT_LENGTH]}... ({len(text)} characters)"


class BoardListener(Protocol):
    """Notified of every change, in order, on the engine's thread. Its methods must not block."""

    def on_board(self, board: Board) -> None: ...
    def on_goal(self, goal: Goal) -> None: ...
