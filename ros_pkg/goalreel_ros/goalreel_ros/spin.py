"""Spins executors: in a thread that ends, past entities that are gone, or until a signal comes."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import rclpy
from rclpy.action.server import RCLError
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

from goalreel.errors import UserError
from goalreel.settings import Settings
from goalreel.streaming.settings import parameters_of
from goalreel_ros.parameters import describe


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


class NodeExecutor(MultiThreadedExecutor):
    """Goes on where an entity was destroyed that it was about to wait for, or that a callback needed.

    While one thread cleans the node up, another may be in the middle of a timer's callback or of an answer.
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


POLL_SECONDS = 0.1
"""Seconds between two checks whether a signal came."""


def declare_options[Options: Settings](node: Node, options: type[Options]) -> Options:
    """Declare one parameter per field, and read them all.

    Raises:
        SettingError: a value is not valid.
        rclpy.exceptions.ParameterException: an override has the wrong type or is out of range.
    """
    parameters = parameters_of(options)
    for parameter in parameters.values():
        node.declare_parameter(parameter.name, parameter.default, describe(parameter))
    return options.read({name: node.get_parameter(name).value for name in parameters})


def run_node(make: Callable[[], Node], args: list[str] | None) -> None:
    """Make a node, spin it until a signal comes, and destroy it. The exit status is as that of `run`."""

    @contextmanager
    def made() -> Iterator[Node]:
        node = make()
        try:
            yield node
        finally:
            node.destroy_node()

    run(made, args)


def run(make: Callable[[], AbstractContextManager[Node]], args: list[str] | None) -> None:
    """Make a node and spin it until a signal comes. The exit status is 1 if it could not be made.

    `args` are those of the command line; None takes the process's own.
    """
    stop = threading.Event()
    # rclpy's own handlers would end the context during a callback, whose publishing would then raise.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO):
        try:
            with make() as node:
                executor = SingleThreadedExecutor()
                executor.add_node(node)
                while not stop.is_set():
                    executor.spin_once(POLL_SECONDS)
        except (UserError, OSError, ParameterException) as e:
            sys.exit(f"{Path(sys.argv[0]).stem}: {e}")
