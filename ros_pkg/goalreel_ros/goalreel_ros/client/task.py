# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""An action goal under way, as its caller sees it, and the errors it raises."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakMethod

from action_msgs.msg import GoalStatus
from rclpy.action.client import ActionClient, ClientGoalHandle

from goalreel.errors import UserError
from goalreel.streaming.board import ErrorCode
from goalreel_interfaces.msg import StoryboardProgress
from goalreel_ros.liveliness import LiveSubscription
from goalreel_ros.spin import BackgroundNode


class GoalreelError(UserError, RuntimeError):
    """The node refused, or a task did not end well: `code`, and one line of text.

    `result` is the action's result if there is one, with the storyboard as far as it was made.
    """

    def __init__(self, code: int, message: str, result: Any = None) -> None:
        self.code, self.result = ErrorCode(code), result
        super().__init__(f"{self.code.name}: {' '.join(message.split()) or 'no reason given'}")


class NodeGoneError(GoalreelError):
    """The node ended or hangs: its sub-goal is not current. Its task raises it even after it came back."""

    def __init__(self, server: str) -> None:
        super().__init__(ErrorCode.NOT_ACTIVE, f"the node {server} is gone or hangs: its goal is stale")


def check(answer: Any, result: Any = None) -> None:
    """Raise a GoalreelError where the `error_code` of a message is not NONE."""
    if answer.error_code != ErrorCode.NONE:
        raise GoalreelError(answer.error_code, answer.error_msg, result)


class TaskHandle[Result, Feedback]:
    """A task that the node accepted. Made by `GoalreelClient`; safe from any thread.

    `result` gives the action's result message, `feedback` its newest feedback message, None before the first.
    """

    def __init__(
        self,
        background: BackgroundNode,
        action: ActionClient,
        goal: Any,
        timeout: float,
        server: str,
        liveliness: LiveSubscription,
        progress: Callable[[], StoryboardProgress | None],
    ) -> None:
        self._background, self._client, self._server = background, action, server
        self._liveliness, self._losses = liveliness, liveliness.losses
        self._changed, self._progress = liveliness.changed, progress
        self.feedback: Feedback | None = None
        self._goal: ClientGoalHandle
        self._answer: ClientGoalHandle | None = None
        self._outcome: Result | None = None
        self._status = GoalStatus.STATUS_UNKNOWN
        self._abandoned = False
        take = WeakMethod(self._on_feedback)  # rclpy keeps the callback of a goal that is refused

        def on_feedback(message: Any) -> None:
            if (call := take()) is not None:
                call(message)

        send = partial(action.send_goal_async, goal, on_feedback)
        background.run(lambda: send().add_done_callback(self._on_answer))
        try:
            answer = self._wait_for_answer(timeout)
        except KeyboardInterrupt:
            # The node may have started before its answer arrives, and nobody else could stop it: wait a
            # little longer for the answer, so that the goal can be cancelled.
            if (answer := self._wait_for_answer(2.0)) is not None and answer.accepted:
                self._goal = answer
                with suppress(TimeoutError):
                    self.cancel()
            raise
        if answer is None:
            raise TimeoutError(f"no answer to the task within {timeout:g} s")
        if not answer.accepted:
            raise GoalreelError(ErrorCode.NOT_ACTIVE, "the node refused the task: is it active?")
        self._goal = answer

    @property
    def done(self) -> bool:
        """True once the task, or its node, has ended; `result` tells which."""
        return self._outcome is not None or self._node_lost

    @property
    def _node_lost(self) -> bool:
        """True if the node ended or hung since. If it goes on with the task, its goals are not trusted."""
        return self._liveliness.losses != self._losses

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the end, at most `timeout` seconds.

        Raises:
            GoalreelError: the task did not end well.
            NodeGoneError: the node ended or hung meanwhile, so that the result is unknown.
            TimeoutError: the task is still under way.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            with self._changed:
                rest = min(0.5, deadline - time.monotonic())  # between two looks whether the server is alive
                self._changed.wait_for(lambda: self.done, max(0.0, rest))
            if (outcome := self._outcome) is not None:
                check(outcome, outcome)
                if self._status != GoalStatus.STATUS_SUCCEEDED:
                    raise GoalreelError(ErrorCode.UNKNOWN, f"the task ended in state {self._status}", outcome)
                return outcome
            if self._node_lost or not self._client.server_is_ready():
                raise NodeGoneError(self._server)
            if time.monotonic() >= deadline:
                raise TimeoutError(f"the task did not end within {timeout:g} s")

    def cancel(self, timeout: float = 5.0) -> None:
        """Ask the node to stop, and wait until it has, unless `timeout` is 0. Does nothing after the end.

        Raises:
            NodeGoneError: the node ended or hung meanwhile. If it goes on, it gets the request and stops.
            TimeoutError: the task did not stop in time.
        """
        is_acknowledged = self._background.run(self._goal.cancel_goal_async).done
        if not timeout:
            return
        with self._changed:
            if not self._changed.wait_for(lambda: self.done, timeout):
                status = "acknowledged" if is_acknowledged() else "not acknowledged"
                said = progress.message if (progress := self._progress()) is not None else ""
                reason = f"; the node says: {said}" if said else ""
                raise TimeoutError(f"{status}, but the task did not stop within {timeout:g} s{reason}")
            if self._outcome is None:
                raise NodeGoneError(self._server)

    def _wait_for_answer(self, timeout: float) -> ClientGoalHandle | None:
        """Wait for the node's answer. A goal that is accepted after `timeout` seconds is cancelled."""
        with self._changed:
            self._abandoned = not self._changed.wait_for(lambda: self._answer is not None, timeout)
            return self._answer

    # -- in the executor's thread

    def _on_answer(self, future: Any) -> None:
        goal = future.result()
        if goal.accepted:
            goal.get_result_async().add_done_callback(self._on_result)
        with self._changed:
            self._answer = goal
            self._changed.notify_all()
        if self._abandoned and goal.accepted:
            goal.cancel_goal_async()

    def _on_feedback(self, message: Any) -> None:
        with self._changed:
            self.feedback = message.feedback
            self._changed.notify_all()

    def _on_result(self, future: Any) -> None:
        with self._changed:
            self._status, self._outcome = future.result().status, future.result().result
            self._changed.notify_all()
