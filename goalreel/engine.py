"""How a model answers the requests of many callers: what the servers' queues and the chat models share."""

from collections.abc import Sequence
from typing import Protocol

from goalreel.errors import BackendError


class WorkItem[Q, A](Protocol):
    """A request, and whoever waits for its answer."""

    @property
    def request(self) -> Q:
        """What is asked."""
        ...

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits any more."""
        ...

    def answer(self, answer: A | BackendError) -> None:
        """Hand over the answer, or say why the model could not be called."""
        ...


class BatchEngine[Q, A](Protocol):
    """What answers requests, in turns; a model that writes tokens writes one in each. One thread uses it."""

    @property
    def busy(self) -> bool:
        """Whether there is a turn to take."""
        ...

    def room(self, limit: int) -> int:
        """How many more requests to take, where `limit` may be under way."""
        ...

    def start(self, works: Sequence[WorkItem[Q, A]]) -> None:
        """Take requests."""
        ...

    def step(self) -> int:
        """Take a turn, and return how many requests were in it; abandoned ones are dropped."""
        ...
