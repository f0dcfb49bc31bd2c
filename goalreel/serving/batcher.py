"""Dynamic batching: one thread a model; requests that come close together share one call."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from goalreel.errors import BackendError

log = logging.getLogger(__name__)


class WorkerDead(BackendError):
    """The thread that runs the model is gone, or going."""


class QueueFull(Exception):
    """As many requests wait as may wait. `retry_after`: seconds, at least 1."""

    def __init__(self, name: str, retry_after: int) -> None:
        super().__init__(f"too many requests wait for the {name}: try again in {retry_after} s")
        self.retry_after = retry_after


@dataclass(eq=False)
class _Item[Q, A]:
    request: Q
    key: Hashable
    arrived: float
    future: Future[A] = field(default_factory=Future)


@dataclass(frozen=True)
class BatchBounds:
    """`size` requests a call at most; `wait` seconds for others to join; `queue` may wait."""

    size: int = 16
    wait: float = 0.02
    queue: int = 64


class Batcher[Q, A]:
    """Answers single requests through `call`, which takes a batch and gives answer i to request i.

    A batch goes out when `bounds.size` requests wait, or when the first has waited `bounds.wait` seconds.
    Requests of different `key` never share a call. A BackendError fails its batch and the thread goes on;
    any other error is a bug in the model: the thread ends, `alive` turns False and every waiting and later
    request gets WorkerDead.
    """

    def __init__(
        self,
        name: str,
        call: Callable[[Sequence[Q]], Sequence[A]],
        bounds: BatchBounds,
        *,
        key: Callable[[Q], Hashable] = lambda _: None,
        observe: Callable[[int, float], None] = lambda _size, _seconds: None,
    ) -> None:
        self.name = name
        self._call = call
        self._bounds = bounds
        self._key = key
        self._observe = observe
        self._queue: list[_Item[Q, A]] = []
        self._batch: list[_Item[Q, A]] = []
        self._changed = threading.Condition()
        self._closing = False
        self._seconds = 0.0
        self._thread = threading.Thread(target=self._work, name=f"goalreel-{name}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the model's thread takes requests and answers them."""
        return self._thread.is_alive() and not self._closing

    @property
    def waiting(self) -> int:
        """Requests in the queue, those of the running call not counted."""
        return len(self._queue)

    def check_room(self) -> None:
        """Refuse early, before a request is decoded.

        Raises:
            QueueFull: no room.
            WorkerDead: nobody will answer.
        """
        if not self.alive:
            raise WorkerDead(f"the {self.name} model is not running")
        if len(self._queue) >= self._bounds.queue:
            calls = len(self._queue) / self._bounds.size
            raise QueueFull(self.name, min(60, max(1, math.ceil(calls * self._seconds))))

    def put(self, request: Q, *, bounded: bool = True) -> Future[A]:
        """Queue a request; cancelling the future takes it out again while it waits.

        Raises:
            QueueFull: `bounded` and no room.
            WorkerDead: nobody will answer.
        """
        item = _Item(request, self._key(request), time.monotonic())
        with self._changed:
            if bounded:
                self.check_room()
            elif not self.alive:
                raise WorkerDead(f"the {self.name} model is not running")
            self._queue.append(item)
            self._changed.notify()
        item.future.add_done_callback(lambda f: self._forget(item) if f.cancelled() else None)
        return item.future

    async def ask(self, request: Q, *, bounded: bool = True) -> A:
        """Queue a request and wait for its answer; cancelling takes it out of the queue.

        Raises:
            QueueFull, WorkerDead: as `put`.
            BackendError: the model could not be called.
        """
        return await asyncio.wrap_future(self.put(request, bounded=bounded))

    def close(self, timeout: float = 5.0) -> None:
        """Fail what waits, and after `timeout` seconds also what the model has not answered by then."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._fail_waiting("the server is stopping")
        self._thread.join(timeout)
        self._fail_batch("the server is stopping")

    def _forget(self, item: _Item[Q, A]) -> None:
        with self._changed:
            if item in self._queue:
                self._queue.remove(item)

    def _fail_waiting(self, reason: str) -> None:
        with self._changed:
            waiting, self._queue = self._queue, []
        for item in waiting:
            if item.future.set_running_or_notify_cancel():
                item.future.set_exception(WorkerDead(reason))

    def _fail_batch(self, reason: str) -> None:
        for item in self._batch:
            if not item.future.done():
                item.future.set_exception(WorkerDead(reason))

    def _work(self) -> None:
        try:
            while self._collect():
                self._answer()
        finally:
            with self._changed:
                self._closing = True
            self._fail_batch(f"the {self.name} model died: see the server's log")
            self._fail_waiting(f"the {self.name} model is not running")

    def _collect(self) -> bool:
        """Wait for a batch; False when closing."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._queue or self._closing)
                if self._closing:
                    return False
                first = self._queue[0]
                batch = [i for i in self._queue if i.key == first.key][: self._bounds.size]
                remaining = first.arrived + self._bounds.wait - time.monotonic()
                if len(batch) < self._bounds.size and remaining > 0:
                    self._changed.wait(remaining)
                    continue
                self._queue = [i for i in self._queue if i not in batch]
                self._batch = [i for i in batch if i.future.set_running_or_notify_cancel()]
                if self._batch:
                    return True

    def _answer(self) -> None:
        batch, started = self._batch, time.monotonic()
        try:
            answers = self._call([i.request for i in batch])
        except BackendError as e:
            log.warning("%s failed for %d request(s): %s", self.name, len(batch), e)
            answers = [BackendError(str(e) or "no reason given") for _ in batch]
        self._seconds = time.monotonic() - started
        self._observe(len(batch), self._seconds)  # first: who has an answer finds it counted
        self._finish(answers)

    def _finish(self, answers: Sequence[A | BackendError]) -> None:
        if len(answers) != len(self._batch):
            raise ValueError(f"{self.name}: {len(self._batch)} requests but {len(answers)} answers")
        for item, answer in zip(self._batch, answers, strict=True):
            if item.future.done():
                continue  # given up by close()
            if isinstance(answer, BackendError):
                item.future.set_exception(answer)
            else:
                item.future.set_result(answer)
        self._batch = []
