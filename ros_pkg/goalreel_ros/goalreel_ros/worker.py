"""One thread that does what the executor and the engine must not wait for, in order."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Worker:
    """Calls functions one after the other. What one of them raises is reported and costs no other."""

    def __init__(self, name: str, report: Callable[[str], object]) -> None:
        self._report = report
        self._pool = ThreadPoolExecutor(1, name)
        self._lock = threading.Lock()
        self._closed = False

    def do(self, function: Callable[[], None]) -> None:
        """Queue a call; after `close` it is dropped."""
        with self._lock:
            if not self._closed:
                self._pool.submit(function).add_done_callback(self._done)

    def close(self) -> None:
        """Finish what is queued."""
        with self._lock:
            self._closed = True
        self._pool.shutdown()

    def _done(self, future: Future[None]) -> None:
        if (error := future.exception()) is not None:
            self._report(f"{type(error).__name__}: {error}")


class Newest[Item]:
    """Calls a function with the newest item only: what came meanwhile is skipped."""

    def __init__(self, name: str, function: Callable[[Item], None], report: Callable[[str], object]) -> None:
        self._function = function
        self._worker = Worker(name, report)
        self._lock = threading.Lock()
        self._waiting: list[Item] = []

    def put(self, item: Item) -> None:
        """Make it the newest."""
        with self._lock:
            idle = not self._waiting
            self._waiting = [item]
        if idle:
            self._worker.do(self._next)

    def close(self) -> None:
        """Finish with the newest item."""
        self._worker.close()

    def _next(self) -> None:
        with self._lock:
            [item], self._waiting = self._waiting, []
        self._function(item)
