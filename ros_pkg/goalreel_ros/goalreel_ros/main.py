# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""Runs the node, and ends it cleanly on SIGINT and SIGTERM whatever it is doing."""

import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from goalreel.errors import UserError, first_line

if TYPE_CHECKING:
    from goalreel_ros.node import GoalreelNode
    from goalreel_ros.spin import Spin


def main(args: list[str] | None = None) -> None:
    """Run the node until a signal comes, then end the process.

    `args` are those of the command line; None takes the process's own. The exit status is 0, or 1 if the node
    could not start or failed.
    """

    def make() -> "GoalreelNode":
        from goalreel.models.load import load
        from goalreel_ros.node import GoalreelNode

        # No model is loaded here: the engine loads them one by one and reports which.
        return GoalreelNode(partial(load, roles=()))

    leave(0 if run(make, args) else 1)


def run(make: Callable[[], "GoalreelNode"], args: list[str] | None = None) -> bool:
    """Make a node and spin it until a signal comes. Returns False if it could not start or failed; logs why.

    Call it in the main thread, once per process.
    """
    # rclpy's own handlers would end the context first, before the policy can be stopped. The event is looked
    # at and never waited for, and set by the first signal alone: a handler may interrupt the very code that
    # holds its lock.
    stop, first = threading.Event(), iter([True])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: next(first, False) and stop.set())
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # both: imports take a fifth less time
    gc.set_threshold(10_000, 50)
    import rclpy
    from rclpy.action.server import RCLError
    from rclpy.exceptions import ParameterException
    from rclpy.logging import get_logger
    from rclpy.signals import SignalHandlerOptions

    log, ok = get_logger("goalreel"), False
    try:
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as e:  # of an argument; its own class has no public name
        log.fatal(first_line(e))
        return False
    try:
        ok = stop.is_set() or _run_until_stopped(make, stop)
    except (ParameterException, RCLError, UserError) as e:
        log.fatal(first_line(e))
    finally:
        rclpy.try_shutdown()
    return ok


def leave(status: int) -> NoReturn:
    """End the process at once: a model's call may hang in a thread that Python would wait for."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _run_until_stopped(make: Callable[[], "GoalreelNode"], stop: threading.Event) -> bool:
    """Spin in a thread, so that this one can wait for signals. Returns False if something failed."""
    from rclpy.lifecycle import TransitionCallbackReturn

    from goalreel_ros.spin import NodeExecutor, Spin

    node = make()
    executor = NodeExecutor(4)  # its callbacks never wait, except for transitions, one at a time
    executor.add_node(node)
    spin, clean, failed = Spin(executor), threading.Event(), threading.Event()
    spinning = threading.Thread(target=_spin, args=(spin, clean, stop), daemon=True)
    spinning.start()

    def start() -> None:
        for transition in (node.trigger_configure, node.trigger_activate):
            if not stop.is_set() and transition() is not TransitionCallbackReturn.SUCCESS:
                if not stop.is_set():
                    failed.set()
                return stop.set()

    # Not in this thread, which waits for signals: the models may take minutes to load.
    starting = threading.Thread(target=start, name="goalreel-start", daemon=True)
    if node.get_parameter("autostart").value:
        starting.start()
    else:
        node.get_logger().info("unconfigured; configure and activate it")
    while not stop.is_set():
        time.sleep(0.05)
    node.close()
    if starting.ident is not None:
        starting.join(1)
    spin.stop(spinning, timeout=5)
    node.destroy_node()
    return clean.is_set() and not failed.is_set()


def _spin(spin: "Spin", clean: threading.Event, stop: threading.Event) -> None:
    from rclpy.action.server import RCLError
    from rclpy.logging import get_logger

    log = get_logger("goalreel")
    try:
        while not clean.is_set():
            try:
                spin.run()
            except RCLError as e:
                # One message that could not be sent is no reason to stop the robot.
                log.error(f"a message is left out: {first_line(e)}")
            except ValueError as e:
                # Nor is one that holds what rclpy cannot read, such as a /clock before zero.
                log.error(f"a message is left out: {first_line(e)}", throttle_duration_sec=5)
            else:
                clean.set()
    finally:
        stop.set()


if __name__ == "__main__":
    main()
