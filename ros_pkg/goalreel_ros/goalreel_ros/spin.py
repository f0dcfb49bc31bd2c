# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""Spins executors: in a thread that ends, past entities that are gone, or until a signal comes.

It imports nothing of goalreel itself, which need not be there where a policy runs.
"""

import concurrent.futures
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import rclpy
from rclpy.action.server import RCLError
from rclpy.context import Context
from rclpy.exceptions import InvalidHandle, ParameterException
from rclpy.executors import (
    Executor,
    ExternalShutdownException,
    MultiThreadedExecutor,
    SingleThreadedExecutor,
    TimeoutException,
)
from rclpy.logging import get_logger
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

POLL_SECONDS = 0.1
"""Seconds between two checks whether a signal came, or an executor ended."""


class Spin:
    """Executes callbacks in the thread that calls `run`, until another thread calls `stop`.

    rclpy 9's `Executor.shutdown` would not wake a spin that was just about to wait.
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
        """Wait for the thread in `run`, if started, at most `timeout` s, and shut the executor down."""
        self._stopped.set()
        self._executor.create_task(lambda: None)  # wakes it
        if thread.ident is not None:
            thread.join(timeout)
        self._executor.shutdown(timeout_sec=0.5)


class NodeExecutor(MultiThreadedExecutor):
    """Goes on where another thread destroyed an entity that it was about to wait for, or a callback needed.

    An RCLError of a callback, which says that a message could not be sent, is raised.
    """

    def wait_for_ready_callbacks(self, *args: Any, **kwargs: Any) -> Any:
        """Return the next callback that is ready."""
        try:
            return super().wait_for_ready_callbacks(*args, **kwargs)
        except (RCLError, InvalidHandle) as e:
            _log(e)
            raise TimeoutException from e  # which ends this round

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Execute the next callback that is ready within `timeout_sec` seconds."""
        try:
            super().spin_once(timeout_sec)
        except InvalidHandle as e:
            _log(e)


def _log(error: Exception) -> None:
    get_logger("goalreel").debug(f"an entity is gone: {error}")


CALL_TIMEOUT = 60.0
"""Fast DDS can keep a thread busy for tens of seconds when a participant ends while others are discovered
(eProsima/Fast-DDS issue 6513)."""


class BackgroundNode:
    """Owns a node, an executor and, from `start` to `close`, a thread.

    With `neighbour` the node joins that node's context and namespace. Otherwise it has a context of its own,
    and its namespace and remappings are in `args`; None takes the process's command line. `options` are the
    node's; without any, its name is made unique.
    """

    def __init__(
        self, name: str, neighbour: Node | None = None, args: list[str] | None = None, **options: Any
    ) -> None:
        context = Context() if neighbour is None else neighbour.context
        self._own_context = context if neighbour is None else None
        if neighbour is None:
            rclpy.init(context=context, args=args)
        self._name = name if options else f"{name}_{os.getpid()}_{id(self) % 10**6}"
        self.node = Node(
            self._name,
            context=context,
            namespace=None if neighbour is None else neighbour.get_namespace(),
            start_parameter_services=False,
            enable_rosout=False,
            **options,
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

        rclpy 9 loses the answer to an action goal that arrives while another thread is in `send_goal_async`.

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
    """Calls services of the node `server`, whose types `services` gives by name.

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


@contextmanager
def rclpy_until_signal(args: list[str] | None) -> Iterator[threading.Event]:
    """Start rclpy for the block, and give what SIGINT and SIGTERM set. `args`: None takes the process's own.

    rclpy's own handlers would end the context during a callback, whose publishing would then raise.
    """
    stop = threading.Event()
    first = iter([True])  # a second signal may interrupt the handler of the first, which holds the lock
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: next(first, False) and stop.set())
    with rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO):
        yield stop


def run(make: Callable[[], Node], args: list[str] | None) -> None:
    """Make a node, spin it until a signal comes, and destroy it. The exit status is 1 if it fails."""
    from goalreel.errors import UserError

    with rclpy_until_signal(args) as stop:
        try:
            node, executor = make(), SingleThreadedExecutor()
            executor.add_node(node)
            while not stop.is_set():
                executor.spin_once(POLL_SECONDS)
            node.destroy_node()
        except (UserError, OSError, ParameterException) as e:
            sys.exit(f"{Path(sys.argv[0]).stem}: {e}")
