"""Queues of models: requests that come close together share one call, and clients take turns."""

import asyncio
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field

from goalreel.concurrency import BatchEngine, WorkItem
from goalreel.errors import BackendError

log = logging.getLogger(__name__)


class WorkerDead(BackendError):
    """The model's threads are gone, or going."""


class QueueFull(Exception):
    """The queue is full. `retry_after`: seconds, at least 1."""

    def __init__(self, name: str, retry_after: int) -> None:
        super().__init__(f"too many requests wait for the {name}: try again in {retry_after} s")
        self.retry_after = retry_after


@dataclass(eq=False)
class Work[Q, A]:
    """One request, and the future of its answer."""

    request: Q
    client: Hashable
    key: Hashable
    arrived: float = field(default_factory=time.monotonic)
    future: Future[A] = field(default_factory=Future)

    @property
    def abandoned(self) -> bool:
        """True if nobody waits any more."""
        return self.future.done()

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
    """Answers single requests through engines, each made and used in a thread of its own.

    One engine is the rule. Several answer side by side, so that a long request holds up its own engine alone:
    for models behind servers, which lose nothing by it. A batch goes out when there are as many requests as
    the engine has room for, or when the first has waited `bounds.wait` seconds. Requests of different `key`
    never go out together. Clients take turns: one with many requests does not hold up one with few. `observe`
    gets the number of requests and the seconds of each turn.

    An engine is made at the first request; where it cannot be, what waits fails, and the next request tries
    again. A BackendError of a call fails its batch. Any other error is a bug in the model: all that its
    engine holds fails, the engine is made anew, and `alive` is False until the model answers again.
    """

    def __init__(
        self,
        name: str,
        engines: Sequence[Callable[[], BatchEngine[Q, A]]],
        bounds: BatchBounds,
        *,
        key: Callable[[Q], Hashable] | None = None,
        observe: Callable[[int, float], None] = lambda _size, _seconds: None,
    ) -> None:
        self.name = name
        self._bounds, self._key, self._observe = bounds, key, observe
        self._queue: list[Work[Q, A]] = []
        self._under_way: list[Work[Q, A]] = []
        self._changed = threading.Condition()
        self._closing = self._broken = self._making = False
        self._turn = 0
        self._turns: dict[Hashable, int] = {}
        """The last turn of each client that is here."""
        self._pace = 0.0
        """Seconds a request, lately."""
        self._moved = self._answered = time.monotonic()
        """The last time that an engine took a turn or had nothing to do."""
        self._threads = [
            threading.Thread(target=self._work, args=(make,), name=f"goalreel-{name}", daemon=True)
            for make in engines
        ]
        for thread in self._threads:
            thread.start()

    @property
    def alive(self) -> bool:
        """True if the model takes requests, and its last turn did not end in a bug."""
        return not self._closing and not self._broken

    @property
    def waiting(self) -> int:
        """Requests in the queue, those under way not counted."""
        return len(self._queue)

    @property
    def under_way(self) -> int:
        """Requests that the model is answering."""
        return sum(not work.abandoned for work in self._under_way)

    @property
    def silent_seconds(self) -> float:
        """Seconds that requests wait for an engine to be made, or for its next token or answer."""
        waits = self._under_way or (self._making and self._queue)
        return time.monotonic() - self._moved if waits else 0.0

    def check_room(self, client: Hashable = None) -> None:
        """Refuse early, before a request is decoded.

        Raises:
            QueueFull: no room, and no client has more requests in the queue than this one.
            WorkerDead: nobody will answer.
        """
        if self._closing:
            raise WorkerDead(f"the {self.name} model is not running")
        if len(self._queue) >= self._bounds.queue:
            waiting = Counter(work.client for work in list(self._queue))
            if max(waiting.values(), default=0) <= waiting[client] + 1:
                raise self._full()

    def put(self, request: Q, *, client: Hashable = None, bounded: bool = True) -> Future[A]:
        """Queue a request; cancelling the future takes it back, wherever it is.

        Where the queue is full, the last request of the client with most of them is refused instead.

        Raises:
            QueueFull: `bounded` and no room.
            WorkerDead: nobody will answer.
        """
        work: Work[Q, A] = Work(request, client, self._key(request) if self._key else None)
        with self._changed:
            if bounded or self._closing:
                self.check_room(client)
            if bounded and len(self._queue) >= self._bounds.queue:
                busiest, _ = Counter(work.client for work in self._queue).most_common(1)[0]
                refused = next(work for work in reversed(self._queue) if work.client == busiest)
                self._queue.remove(refused)
                refused.answer(self._full())
            self._queue.append(work)
            self._changed.notify()
        work.future.add_done_callback(lambda f: self._forget(work) if f.cancelled() else None)
        return work.future

    async def ask(self, request: Q, *, client: Hashable = None, bounded: bool = True) -> A:
        """Queue a request and wait for its answer; cancelling takes it back.

        Raises:
            QueueFull, WorkerDead: as `put`.
            BackendError: the model could not be called.
        """
        return await asyncio.wrap_future(self.put(request, client=client, bounded=bounded))

    def close(self, timeout: float = 5.0) -> None:
        """Fail what waits, and after `timeout` seconds also what the model has not answered by then."""
        self._stop(WorkerDead("the server is stopping"))
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        _fail(self._under_way, WorkerDead("the server is stopping"))

    def _full(self) -> QueueFull:
        return QueueFull(self.name, min(60, max(1, math.ceil(len(self._queue) * self._pace))))

    def _forget(self, work: Work[Q, A]) -> None:
        with self._changed:
            if work in self._queue:
                self._queue.remove(work)

    def _stop(self, reason: BackendError) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._fail_waiting(reason)

    def _fail_waiting(self, reason: BackendError) -> None:
        with self._changed:
            waiting, self._queue = self._queue, []
        _fail(waiting, reason)

    # -- in the engines' threads

    def _work(self, make: Callable[[], BatchEngine[Q, A]]) -> None:
        engine: BatchEngine[Q, A] | None = None
        held: list[Work[Q, A]] = []
        try:
            while not self._closing:
                if engine is None:
                    engine = self._made(make)
                    continue
                started, size = time.monotonic(), 0
                try:
                    batch = self._next_batch(engine)
                    held = [work for work in held if not work.abandoned] + batch
                    started = time.monotonic()
                    if batch:
                        engine.start(batch)
                    size = engine.step()
                    self._broken = False
                except Exception:
                    log.exception("the %s model failed", self.name)
                    self._broken = True
                    _fail(held, BackendError(f"the {self.name} model failed: see the server's log"))
                    engine = None
                self._note(size, started)
        finally:  # at the end of the server
            reason = WorkerDead(f"the {self.name} model is not running")
            self._stop(reason)
            _fail(held, reason)

    def _made(self, make: Callable[[], BatchEngine[Q, A]]) -> BatchEngine[Q, A] | None:
        """Make an engine at the first request; None when closing, and where it cannot be made."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            self._making, self._moved = True, time.monotonic()
        try:
            return None if self._closing else make()
        except BackendError as e:
            self._fail_waiting(e)
        except Exception:
            log.exception("the %s model cannot be made", self.name)
            self._broken = True
            self._fail_waiting(BackendError(f"the {self.name} model failed: see the server's log"))
        finally:
            self._making = False
        return None

    def _next_batch(self, engine: BatchEngine[Q, A]) -> list[Work[Q, A]]:
        """Take what the engine has room for; wait while there is nothing to do. Empty when closing."""
        while True:
            # Without the lock: it may copy a cache.
            room = engine.room(self._bounds.size) if self._queue else 0
            with self._changed:
                batch = self._first(room) if room and self._queue and not self._closing else []
                remaining = batch[0].arrived + self._bounds.wait - time.monotonic() if batch else 0.0
                if batch and (len(batch) >= room or remaining <= 0):
                    self._take(batch)
                    return batch
                if engine.busy or self._closing:
                    return []
                self._changed.wait(remaining if self._queue else None)

    def _first(self, room: int) -> list[Work[Q, A]]:
        """Choose the next batch. That request goes first whose client has fewer before it or under way.

        Where they have as many, the client goes first whose last turn was longer ago.
        """
        turns = Counter(work.client for work in self._under_way)
        ranked = []
        for work in self._queue:
            ranked.append((turns[work.client], self._turns.get(work.client, 0), work))
            turns[work.client] += 1
        ordered = [work for *_, work in sorted(ranked, key=lambda rank: rank[:2])]
        return [work for work in ordered if work.key == ordered[0].key][:room]

    def _take(self, batch: Sequence[Work[Q, A]]) -> None:
        self._queue = [work for work in self._queue if work not in batch]
        if not self._under_way:
            self._moved = self._answered = time.monotonic()
        self._under_way += batch
        self._turn += 1
        self._turns |= {work.client: self._turn for work in batch}
        present = {work.client for work in (*self._queue, *self._under_way)}
        self._turns = {client: turn for client, turn in self._turns.items() if client in present}

    def _note(self, size: int, started: float) -> None:
        with self._changed:
            self._moved = time.monotonic()
            if size:
                self._observe(size, self._moved - started)
            under_way = [work for work in self._under_way if not work.abandoned]
            if answered := len(self._under_way) - len(under_way):
                self._pace += 0.2 * ((self._moved - self._answered) / answered - self._pace)
                self._answered = self._moved
            self._under_way = under_way


def _fail(works: Iterable[Work], reason: BackendError) -> None:
    for work in works:
        work.answer(reason)


class CallEngine[Q, A]:
    """An engine of whole batches: `call` gives answer i to request i. A BackendError fails its batch."""

    def __init__(self, name: str, call: Callable[[Sequence[Q]], Sequence[A]]) -> None:
        self._name, self._call = name, call
        self._works: Sequence[WorkItem[Q, A]] = ()

    @property
    def busy(self) -> bool:
        """True if a batch is to be answered."""
        return bool(self._works)

    def room(self, limit: int) -> int:
        """Take one batch at a time."""
        return 0 if self._works else limit

    def start(self, works: Sequence[WorkItem[Q, A]]) -> None:
        """Take a batch."""
        self._works = works

    def step(self) -> int:
        """Call the model with the batch."""
        works, self._works = [work for work in self._works if not work.abandoned], ()
        if not works:
            return 0
        try:
            answers: Sequence[A | BackendError] = self._call([work.request for work in works])
        except BackendError as e:
            log.warning("%s failed for %d request(s): %s", self._name, len(works), e)
            answers = [BackendError(str(e) or "no reason given") for _ in works]
        if len(answers) != len(works):
            raise ValueError(f"{self._name}: {len(works)} requests but {len(answers)} answers")
        for work, answer in zip(works, answers, strict=True):
            work.answer(answer)
        return len(works)
