"""Threads for work that the executor and the engine must not wait for."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Worker:
    """Calls functions one after the other in one thread. An exception is reported and does not stop it."""

    def __init__(self, name: str, report: Callable[[str], object]) -> None:
        self._report = report
        self._pool = ThreadPoolExecutor(1, name)
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, function: Callable[[], None]) -> None:
        """Queue a call. After `close` it is dropped."""
        with self._lock:
            if not self._closed:
                self._pool.submit(function).add_done_callback(self._check)

    def close(self) -> None:
        """Finish the queued calls."""
        with self._lock:
            self._closed = True
        self._pool.shutdown()

    def _check(self, future: Future[None]) -> None:
        if (error := future.exception()) is not None:
            self._report(f"{type(error).__name__}: {error}")


class NewestItemWorker[Item]:
    """Calls a function with the newest item only. Older pending items are skipped."""

    def __init__(self, name: str, function: Callable[[Item], None], report: Callable[[str], object]) -> None:
        self._function = function
        self._worker = Worker(name, report)
        self._lock = threading.Lock()
        self._pending: list[Item] = []

    def put(self, item: Item) -> None:
        """Replace the pending item, if any, by this one."""
        with self._lock:
            idle = not self._pending
            self._pending = [item]
        if idle:
            self._worker.submit(self._next)

    def close(self) -> None:
        """Finish the pending item."""
        self._worker.close()

    def _next(self) -> None:
        with self._lock:
            [item], self._pending = self._pending, []
        self._function(item)
