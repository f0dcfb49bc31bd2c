"""A task for whoever must not wait: a tick of a behaviour tree, a loop of a controller."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError
from contextlib import suppress
from typing import Any

from goalreel.errors import InputError
from goalreel_interfaces.action import ExecuteTask
from goalreel_ros.client.commander import GoalreelClient
from goalreel_ros.client.errors import GoalreelError
from goalreel_ros.client.task import TaskHandle


class TaskRun:
    """Starts a task and follows it in threads of its own: no method waits for the node, except `wait`.

    `options` are those of `GoalreelClient.execute`. `problem` is why the last command did not come about.
    """

    def __init__(self, client: GoalreelClient, task: str, **options: Any) -> None:
        self._client = client
        self._handle: TaskHandle[ExecuteTask.Result, ExecuteTask.Feedback] | None = None
        self._is_cancelled = False
        self._end: Future[ExecuteTask.Result] = Future()
        self.problem = ""
        _start(self._follow, task, options)

    @property
    def done(self) -> bool:
        """Whether the task has ended, well or not."""
        return self._end.done()

    def result(self) -> ExecuteTask.Result:
        """Give the result of a task that is `done`.

        Raises:
            GoalreelError: it did not end well, or was not accepted.
            InputError: the instruction or an option has the wrong type.
            TimeoutError: the node did not answer, or the task is not done.
        """
        return self._end.result(0)

    def pause(self) -> None:
        """Have the node pause. The sub-goal becomes inactive, as a pause shows."""
        _start(self._command, self._client.pause)

    def resume(self) -> None:
        """Have the node resume."""
        _start(self._command, self._client.resume)

    def replan(self, reason: str = "") -> None:
        """Have the node plan the rest anew."""
        _start(self._command, self._client.replan, reason)

    def cancel(self) -> None:
        """Have the task end, also where the node has not accepted it yet."""
        self._is_cancelled = True
        if self._handle is not None:
            _start(self._command, self._handle.cancel, 0)

    def wait(self, timeout: float) -> bool:
        """Wait for the end, at most `timeout` seconds, and say whether it has come."""
        with suppress(NotYetError):
            self._end.exception(timeout)
        return self.done

    # -- in threads of its own

    def _follow(self, task: str, options: dict[str, Any]) -> None:
        try:
            self._handle = self._client.execute(task, **options)
            if self._is_cancelled:
                self._handle.cancel(0)
            self._end.set_result(self._handle.result())
        except (GoalreelError, InputError, TimeoutError) as e:
            self._end.set_exception(e)
        finally:
            if not self._end.done():
                self._end.set_exception(RuntimeError("the task ended by a defect: its trace is above"))

    def _command(self, command: Callable[..., None], *arguments: Any) -> None:
        self.problem = ""
        try:
            command(*arguments)
        except (GoalreelError, TimeoutError) as e:
            self.problem = str(e)


def _start(function: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=function, args=arguments, name="goalreel-task", daemon=True).start()
