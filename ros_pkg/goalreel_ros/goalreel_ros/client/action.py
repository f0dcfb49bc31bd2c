"""An action of the node's, for tasks that want all of their feedback."""

import weakref
from typing import Any, Protocol
from uuid import uuid4

from rclpy.action.client import ActionClient
from rclpy.node import Node
from rclpy.task import Future
from unique_identifier_msgs.msg import UUID

DEPTH = 10
"""Feedback messages that wait for the executor: as many as rclpy's own subscription keeps."""


class FeedbackListener(Protocol):
    """Waits for a task, and takes the feedback on it."""

    def on_feedback(self, message: Any) -> None:
        """Called in the executor's thread."""


class FeedbackActionClient:
    """An `ActionClient` that gives each task its feedback.

    rclpy 9 drops what comes after the result, and feedback and result travel by themselves, in no order. So
    the feedback topic is subscribed to once more.
    """

    def __init__(self, node: Node, kind: Any, name: str) -> None:
        self.client = ActionClient(node, kind, name)
        self._tasks: weakref.WeakValueDictionary[bytes, FeedbackListener] = weakref.WeakValueDictionary()
        node.create_subscription(
            kind.Impl.FeedbackMessage, f"{name}/_action/feedback", self._on_feedback, DEPTH
        )

    def send(self, goal: Any, task: FeedbackListener) -> Future:
        """Its answer, a goal handle. `task` gets the feedback for as long as somebody holds it."""
        name = uuid4().bytes
        self._tasks[name] = task
        return self.client.send_goal_async(goal, goal_uuid=UUID(uuid=list(name)))

    def _on_feedback(self, message: Any) -> None:
        task = self._tasks.get(bytes(message.goal_id.uuid))
        if task is not None:
            task.on_feedback(message.feedback)
