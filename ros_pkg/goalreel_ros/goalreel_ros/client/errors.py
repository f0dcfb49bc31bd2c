"""The exceptions of the client."""

from typing import Any

from goalreel.errors import UserError
from goalreel.streaming.board import ErrorCode


class GoalreelError(UserError, RuntimeError):
    """The node refused, or a task did not end well: `code`, and one line of text.

    `result` is the action's result if there is one, with the storyboard as far as it was made.
    """

    def __init__(self, code: int, message: str, result: Any = None) -> None:
        try:
            self.code = ErrorCode(code)
        except ValueError:  # a newer node knows more codes
            self.code = ErrorCode.UNKNOWN
        self.result = result
        super().__init__(f"{self.code.name}: {' '.join(message.split()) or 'no reason given'}")


class NodeGoneError(GoalreelError):
    """The node ended or hangs, so that its sub-goal is no longer current.

    A task also raises it after the node came back, since the node has lost the task.
    """

    def __init__(self, server: str) -> None:
        super().__init__(ErrorCode.NOT_ACTIVE, f"the node {server} is gone or hangs: its goal is stale")


def check(answer: Any, result: Any = None) -> None:
    """Check the `error_code` of a message.

    Raises:
        GoalreelError: it is not NONE.
    """
    if answer.error_code != ErrorCode.NONE:
        raise GoalreelError(answer.error_code, answer.error_msg, result)
