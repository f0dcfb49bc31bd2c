"""A private node that spins in a thread: blocking calls work inside and outside of executors."""

import concurrent.futures
import os
import threading
from collections.abc import Callable

import rclpy
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node

CALL_TIMEOUT = 5.0


class Beside:
    """Owns a node, an executor and, from `start` to `close`, a thread.

    With `neighbour` the node joins that node's context and namespace; else it has a context of its own, so
    that neither `rclpy.init` nor signal handlers are anybody's business, with `args` (those of the command
    line when None) for namespace and remappings.
    """

    def __init__(self, name: str, neighbour: Node | None = None, args: list[str] | None = None) -> None:
        self._owned = None if neighbour is not None else Context()
        if self._owned is not None:
            rclpy.init(context=self._owned, args=args)
        context = self._owned or neighbour.context
        self.node = Node(
            f"{name}_{os.getpid()}_{id(self) % 10**6}",
            context=context,
            namespace=None if neighbour is None else neighbour.get_namespace(),
            start_parameter_services=False,
            enable_rosout=False,
        )
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self.node)
        self._closed = False
        self._thread = threading.Thread(target=self._spin, name=name, daemon=True)

    def start(self) -> None:
        """Spin. Make action clients before: rclpy 9 hands them to the executor before they are whole."""
        self._thread.start()

    def run[T](self, function: Callable[[], T]) -> T:
        """Call a function, which must not raise, in the executor's thread.

        rclpy 9 loses the answer to an action goal that arrives while another thread is still in
        `send_goal_async`; in the executor's own thread nothing can arrive in between.

        Raises:
            RuntimeError: called from the executor's own thread, which would wait for itself.
            TimeoutError: the executor is gone.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a blocking call from within a callback of this node would wait for itself")
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._executor.create_task(lambda: answer.set_result(function()))
        try:
            return answer.result(CALL_TIMEOUT)
        except TimeoutError:
            raise TimeoutError(f"the executor of {self.node.get_name()} does not answer: closed?") from None

    def close(self) -> None:
        """Stop spinning and let go of everything. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._executor.shutdown()
        self._thread.join(CALL_TIMEOUT)
        self.node.destroy_node()
        if self._owned is not None:
            self._owned.try_shutdown()

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except ExternalShutdownException:
            return
