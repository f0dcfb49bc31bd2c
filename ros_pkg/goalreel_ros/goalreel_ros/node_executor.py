"""The executor of the node, whose entities come and go while it waits."""

from typing import Any

from rclpy.action.server import RCLError
from rclpy.exceptions import InvalidHandle
from rclpy.executors import MultiThreadedExecutor, TimeoutException
from rclpy.logging import get_logger


class NodeExecutor(MultiThreadedExecutor):
    """Waits again where an entity was destroyed while it prepared to wait.

    Such an error is told from one of a callback by the place that it comes from.
    """

    def wait_for_ready_callbacks(self, *args: Any, **kwargs: Any) -> Any:
        """Return the next callback that is ready."""
        try:
            return super().wait_for_ready_callbacks(*args, **kwargs)
        except (RCLError, InvalidHandle) as e:
            get_logger("goalreel").debug(f"an entity is gone: {e}")
            raise TimeoutException from e  # which ends this round
