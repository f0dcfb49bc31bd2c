"""A private node that spins in a thread, and blocking service calls on it."""

import concurrent.futures
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from goalreel_ros.spin import Spin

CALL_TIMEOUT = 60.0
"""Fast DDS can keep a thread busy for tens of seconds when a participant ends while others are discovered
(eProsima/Fast-DDS issue 6513)."""
POLL_SECONDS = 0.2
"""Seconds between two checks whether the executor still runs."""


class BackgroundNode:
    """Owns a node, an executor and, from `start` to `close`, a thread.

    With `neighbour` the node joins that node's context and namespace. Otherwise it has a context of its own,
    independent of `rclpy.init` and of signal handlers. Its namespace and remappings are then in `args`; None
    takes the process's command line.
    """

    def __init__(self, name: str, neighbour: Node | None = None, args: list[str] | None = None) -> None:
        context = Context() if neighbour is None else neighbour.context
        self._own_context = context if neighbour is None else None
        if self._own_context is not None:
            rclpy.init(context=self._own_context, args=args)
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
        """Spin. Create action clients before: rclpy 9 gives the executor incomplete ones."""
        self._thread.start()

    def run[T](self, function: Callable[[], T]) -> T:
        """Call a function, which must not raise, in the executor's thread, and give its result.

        rclpy 9 loses the answer to an action goal if it arrives while another thread is still in
        `send_goal_async`. In the executor's own thread nothing can arrive in between.

        Raises:
            RuntimeError: the caller is the executor's own thread, which would wait for itself.
            TimeoutError: the executor has ended, or is busy for longer than `CALL_TIMEOUT`.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a blocking call from within a callback of this node would wait for itself")
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._executor.create_task(lambda: answer.set_result(function()))
        deadline = time.monotonic() + CALL_TIMEOUT
        while not answer.done() and self._thread.is_alive() and time.monotonic() < deadline:
            concurrent.futures.wait([answer], POLL_SECONDS)
        if answer.done():
            return answer.result()
        state = "is busy" if self._thread.is_alive() else "has ended"
        raise TimeoutError(f"the executor of {self._name} {state}")

    def close(self) -> None:
        """Stop spinning and destroy the node. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._spin.stop(self._thread, CALL_TIMEOUT)
        self.node.destroy_node()
        if self._own_context is not None:
            self._own_context.try_shutdown()


class Calls:
    """Calls services of the node `server`. `services` gives their types by name.

    All clients are created at once, since a server can answer only a client that it has discovered.
    """

    def __init__(
        self, background: BackgroundNode, server: str, services: Mapping[str, type], timeout: float
    ) -> None:
        self.server = server
        self._background, self._timeout = background, timeout
        create = background.node.create_client
        self._clients = {name: create(kind, f"{server}/{name}") for name, kind in services.items()}

    def __call__(self, name: str, request: Any, timeout: float | None = None) -> Any:
        """Send a request to the service `~/name` and give its response.

        Raises:
            TimeoutError: nobody offers the service, or there is no answer, within `timeout` seconds.
        """
        timeout = self._timeout if timeout is None else timeout
        client = self._clients[name]
        if not client.wait_for_service(timeout):
            raise TimeoutError(f"no node offers {client.srv_name} within {timeout:g} s")
        answered = threading.Event()
        future = self._background.run(lambda: client.call_async(request))
        future.add_done_callback(lambda _: answered.set())
        if not answered.wait(timeout):
            client.remove_pending_request(future)
            raise TimeoutError(f"{client.srv_name} did not answer within {timeout:g} s")
        return future.result()
