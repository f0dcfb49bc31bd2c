"""Starts the node, and ends it cleanly on SIGINT and SIGTERM whatever it is doing."""

import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rclpy.executors import Executor

THREADS = 4
"""Of the executor. Its callbacks never wait, but for a transition that ends a task."""


def main(args: list[str] | None = None) -> None:
    """Run until a signal comes. `args` as on the command line, that of the process when None.

    Exit status 0 after a signal, 1 when the node could not start or broke.
    """
    stop = threading.Event()
    # rclpy's own handlers would end the context first, before anyone can tell the policy to stop.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    import rclpy
    from rclpy.action.server import RCLError
    from rclpy.exceptions import ParameterException
    from rclpy.logging import get_logger
    from rclpy.signals import SignalHandlerOptions

    ok = False
    try:
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
        ok = stop.is_set() or _run(stop)
    except (ParameterException, RCLError) as e:
        get_logger("goalreel").fatal(str(e).splitlines()[0])
    finally:
        rclpy.try_shutdown()
    if not ok:
        sys.exit(1)


def _run(stop: threading.Event) -> bool:
    """Spin in a thread, so that this one is there for signals. False when something went wrong."""
    from rclpy.executors import MultiThreadedExecutor
    from rclpy.lifecycle import TransitionCallbackReturn

    from goalreel_ros.node import GoalreelNode

    node = GoalreelNode()
    executor = MultiThreadedExecutor(THREADS)
    executor.add_node(node)
    clean = threading.Event()
    spinning = threading.Thread(target=_spin, args=(executor, stop, clean), name="executor", daemon=True)
    spinning.start()
    ok = True
    if node.options.autostart:
        begin = (node.trigger_configure, node.trigger_activate)
        ok = all(step() is TransitionCallbackReturn.SUCCESS for step in begin)
    if ok:
        stop.wait()
    stop.set()
    node.close()
    executor.shutdown(timeout_sec=0.5)
    spinning.join(0.5)
    node.destroy_node()
    return ok and clean.is_set()


def _spin(executor: "Executor", stop: threading.Event, clean: threading.Event) -> None:
    from rclpy.exceptions import InvalidHandle

    try:
        while not stop.is_set():
            try:
                executor.spin()
            except InvalidHandle:
                # An entity was destroyed between the answer to a request and its sending: no harm.
                continue
        clean.set()
    finally:
        stop.set()


if __name__ == "__main__":
    main()
