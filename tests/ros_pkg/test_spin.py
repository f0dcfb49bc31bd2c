"""Check what a spin that is broken off says, and that it goes on."""

import signal
import threading

import pytest
import rclpy.logging
from rclpy.action.server import RCLError
from rclpy.exceptions import InvalidHandle
from rclpy.executors import MultiThreadedExecutor
from rclpy.node import Node
from std_msgs.msg import String
from support.cli import kept_signals
from support.wait import until

from goalreel_ros.main import _spin
from goalreel_ros.spin import NodeExecutor, rclpy_until_signal, run

UNSENT = "Failed to send a message: cannot publish data, at publisher.c:1"
UNREADABLE = ValueError("Seconds value must not be negative")


class Broken:
    """Spins that raise what is given, one after the other, and then one that ends."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def run(self) -> None:
        if self.errors:
            raise self.errors.pop(0)


def test_one_message_that_cannot_be_sent_or_read_does_not_end_the_node(monkeypatch):
    logged = []
    logger = rclpy.logging.get_logger("goalreel")
    monkeypatch.setattr(type(logger), "error", lambda self, text, **_: logged.append(text))
    clean, stop = threading.Event(), threading.Event()
    _spin(Broken(RCLError(UNSENT), UNREADABLE), clean, stop)
    assert clean.is_set()
    assert stop.is_set()
    assert logged == [f"a message is left out: {error}" for error in (UNSENT, UNREADABLE)]


def test_what_fails_while_the_executor_prepares_to_wait_is_tried_again(context, monkeypatch):
    """An entity that a transition destroys meanwhile."""
    executor, waits = NodeExecutor(2, context=context), []
    original = MultiThreadedExecutor.wait_for_ready_callbacks

    def wait(self, *args, **kwargs):
        waits.append(args)
        if len(waits) == 1:
            raise InvalidHandle("gone")
        return original(self, *args, **kwargs)

    monkeypatch.setattr(MultiThreadedExecutor, "wait_for_ready_callbacks", wait)
    executor.spin_once(0)
    executor.spin_once(0)
    assert len(waits) == 2
    executor.shutdown()


def test_a_callback_whose_publisher_was_destroyed_meanwhile_does_not_end_the_spin(context):
    """The clean-up destroys the topics while the executor's other threads are in the middle of a report."""
    node, executor, calls = Node("busy", context=context), NodeExecutor(2, context=context), []
    executor.add_node(node)
    publisher = node.create_publisher(String, "report", 1)

    def report() -> None:
        calls.append(1)
        node.destroy_publisher(publisher)
        publisher.publish(String())

    node.create_timer(0.01, report)
    until(lambda: executor.spin_once(0.05) or len(calls) > 2)
    executor.shutdown()
    node.destroy_node()


def test_two_signals_at_once_do_not_hang_and_a_callback_fails_in_one_line(monkeypatch):
    with kept_signals():
        with rclpy_until_signal([]) as stop:
            monkeypatch.setattr(stop._cond, "notify_all", lambda: signal.raise_signal(signal.SIGTERM))
            signal.raise_signal(signal.SIGINT)
            assert stop.is_set()

        class Failing(Node):
            def __init__(self):
                super().__init__("failing")
                self.create_timer(0.01, self.fail)

            def fail(self):
                raise OSError("the disk is full")

        with pytest.raises(SystemExit, match="the disk is full"):
            run(Failing, [])
