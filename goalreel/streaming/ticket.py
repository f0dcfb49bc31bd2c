"""The handle of a submitted request: its storyboard's id, its outcome, a way to cancel it."""

from collections.abc import Callable
from concurrent.futures import Future
from uuid import UUID

from goalreel.streaming.board import ErrorCode
from goalreel.streaming.request import TaskOutcome


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

    def cancel(self, reason: str = "cancelled") -> None:
        """End the request, as CANCELED, at once; a model call under way runs to its end."""
        self._cancel(self, ErrorCode.CANCELED, reason)
