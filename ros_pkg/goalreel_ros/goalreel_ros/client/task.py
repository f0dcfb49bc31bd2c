"""An action goal under way, as its caller sees it."""

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action.client import ClientGoalHandle

from goalreel.streaming.board import ErrorCode
from goalreel_ros.client.action import FeedbackActionClient
from goalreel_ros.client.background_node import Beside
from goalreel_ros.client.errors import GoalreelError, NodeGoneError, check
from goalreel_ros.liveliness import Presence

KEPT = 64
"""Feedback messages kept for a caller that does not ask."""
LATE = 0.2
"""Seconds in which feedback may come after the result."""
STOP = 2.0
"""Seconds given to the node to answer a task that Ctrl-C has ended before, so that it can be told."""
LOOK = 0.5
"""Seconds between two looks at whether the server still lives."""


class TaskHandle[Result, Feedback]:
    """A task that the node accepted. Made by `GoalreelClient`; any thread may use it.

    `result` gives the action's result message, `feedback` its newest feedback message.
    """

    def __init__(
        self,
        beside: Beside,
        action: FeedbackActionClient,
        goal: Any,
        timeout: float,
        server: str,
        presence: Presence,
        said: Callable[[], str],
    ) -> None:
        """`said` gives what the node says that it waits for, or nothing."""
        self._beside, self._client, self._server = beside, action.client, server
        self._presence, self._losses = presence, presence.losses
        self._changed, self._said = presence.changed, said
        self._news: deque[Feedback] = deque(maxlen=KEPT)
        self._newest: Feedback | None = None
        self._goal: ClientGoalHandle
        self._answer: ClientGoalHandle | None = None
        self._outcome: Result | None = None
        self._status = GoalStatus.STATUS_UNKNOWN
        self._abandoned = False
        beside.run(lambda: action.send(goal, self).add_done_callback(self._on_answer))
        try:
            answer = self._answered(timeout)
        except KeyboardInterrupt:
            # The node may be at work before its answer is here, and nobody else could stop it.
            with suppress(TimeoutError):
                if (late := self._answered(STOP)) is not None and late.accepted:
                    self._goal = late
                    self.cancel()
            raise
        if answer is None:
            raise TimeoutError(f"no answer to the task within {timeout:g} s")
        if not answer.accepted:
            raise GoalreelError(ErrorCode.NOT_ACTIVE, "the node refused the task: is it active?")
        self._goal = answer

    @property
    def done(self) -> bool:
        """Whether the task has ended, well or not, or its node has: `result` tells which."""
        return self._outcome is not None or self._lost

    @property
    def _lost(self) -> bool:
        """Whether the node ended or hung since; what it does with the task if it goes on is nobody's goal."""
        return self._presence.losses != self._losses

    @property
    def feedback(self) -> Feedback | None:
        """The newest feedback message, or None before the first."""
        return self._newest

    def result(
        self, timeout: float | None = None, on_feedback: Callable[[Feedback], None] | None = None
    ) -> Result:
        """Wait for the end, at most `timeout` seconds, and call `on_feedback` here, in the caller's thread.

        Raises:
            GoalreelError: it did not end well.
            NodeGoneError: nobody knows how, for the node ended or hung meanwhile.
            TimeoutError: it is still under way.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = LOOK if deadline is None else min(LOOK, deadline - time.monotonic())
            with self._changed:
                self._changed.wait_for(lambda: self._news or self.done, max(0.0, left))
                news, outcome = list(self._news), self._outcome
                self._news.clear()
            if on_feedback is not None:
                for message in news:
                    on_feedback(message)
            if outcome is not None:
                while on_feedback is not None and (message := self._late()) is not None:
                    on_feedback(message)
                return self._judged(outcome)
            if self._lost or not self._client.server_is_ready():
                raise NodeGoneError(self._server)
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"the task did not end within {timeout:g} s")

    def cancel(self, timeout: float = 5.0) -> None:
        """Ask the node to stop, and wait until it has, unless `timeout` is 0. What has ended is left alone.

        Raises:
            NodeGoneError: the node ended or hung meanwhile. One that goes on finds the request and stops.
            TimeoutError: it did not stop in time.
        """
        acknowledged = self._beside.run(lambda: self._goal.cancel_goal_async()).done
        if not timeout:
            return
        with self._changed:
            if not self._changed.wait_for(lambda: self.done, timeout):
                said = "acknowledged" if acknowledged() else "not acknowledged"
                waits = f"; the node says: {self._said()}" if self._said() else ""
                raise TimeoutError(f"{said}, but the task did not stop within {timeout:g} s{waits}")
            if self._outcome is None:
                raise NodeGoneError(self._server)

    def _answered(self, timeout: float) -> ClientGoalHandle | None:
        """Wait for the node's answer; one that comes later than `timeout` seconds is met with cancelling."""
        with self._changed:
            self._abandoned = not self._changed.wait_for(lambda: self._answer is not None, timeout)
            return self._answer

    def _late(self) -> Feedback | None:
        """Give feedback that the result has overtaken, if any: the two travel by themselves, in no order."""
        with self._changed:
            self._changed.wait_for(lambda: self._news, LATE)
            return self._news.popleft() if self._news else None

    def _judged(self, outcome: Result) -> Result:
        check(outcome, outcome)
        if self._status != GoalStatus.STATUS_SUCCEEDED:
            raise GoalreelError(ErrorCode.UNKNOWN, f"the task ended in state {self._status}", outcome)
        return outcome

    # In the executor's thread.

    def _on_answer(self, future: Any) -> None:
        goal = future.result()
        if goal.accepted:
            goal.get_result_async().add_done_callback(self._on_result)
        with self._changed:
            self._answer = goal
            self._changed.notify_all()
        if self._abandoned and goal.accepted:
            goal.cancel_goal_async()

    def on_feedback(self, message: Feedback) -> None:
        """For `Action`, which brings it."""
        with self._changed:
            self._newest = message
            self._news.append(message)
            self._changed.notify_all()

    def _on_result(self, future: Any) -> None:
        with self._changed:
            self._status, self._outcome = future.result().status, future.result().result
            self._changed.notify_all()
