"""A state for state machines in the manner of SMACH and YASMIN, which it does not import."""

import threading
from typing import Any, ClassVar

from goalreel.errors import InputError
from goalreel_ros.client.commander import GoalreelClient
from goalreel_ros.client.errors import GoalreelError
from goalreel_ros.client.task_run import TaskRun

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
