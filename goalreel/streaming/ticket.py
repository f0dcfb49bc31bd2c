"""What a caller of the engine holds of a request: its storyboard's id, its outcome, a way to cancel it."""

from collections.abc import Callable
from concurrent.futures import Future
from uuid import UUID

from goalreel.streaming.board import ErrorCode
from goalreel.streaming.request import TaskOutcome


class Ticket:
    """A submitted request. `id` is that of the storyboard it makes or executes.

    `outcome` holds no exception: what goes wrong with a model or a camera is a TaskOutcome.
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
        """Ask the engine to stop. The outcome follows at once, CANCELED; the models are idle after a call."""
        self._cancel(self, ErrorCode.CANCELED, reason)
