"""A py_trees leaf for the action `~/execute_task`, which never makes a tick wait."""

from typing import Any

import py_trees
from py_trees.common import Access, Status

from goalreel.errors import InputError
from goalreel_ros.client.commander import GoalreelClient
from goalreel_ros.client.state import TaskRun
from goalreel_ros.client.task import GoalreelError, NodeGoneError


class ExecuteTask(py_trees.behaviour.Behaviour):
    """Has the node carry out an instruction: RUNNING until it is done, FAILURE if it cannot be done.

    On the blackboard, in `namespace`, it reads `instruction`, unless that is given here, and `pause`: true
    holds the task, false lets it go on. It writes `subgoal`, the active SubGoal or None; `progress`, the
    node's StoryboardProgress; and `problem`, one line. Interrupted, it cancels the task. `options` are those
    of `GoalreelClient.execute`.
    """

    def __init__(
        self,
        name: str,
        client: GoalreelClient,
        instruction: str | None = None,
        *,
        namespace: str = "goalreel",
        **options: Any,
    ) -> None:
        super().__init__(name)
        self._client, self._instruction, self._options = client, instruction, options
        self.run: TaskRun | None = None
        """The present task, or the last; for `replan`, and to wait for its end when the tree is over."""
        self._is_paused = False
        self.board = self.attach_blackboard_client(name=name, namespace=namespace)
        self.board.register_key("instruction", Access.READ)
        for key in ("pause", "subgoal", "progress", "problem"):
            self.board.register_key(key, Access.WRITE)

    def initialise(self) -> None:
        """Start the task."""
        self.board.set("pause", False)
        self._is_paused = False
        text = self.board.instruction if self._instruction is None else self._instruction
        self.run = TaskRun(self._client, text, **self._options)

    def update(self) -> Status:
        """Tell how the task is going."""
        run = self.run
        if run is None:
            return Status.INVALID
        if self.board.pause != self._is_paused:
            self._is_paused = bool(self.board.pause)
            (run.pause if self._is_paused else run.resume)()
        self._write()
        if not run.done:
            self.feedback_message = run.problem or self._message()
            return Status.RUNNING
        try:
            self.feedback_message = run.result().error_msg
        except (GoalreelError, InputError, TimeoutError) as e:
            self.feedback_message = self.board.problem = str(e)
            return Status.FAILURE
        return Status.SUCCESS

    def terminate(self, new_status: Status) -> None:
        """Cancel a task that the tree interrupts."""
        self.board.subgoal = None
        if new_status == Status.INVALID and self.run is not None and not self.run.done:
            self.run.cancel()

    def _message(self) -> str:
        progress = self.board.progress
        return "" if progress is None else progress.message

    def _write(self) -> None:
        try:
            goal = self._client.subgoal()
        except NodeGoneError:
            goal = None
        self.board.subgoal = goal if goal is not None and goal.active else None
        self.board.progress = self._client.progress()
        self.board.problem = "" if self.run is None else self.run.problem
