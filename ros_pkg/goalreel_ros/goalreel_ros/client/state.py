"""A task for whoever must not wait, and a state for state machines such as SMACH and YASMIN."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError
from contextlib import suppress
from typing import Any, ClassVar

from goalreel.errors import InputError
from goalreel_interfaces.action import ExecuteTask
from goalreel_ros.client.commander import GoalreelClient
from goalreel_ros.client.task import GoalreelError, TaskHandle


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
        """True once the task has ended, well or not."""
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


POLL_SECONDS = 0.1
CANCEL_SECONDS = 5.0


class ExecuteTaskState:
    """Carries out `userdata["instruction"]`, and gives an outcome.

    `aborted` leaves the reason in `userdata["error"]`. `request_preempt`, from any thread, cancels the task
    that is under way. `options` are those of `GoalreelClient.execute`.
    """

    outcomes: ClassVar = ["succeeded", "aborted", "preempted"]
    input_keys: ClassVar = ["instruction"]
    output_keys: ClassVar = ["error"]

    def __init__(self, client: GoalreelClient, **options: Any) -> None:
        self._client, self._options = client, options
        self._preempt = threading.Event()

    def execute(self, userdata: Any) -> str:
        """Carry the task out and wait for its end."""
        run = TaskRun(self._client, userdata["instruction"], **self._options)
        while not run.wait(POLL_SECONDS):
            if self._preempt.is_set():
                self._preempt.clear()
                run.cancel()
                run.wait(CANCEL_SECONDS)
                return "preempted"
        try:
            run.result()
        except (GoalreelError, InputError, TimeoutError) as e:
            userdata["error"] = str(e)
            return "aborted"
        return "succeeded"

    def request_preempt(self) -> None:
        """End the task that is under way, or the next one."""
        self._preempt.set()
