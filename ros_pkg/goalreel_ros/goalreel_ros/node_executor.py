"""The executor of the node, whose entities come and go while it waits and while callbacks run."""

from typing import Any

from rclpy.action.server import RCLError
from rclpy.exceptions import InvalidHandle
from rclpy.executors import MultiThreadedExecutor, TimeoutException
from rclpy.logging import get_logger


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
