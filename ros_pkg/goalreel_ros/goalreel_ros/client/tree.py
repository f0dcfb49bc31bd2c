# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""A py_trees leaf for the action `~/execute_task`, which never makes a tick wait."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError as NotYetError
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

import py_trees
from py_trees.common import Access, Status

from goalreel.errors import InputError
from goalreel_interfaces.action import ExecuteTask as Action
from goalreel_ros.client.commander import GoalreelClient
from goalreel_ros.client.task import GoalreelError, NodeGoneError, TaskHandle


class TaskRun:
    """Starts a task and follows it in threads of its own: no method waits for the node, except `wait`.

    Commands are given in their order once the node has accepted the task. `options` are those of
    `GoalreelClient.execute`. `problem` is why the last command did not come about.
    """

    def __init__(self, client: GoalreelClient, task: str, **options: Any) -> None:
        self._client = client
        self._handle: TaskHandle[Action.Result, Action.Feedback] | None = None
        self._is_cancelled = False
        self._end: Future[Action.Result] = Future()
        self.problem = ""
        self._commands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        _start(self._follow, task, options)

    @property
    def done(self) -> bool:
        """True once the task has ended, well or not."""
        return self._end.done()

    def result(self) -> Action.Result:
        """Give the result of a task that is `done`.

        Raises:
            GoalreelError: it did not end well, or was not accepted.
            InputError: the instruction or an option has the wrong type.
            TimeoutError: the node did not answer, or the task is not done.
        """
        return self._end.result(0)

    def pause(self) -> None:
        """Have the node pause. The sub-goal becomes inactive, as a pause shows."""
        self._commands.put(self._client.pause)

    def resume(self) -> None:
        """Have the node resume."""
        self._commands.put(self._client.resume)

    def replan(self, reason: str = "") -> None:
        """Have the node plan the rest anew."""
        self._commands.put(partial(self._client.replan, reason))

    def cancel(self) -> None:
        """Have the task end, also where the node has not accepted it yet."""
        self._is_cancelled = True
        if self._handle is not None:
            _start(self._command, partial(self._handle.cancel, 0))

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
            _start(self._obey)
            self._end.set_result(self._handle.result())
        except (GoalreelError, InputError, TimeoutError) as e:
            self._end.set_exception(e)
        finally:
            self._commands.put(None)
            if not self._end.done():
                self._end.set_exception(RuntimeError("the task ended by a defect: its trace is above"))

    def _obey(self) -> None:
        while (command := self._commands.get()) is not None:
            self._command(command)

    def _command(self, command: Callable[[], None]) -> None:
        self.problem = ""
        try:
            command()
        except (GoalreelError, TimeoutError) as e:
            self.problem = str(e)


def _start(function: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=function, args=arguments, name="goalreel-task", daemon=True).start()


class ExecuteTask(py_trees.behaviour.Behaviour):
    """Has the node carry out an instruction: RUNNING until it is done, FAILURE if it cannot be done.

    On the blackboard, in `namespace`, it reads `instruction`, unless that is given here, and `pause`: true
    holds the task. It writes `subgoal`, the active SubGoal or None; `progress`, the node's
    StoryboardProgress; and `problem`, one line. Interrupted, it cancels the task. `options` are those of
    `GoalreelClient.execute`.
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
        self.board.set("pause", False, overwrite=False)  # who holds one task holds the next
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
        goal = None
        with suppress(NodeGoneError):
            goal = self._client.subgoal()
        self.board.subgoal = goal if goal is not None and goal.active else None
        self.board.progress = progress = self._client.progress()
        self.board.problem = run.problem
        if not run.done:
            self.feedback_message = run.problem or (progress.message if progress is not None else "")
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
