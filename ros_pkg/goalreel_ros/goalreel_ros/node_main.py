"""Runs a node of this package: one clear line when it cannot start, a clean end on SIGINT and SIGTERM."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import rclpy
from rclpy.exceptions import ParameterException
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from goalreel.errors import UserError
from goalreel.settings import Settings
from goalreel.streaming.parameters import parameters_of
from goalreel_ros.parameters import describe

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
