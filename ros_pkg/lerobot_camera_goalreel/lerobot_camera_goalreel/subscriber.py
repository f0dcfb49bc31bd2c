"""The newest message of one latched image topic, and whether its publisher is alive."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

LEASE = float(os.environ.get("GOALREEL_LEASE", "1.5"))
"""Seconds of silence after which a publisher counts as gone, as in `goalreel_ros.qos.WATCHED`."""


class Subscriber:
    """Spins a node in a context and a thread of its own until `close`.

    It is independent of other uses of rclpy in the process, and of signal handlers.
    """

    def __init__(self, topic: str) -> None:
        import rclpy
        from rclpy.context import Context
        from rclpy.duration import Duration
        from rclpy.event_handler import SubscriptionEventCallbacks
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy
        from sensor_msgs.msg import CompressedImage

        self.data = b""
        """Data of the newest message; empty before the first, and where there is no picture."""
        self.count = 0
        """Number of messages so far."""
        self._changed = threading.Condition()
        self._publishers = 0
        self._since = time.monotonic()
        self._context = Context()
        rclpy.init(context=self._context)
        name = f"lerobot_camera_goalreel_{os.getpid()}_{id(self) % 10**6}"
        self._node = rclpy.create_node(name, context=self._context, start_parameter_services=False)
        latched = QoSProfile(
            depth=1,
            reliability=ReliabilityPolicy.RELIABLE,
            durability=DurabilityPolicy.TRANSIENT_LOCAL,
            liveliness=LivelinessPolicy.AUTOMATIC,
            liveliness_lease_duration=Duration(nanoseconds=round(LEASE * 1e9)),
        )
        events = SubscriptionEventCallbacks(liveliness=self._on_liveliness)
        self._node.create_subscription(
            CompressedImage, topic, self._on_message, latched, event_callbacks=events
        )
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._closed = False
        self._thread = threading.Thread(target=self._spin, name=name, daemon=True)
        self._thread.start()

    @property
    def absent(self) -> float:
        """Seconds for which there has been no live publisher; 0 while there is one.

        A publisher that is killed or hangs counts as alive until LEASE is over. Then the LEASE is included.
        """
        return 0.0 if self._publishers else max(time.monotonic() - self._since, 1e-9)

    def wait_for_publisher(self, timeout: float) -> bool:
        """Wait for a publisher, and say whether there is one within `timeout` seconds."""
        return self._wait(lambda: self._publishers > 0, timeout)

    def wait_for_message(self, timeout: float) -> bool:
        """Wait for the first message, and say whether there is one within `timeout` seconds."""
        return self._wait(lambda: self.count > 0, timeout)

    def wait_for_change(self, timeout: float) -> None:
        """Wait for a message, or for a publisher to come or go, at most `timeout` seconds."""
        with self._changed:
            self._changed.wait(timeout)

    def close(self) -> None:
        """Stop spinning and destroy the node."""
        # The task wakes the spin: rclpy 9's `shutdown` misses one that is just about to wait.
        self._closed = True
        self._executor.create_task(lambda: None)
        self._thread.join(5)
        self._executor.shutdown()
        self._node.destroy_node()
        self._context.try_shutdown()

    def _spin(self) -> None:
        while not self._closed and self._context.ok():
            self._executor.spin_once()

    def _wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(condition, timeout)

    def _on_message(self, message: Any) -> None:
        with self._changed:
            self.data = bytes(message.data)
            self.count += 1
            self._changed.notify_all()

    def _on_liveliness(self, event: Any) -> None:
        with self._changed:
            if event.alive_count_change:
                self._since = time.monotonic() - (LEASE if event.not_alive_count_change > 0 else 0)
            self._publishers = event.alive_count
            self._changed.notify_all()
