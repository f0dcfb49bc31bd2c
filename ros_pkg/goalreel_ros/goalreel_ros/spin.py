"""Spins an executor in a thread, and ends that thread."""

import threading
from contextlib import suppress

from rclpy.executors import Executor, ExternalShutdownException


class Spin:
    """Executes callbacks in the thread that calls `run`, until another thread calls `stop`.

    rclpy 9's `Executor.shutdown` wakes a spin with a guard condition that it then destroys. A spin that was
    just about to wait misses it, and so whoever joins its thread waits as well.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._stopped = threading.Event()

    def run(self) -> None:
        """Spin until `stop` or the end of the context. After an exception of a callback, call it again."""
        with suppress(ExternalShutdownException):
            while not self._stopped.is_set() and self._executor.context.ok():
                self._executor.spin_once()

    def stop(self, thread: threading.Thread, timeout: float | None = None) -> None:
        """Wait for the thread in `run`, at most `timeout` seconds, and shut the executor down.

        A thread that was never started is not waited for.
        """
        self._stopped.set()
        self._executor.create_task(lambda: None)  # wakes it
        if thread.ident is not None:
            thread.join(timeout)
        self._executor.shutdown(timeout_sec=0.5)
