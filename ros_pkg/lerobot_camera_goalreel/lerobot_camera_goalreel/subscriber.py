"""The newest goal image of one latched topic, and whether its publisher is alive."""

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from .config_goalreel import GoalreelCameraConfig

LOG = logging.getLogger(__name__)


class Subscriber:
    """Spins a node in a context and a thread of its own until `close`.

    It is independent of other uses of rclpy in the process, and of signal handlers.

    Raises:
        ImportError: the settings refuse goals, and goalreel_interfaces is not installed.
        RuntimeError: the middleware has no liveliness events, and there is no heartbeat to go by.
    """

    def __init__(self, config: GoalreelCameraConfig) -> None:
        import rclpy
        from rclpy.context import Context
        from rclpy.executors import SingleThreadedExecutor
        from sensor_msgs.msg import CompressedImage

        from goalreel_ros.liveliness import LiveSubscription

        self.data = b""
        """The JPEG to be shown; empty where there is no picture, and where its goal is refused."""
        self.count = 0
        """Number of changes so far: messages, and losses of the publisher."""
        self._config = config
        self._picture: Any = None
        self._goal: Any = None
        self._refused: Any = None
        """Stamp of the newest goal that was refused."""
        self._context = Context()
        rclpy.init(context=self._context)
        name = f"lerobot_camera_goalreel_{os.getpid()}_{id(self) % 10**6}"
        self._node = rclpy.create_node(name, context=self._context, start_parameter_services=False)
        try:
            self._topic = LiveSubscription(
                self._node,
                CompressedImage,
                config.topic,
                self._on_picture,
                self._forget_picture,
                heartbeat=config.heartbeat,
            )
            if config.goal_topic:
                from goalreel_interfaces.msg import StoryboardStep, SubGoal

                self._verified = StoryboardStep.IMAGE_VERIFIED
                LiveSubscription(
                    self._node,
                    SubGoal,
                    config.goal_topic,
                    self._on_goal,
                    self._forget_goal,
                    heartbeat=config.heartbeat,
                )
        except BaseException:
            self._node.destroy_node()
            self._context.try_shutdown()
            raise
        self._changed = self._topic.changed
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._closed = False
        self._thread = threading.Thread(target=self._spin, name=name, daemon=True)
        self._thread.start()

    @property
    def absent(self) -> float:
        """Seconds for which there has been no live publisher; 0 while there is one.

        A publisher that is killed or hangs counts as alive until the lease is over, which is then included.
        """
        return 0.0 if self._topic.alive else max(time.monotonic() - self._topic.last_sign, 1e-9)

    def wait_for_publisher(self, timeout: float) -> bool:
        """Wait for a publisher, and say whether there is one within `timeout` seconds."""
        return self._wait(lambda: self._topic.alive, timeout)

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

    # -- in the executor's thread

    def _on_picture(self, message: Any) -> None:
        self._picture = message
        self._show()

    def _on_goal(self, message: Any) -> None:
        self._goal = message
        if self._picture is not None and self._picture.header.stamp != message.header.stamp:
            self._picture = None  # of the goal before
        if refusal := self._refusal(message):
            self._refused = message.header.stamp
            LOG.warning("the goal %r is not shown: %s", message.name, refusal)
        self._show()

    def _forget_picture(self) -> None:
        self._picture = None
        self._show()

    def _forget_goal(self) -> None:
        self._goal = None
        self._show()

    def _show(self) -> None:
        data = b"" if self._picture is None or not self._fits() else bytes(self._picture.data)
        with self._changed:
            self.data = data
            self.count += 1
            self._changed.notify_all()

    def _fits(self) -> bool:
        """Whether the picture is that of a goal that is not refused. The two come in no fixed order."""
        if not self._config.goal_topic:
            return True
        # A picture that follows the camera has the stamp of its frame, any other one that of its goal.
        is_late = self._picture.header.stamp == self._refused
        return self._goal is not None and self._goal.active and not self._refusal(self._goal) and not is_late

    def _refusal(self, goal: Any) -> str:
        """Why the settings refuse the goal, or nothing."""
        if not goal.active:
            return ""
        if self._config.require_verified and goal.image_status != self._verified:
            return "no critic accepted its picture"
        return "; ".join(goal.degraded) if self._config.refuse_degraded else ""
