"""Protocols of models that answer many callers: what the servers' queues and the chat models share."""

from collections.abc import Sequence
from typing import Protocol

from goalreel.errors import BackendError


class WorkItem[Q, A](Protocol):
    """A request, and whoever waits for its answer."""

    @property
    def request(self) -> Q:
        """The request."""
        ...

    @property
    def abandoned(self) -> bool:
        """True if nobody waits any more."""
        ...

    def answer(self, answer: A | BackendError) -> None:
        """Hand over the answer, or say why the model could not be called."""
        ...


class BatchEngine[Q, A](Protocol):
    """An engine that answers requests in turns, one token in each; one thread uses it."""

    @property
    def busy(self) -> bool:
        """True if there is a turn to take."""
        ...

    def room(self, limit: int) -> int:
        """Return how many more requests to take, where `limit` may be under way."""
        ...

    def start(self, works: Sequence[WorkItem[Q, A]]) -> None:
        """Take requests."""
        ...

    def step(self) -> int:
        """Take a turn, and return how many requests were in it; abandoned ones are dropped."""
        ...
