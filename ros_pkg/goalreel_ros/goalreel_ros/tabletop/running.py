"""How a node of this folder runs: one clear line when it cannot start, a clean end on SIGINT and SIGTERM."""

import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import rclpy
from pydantic import BaseModel
from rclpy.exceptions import ParameterException
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from goalreel.errors import UserError
from goalreel_ros.parameters import describe, read

LOOK = 0.1
"""Seconds between two looks at whether a signal came."""


def parameters[Group: BaseModel](node: Node, group: type[Group]) -> Group:
    """Declare one parameter a field, and read them.

    Raises:
        InputError, rclpy.exceptions.ParameterException: a value the group refuses.
    """
    for name, field in group.model_fields.items():
        node.declare_parameter(name, field.default, describe(field))
    return read(node, group)


def run(make: Callable[[], AbstractContextManager[Node]], args: list[str] | None) -> None:
    """Make a node and spin it until a signal comes; exit status 1 when it could not be made."""
    stop = threading.Event()
    # rclpy's own handlers would end the context in the middle of a callback, and its publishing would raise.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO):
        try:
            with make() as node:
                executor = SingleThreadedExecutor()
                executor.add_node(node)
                while not stop.is_set():
                    executor.spin_once(LOOK)
        except (UserError, OSError, ParameterException) as e:
            sys.exit(f"{make.__name__}: {e}")
