"""Queues of models: requests that come close together share one call, and clients take turns."""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field

from goalreel.errors import BackendError

log = logging.getLogger(__name__)


class WorkerDead(BackendError):
    """The model's threads are gone, or going."""


class QueueFull(Exception):
    """No more requests may wait."""


@dataclass(eq=False)
class _Work[Q, A]:
    """One request, and the future of its answer."""

    request: Q
    client: Hashable
    arrived: float = field(default_factory=time.monotonic)
    future: Future[A] = field(default_factory=Future)

    def answer(self, answer: A | Exception) -> None:
        """Hand over the answer, if somebody still waits for it."""
        with suppress(InvalidStateError):  # it was cancelled, or answered by `Batcher.close`
            if isinstance(answer, Exception):
                self.future.set_exception(answer)
            else:
                self.future.set_result(answer)


@dataclass(frozen=True)
class BatchBounds:
    """`size` requests a call at most; `wait` seconds for others to join; `queue` may wait."""

    size: int = 16
    wait: float = 0.02
    queue: int = 256


class Batcher[Q, A]:
    """Answers single requests by calls of a model, whose answer i belongs to request i.

    Calls are made in `lanes` threads: several for models behind servers, so that a long request holds up its
    own lane alone. A batch goes out when there are as many requests as it may have, or when the first has
    waited `bounds.wait` seconds. Clients take turns: one with many requests holds up no other.

    An error of a call fails its batch. After any but a BackendError, which is a bug in the model, `alive` is
    False until the model answers again.
    """

    def __init__(
        self, name: str, call: Callable[[Sequence[Q]], Sequence[A]], bounds: BatchBounds, *, lanes: int = 1
    ) -> None:
        self.name = name
        self._call, self._bounds = call, bounds
        self._queue: list[_Work[Q, A]] = []
        self._under_way: list[_Work[Q, A]] = []
        self._changed = threading.Condition()
        self._closing = self._broken = False
        self._turn = 0
        self._turns: dict[Hashable, int] = {}
        """The last turn of each client that is here."""
        self._moved = time.monotonic()
        """The last time that the model answered, or had nothing to do."""
        self._threads = [
            threading.Thread(target=self._work, name=f"goalreel-{name}", daemon=True) for _ in range(lanes)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def alive(self) -> bool:
        """The model takes requests, and its last call did not end in a bug."""
        return not self._closing and not self._broken

    @property
    def waiting(self) -> int:
        """Requests in the queue, those under way not counted."""
        return sum(not work.future.done() for work in list(self._queue))

    @property
    def under_way(self) -> int:
        """Requests that the model is answering."""
        return sum(not work.future.done() for work in list(self._under_way))

    @property
    def silent_seconds(self) -> float:
        """Seconds that requests wait for the model's next answer."""
        return time.monotonic() - self._moved if self._under_way else 0.0

    def check_room(self) -> None:
        """Refuse early, before a request is decoded.

        Raises:
            QueueFull: no more requests may wait.
            WorkerDead: nobody will answer.
        """
        if self._closing:
            raise WorkerDead(f"the {self.name} model is not running")
        if self.waiting >= self._bounds.queue:
            raise QueueFull(f"too many requests wait for the {self.name}: try again")

    def put(self, request: Q, *, client: Hashable = None, bounded: bool = True) -> Future[A]:
        """Queue a request; cancelling the future takes it back.

        Raises:
            QueueFull: `bounded` and no room.
            WorkerDead: nobody will answer.
        """
        work: _Work[Q, A] = _Work(request, client)
        with self._changed:
            if bounded or self._closing:
                self.check_room()
            self._queue.append(work)
            self._changed.notify()
        return work.future

    async def ask(self, request: Q, *, client: Hashable = None, bounded: bool = True) -> A:
        """Queue a request and wait for its answer; cancelling takes it back. Raises as `put`."""
        return await asyncio.wrap_future(self.put(request, client=client, bounded=bounded))

    def close(self, timeout: float = 5.0) -> None:
        """Fail what waits, and after `timeout` seconds also what the model has not answered by then."""
        stopping = WorkerDead("the server is stopping")
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            waiting, self._queue = self._queue, []
        _fail(waiting, stopping)
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        _fail(self._under_way, stopping)

    def _work(self) -> None:
        while batch := self._next_batch():
            try:
                answers = self._call([work.request for work in batch])
                for work, answer in zip(batch, answers, strict=True):
                    work.answer(answer)
                self._broken = False
            except BackendError as e:
                log.warning("%s failed for %d request(s): %s", self.name, len(batch), e)
                _fail(batch, BackendError(str(e) or "no reason given"))
                self._broken = False
            except Exception:
                log.exception("the %s model failed", self.name)
                self._broken = True
                _fail(batch, BackendError(f"the {self.name} model failed: see the server's log"))
            with self._changed:
                self._moved = time.monotonic()
                self._under_way = [work for work in self._under_way if work not in batch]

    def _next_batch(self) -> list[_Work[Q, A]]:
        """Take the next requests, when there are enough or the first has waited; empty when closing."""
        with self._changed:
            while not self._closing:
                self._queue = [work for work in self._queue if not work.future.done()]
                batch = self._in_turn()[: self._bounds.size]
                remaining = batch[0].arrived + self._bounds.wait - time.monotonic() if batch else None
                if remaining is not None and (len(batch) >= self._bounds.size or remaining <= 0):
                    self._queue = [work for work in self._queue if work not in batch]
                    if not self._under_way:
                        self._moved = time.monotonic()
                    self._under_way += batch
                    self._turn += 1
                    here = {work.client for work in self._queue + self._under_way}
                    self._turns |= {work.client: self._turn for work in batch}
                    self._turns = {client: turn for client, turn in self._turns.items() if client in here}
                    return batch
                self._changed.wait(remaining)
        return []

    def _in_turn(self) -> list[_Work[Q, A]]:
        """Order the queue by the requests of the client before each, then by the client's last turn."""
        before = Counter(work.client for work in self._under_way)
        ranks = {}
        for work in self._queue:
            ranks[id(work)] = before[work.client], self._turns.get(work.client, 0)
            before[work.client] += 1
        return sorted(self._queue, key=lambda work: ranks[id(work)])


def _fail(works: Iterable[_Work], reason: BackendError) -> None:
    for work in works:
        work.answer(reason)
