"""A private node that spins in a thread: blocking calls work inside and outside of executors."""

import concurrent.futures
import os
import threading
import time
from collections.abc import Callable

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from goalreel_ros.spin import Spin

CALL_TIMEOUT = 60.0
"""Fast DDS can keep a thread busy for tens of seconds, when a participant ends while others are discovered
(eProsima/Fast-DDS issue 6513)."""
LOOK = 0.2
"""Seconds between looks whether the executor still runs."""


class Beside:
    """Owns a node, an executor and, from `start` to `close`, a thread.

    With `neighbour` the node joins that node's context and namespace; else it has a context of its own, so
    that neither `rclpy.init` nor signal handlers are anybody's business, with `args` (those of the command
    line when None) for namespace and remappings.
    """

    def __init__(self, name: str, neighbour: Node | None = None, args: list[str] | None = None) -> None:
        context = Context() if neighbour is None else neighbour.context
        self._owned = context if neighbour is None else None
        if self._owned is not None:
            rclpy.init(context=self._owned, args=args)
        self._name = f"{name}_{os.getpid()}_{id(self) % 10**6}"
        self.node = Node(
            self._name,
            context=context,
            namespace=None if neighbour is None else neighbour.get_namespace(),
            start_parameter_services=False,
            enable_rosout=False,
        )
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self.node)
        self._spin = Spin(self._executor)
        self._closed = False
        self._thread = threading.Thread(target=self._spin.run, name=name, daemon=True)

    def start(self) -> None:
        """Spin. Make action clients before: rclpy 9 hands them to the executor before they are whole."""
        self._thread.start()

    def run[T](self, function: Callable[[], T]) -> T:
        """Call a function, which must not raise, in the executor's thread.

        rclpy 9 loses the answer to an action goal that arrives while another thread is still in
        `send_goal_async`; in the executor's own thread nothing can arrive in between.

        Raises:
            RuntimeError: called from the executor's own thread, which would wait for itself.
            TimeoutError: the executor has ended, or is busy for longer than `CALL_TIMEOUT`.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a blocking call from within a callback of this node would wait for itself")
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._executor.create_task(lambda: answer.set_result(function()))
        until = time.monotonic() + CALL_TIMEOUT
        while not answer.done() and self._thread.is_alive() and time.monotonic() < until:
            concurrent.futures.wait([answer], LOOK)
        if answer.done():
            return answer.result()
        how = "is busy" if self._thread.is_alive() else "has ended"
        raise TimeoutError(f"the executor of {self._name} {how}")

    def close(self) -> None:
        """Stop spinning and let go of everything. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._spin.stop(self._thread, CALL_TIMEOUT)
        self.node.destroy_node()
        if self._owned is not None:
            self._owned.try_shutdown()
