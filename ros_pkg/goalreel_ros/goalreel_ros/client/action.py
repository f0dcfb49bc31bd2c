"""An action client whose tasks get all of their feedback."""

import weakref
from typing import Any, Protocol
from uuid import uuid4

from rclpy.action.client import ActionClient
from rclpy.node import Node
from rclpy.task import Future
from unique_identifier_msgs.msg import UUID

DEPTH = 10
"""Feedback messages that wait for the executor: as many as in rclpy's own subscription."""


class FeedbackListener(Protocol):
    """Receives the feedback on one task."""

    def on_feedback(self, message: Any) -> None:
        """Receive a message; called in the executor's thread."""


class FeedbackActionClient:
    """An `ActionClient` that gives each task all of its feedback.

    rclpy 9 drops feedback that arrives after the result, and the two are sent in no fixed order. So this
    client subscribes to the feedback topic once more.
    """

    def __init__(self, node: Node, kind: Any, name: str) -> None:
        self.client = ActionClient(node, kind, name)
        self._tasks: weakref.WeakValueDictionary[bytes, FeedbackListener] = weakref.WeakValueDictionary()
        node.create_subscription(
            kind.Impl.FeedbackMessage, f"{name}/_action/feedback", self._on_feedback, DEPTH
        )

    def send(self, goal: Any, task: FeedbackListener) -> Future:
        """Send a goal; the future gives its handle. `task`, held by a weak reference, gets the feedback."""
        name = uuid4().bytes
        self._tasks[name] = task
        return self.client.send_goal_async(goal, goal_uuid=UUID(uuid=list(name)))

    def _on_feedback(self, message: Any) -> None:
        task = self._tasks.get(bytes(message.goal_id.uuid))
        if task is not None:
            task.on_feedback(message.feedback)
