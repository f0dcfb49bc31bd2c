"""The handle of a submitted request: its storyboard's id, its outcome, a way to cancel it."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Self
from uuid import UUID

from goalreel.streaming.board import Board, CodedText, ErrorCode
from goalreel.streaming.request import EXCERPT_LENGTH, TaskOutcome, TaskRequest


class Ticket:
    """A submitted request. `id` is that of the storyboard that it makes or executes.

    `outcome` never holds an exception: errors of models and cameras are in the TaskOutcome.
    """

    def __init__(self, storyboard_id: UUID, cancel: Callable[["Ticket", ErrorCode, str], None]) -> None:
        self.id = storyboard_id
        self.outcome: Future[TaskOutcome] = Future()
        self._cancel = cancel

    @property
    def done(self) -> bool:
        """Whether the request has ended, well or not."""
        return self.outcome.done()

    def refuse(self, request: TaskRequest, reason: CodedText) -> Self:
        """End the request before anything is begun for it."""
        board = Board(id=self.id, task=request.task[:EXCERPT_LENGTH], state="failed")
        self.outcome.set_result(TaskOutcome(board, *reason))
        return self

    def cancel(self, reason: str = "cancelled", error: ErrorCode = ErrorCode.CANCELED) -> None:
        """End the request, as CANCELED or another error, at once; a model call under way runs to its end."""
        self._cancel(self, error, reason)
