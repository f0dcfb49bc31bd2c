"""Starts the node, and ends it cleanly on SIGINT and SIGTERM whatever it is doing."""

import gc
import logging
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from goalreel_ros.signals import Stop

if TYPE_CHECKING:
    from goalreel_ros.node import GoalreelNode
    from goalreel_ros.spin import Spin

THREADS = 4
"""Of the executor. Its callbacks never wait, but for a transition that ends a task."""
WAITING = "to wait set"
"""In what rcl says of an entity that is taken away while the executor collects what to wait for."""


def main(args: list[str] | None = None) -> None:
    """Run the node until a signal comes, then end the process.

    `args` are as on the command line, the process's own when None. The exit status is 0, or 1 when the node
    could not start or broke.
    """
    leave(0 if run(_node, args) else 1)


def _node() -> "GoalreelNode":
    from goalreel.models.load import load
    from goalreel_ros.node import GoalreelNode

    # None is loaded here: the engine does, one by one, and says which.
    return GoalreelNode(partial(load, roles=()))


def run(make: Callable[[], "GoalreelNode"], args: list[str] | None = None) -> bool:
    """Make a node and spin it until a signal comes. False when it could not start or broke, which is logged.

    Called in the main thread, once a process.
    """
    # rclpy's own handlers would end the context first, before anyone can tell the policy to stop.
    stop = Stop()
    gc.set_threshold(10_000)  # at Python's 700 it takes a seventh of the time that importing torch takes
    import rclpy
    from rclpy.action.server import RCLError
    from rclpy.exceptions import ParameterException
    from rclpy.impl.implementation_singleton import rclpy_implementation
    from rclpy.logging import get_logger
    from rclpy.signals import SignalHandlerOptions

    ok = False
    try:
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
        ok = stop.asked or _until_stopped(make, stop)
    except rclpy_implementation.UnknownROSArgsError as e:
        get_logger("goalreel").fatal(f"no ROS arguments: {e}")
    except (ParameterException, RCLError) as e:
        get_logger("goalreel").fatal(str(e).splitlines()[0])
    finally:
        rclpy.try_shutdown()
    return ok


def leave(status: int) -> NoReturn:
    """End the process though a model's call may hang in a thread that Python would wait for."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _until_stopped(make: Callable[[], "GoalreelNode"], stop: Stop) -> bool:
    """Spin in a thread, so that this one is there for signals. False when something went wrong."""
    from rclpy.executors import MultiThreadedExecutor
    from rclpy.lifecycle import TransitionCallbackReturn

    from goalreel_ros.spin import Spin

    node = make()
    executor = MultiThreadedExecutor(THREADS)
    executor.add_node(node)
    spin, clean = Spin(executor), threading.Event()
    spinning = threading.Thread(target=_spin, args=(spin, clean, stop), daemon=True)
    spinning.start()
    ok = True
    if node.get_parameter("autostart").value:
        begin = (node.trigger_configure, node.trigger_activate)
        ok = all(step() is TransitionCallbackReturn.SUCCESS for step in begin)
    else:
        node.get_logger().info("unconfigured; configure and activate it")
    if ok:
        stop.wait()
    node.close()
    spin.stop(spinning, timeout=5)
    node.destroy_node()
    return ok and clean.is_set()


def _spin(spin: "Spin", clean: threading.Event, stop: Stop) -> None:
    from rclpy.action.server import RCLError
    from rclpy.exceptions import InvalidHandle
    from rclpy.logging import get_logger

    try:
        while not clean.is_set():
            try:
                spin.run()
            except InvalidHandle:
                # An entity was destroyed between the answer to a request and its sending: no harm.
                continue
            except RCLError as e:
                said = str(e).splitlines()[0]
                if WAITING in said:
                    get_logger("goalreel").debug(said)  # destroyed while being waited for: no harm either
                else:
                    # One message that could not be sent is no reason to let go of the robot.
                    get_logger("goalreel").error(said)
            else:
                clean.set()
    finally:
        stop.ask()


if __name__ == "__main__":
    main()
