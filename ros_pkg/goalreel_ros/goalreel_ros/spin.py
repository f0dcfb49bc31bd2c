"""Spinning an executor in a thread, and ending that."""

import threading
from contextlib import suppress

from rclpy.executors import Executor, ExternalShutdownException


class Spin:
    """Executes callbacks in the thread that calls `run`, until another calls `stop`.

    rclpy 9's `Executor.shutdown` wakes a spin with a guard condition that it then takes away: a spin that was
    just about to wait does so until something else happens, and so does whoever joins its thread.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._stopped = threading.Event()

    def run(self) -> None:
        """Until `stop`, or the end of the context. What a callback raises goes through; then run again."""
        with suppress(ExternalShutdownException):
            while not self._stopped.is_set() and self._executor.context.ok():
                self._executor.spin_once()

    def stop(self, thread: threading.Thread, timeout: float | None = None) -> None:
        """Wait for the thread that runs, at most `timeout` seconds, and let go of the executor."""
        self._stopped.set()
        self._executor.create_task(lambda: None)  # wakes it
        thread.join(timeout)
        self._executor.shutdown(timeout_sec=0.5)
