# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""The client's interface to the node, for scripts and policies: tasks, commands, the present sub-goal."""

import math
import time
from array import array
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, Self

import numpy as np
from lifecycle_msgs.srv import GetState
from numpy.typing import NDArray
from rclpy.action.client import ActionClient
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage
from unique_identifier_msgs.msg import UUID

from goalreel.errors import BackendError, InputError
from goalreel.image import Image
from goalreel.streaming.board import Board, StepPanel
from goalreel.types import Storyboard as PlannedStoryboard, StoryboardStep as PlannedStep
from goalreel_interfaces.action import ExecuteTask, GenerateStoryboard
from goalreel_interfaces.msg import Storyboard, StoryboardProgress, StoryboardStep, SubGoal
from goalreel_interfaces.srv import Command, SetActiveStep
from goalreel_ros import convert
from goalreel_ros.client.task import NodeGoneError, TaskHandle, check
from goalreel_ros.convert import to_duration
from goalreel_ros.liveliness import LiveSubscription
from goalreel_ros.pictures import decode
from goalreel_ros.qos import LATCHED
from goalreel_ros.spin import BackgroundNode, Calls


def build[M](kind: Callable[..., M], **fields: Any) -> M:
    """Make a message with checked fields; rclpy does not check them by default, and crashes later.

    Raises:
        InputError: a value has the wrong type or is out of range.
    """
    try:
        return kind(check_fields=True, **fields)
    except AssertionError as e:
        raise InputError(" ".join(str(e).split())) from None


def png(image: NDArray[np.uint8]) -> CompressedImage:
    """Encode an RGB picture (h, w, 3) as a PNG message."""
    return CompressedImage(format="png", data=array("B", Image(image.copy()).png()))


def storyboard_message(board: PlannedStoryboard) -> Storyboard:
    """Convert a storyboard for a node to execute, its goal images without loss.

    Raises:
        InputError: it has no plan, or a step has no picture yet.
    """
    if board.failure is not None:
        raise InputError(f"the storyboard has no plan: {board.failure.line}")
    panels = []
    for index, step in enumerate(board.steps):
        if step.status == "skipped":
            raise InputError(f"step {index} ({step.step.name}) has no goal image yet: draw it first")
        words, claims = PlannedStep(step=step.step), step.claims
        panel = StepPanel(index, words, len(step.attempts), what=claims.what, looks=claims.looks)
        size = step.goal_image.size if step.goal_image is not None else (1, 1)
        panels.append(panel.finish(step, 0, size))
    sent = Board(task=board.task.instruction, state="ready", steps=tuple(panels))
    message = convert.storyboard(sent, None, time.time_ns())
    for step, panel in zip(message.steps, panels, strict=True):
        if panel.goal_image is not None:
            step.goal_image = png(panel.goal_image.pixels)
    if board.task.image is not None:
        message.source_image = png(board.task.image.pixels)
    return message


def subgoal_key(goal: SubGoal) -> tuple[object, ...]:
    """Give what identifies a sub-goal. Stamps do not suffice: simulated time may stand still."""
    return goal.header, bytes(goal.storyboard_id.uuid), goal.revision, goal.index


SERVICES: dict[str, type] = dict.fromkeys(("pause", "resume", "replan", "cancel"), Command)
SERVICES["set_active_step"] = SetActiveStep
POLL_SECONDS = 0.1

type GenerateHandle = TaskHandle[GenerateStoryboard.Result, GenerateStoryboard.Feedback]
type ExecuteHandle = TaskHandle[ExecuteTask.Result, ExecuteTask.Feedback]


def lifecycle_state(call: Calls, timeout: float | None = None) -> str:
    """Read the node's state: `unconfigured`, `inactive`, `active`, `finalized`, or a transition's name."""
    return call("get_state", GetState.Request(), timeout).current_state.label


def check_health(node: str, timeout: float = 10.0) -> None:
    """Check that the node of this full name is active. It has `timeout` seconds to be found, and to answer.

    Raises:
        BackendError: it is in another state, does not answer, or is not there; one line.
    """
    with closing(BackgroundNode("goalreel_health", args=[])) as background:
        call = Calls(background, node, {"get_state": GetState}, timeout)
        background.start()
        try:
            state = lifecycle_state(call)
        except TimeoutError as e:
            raise BackendError(str(e)) from None
    if state != "active":
        raise BackendError(f"{node} is {state}, not active: see its log")


class GoalreelClient:
    """A client of the node called `server` (absolute, or relative to the namespace).

    It spins a node and an executor of its own in a thread, so that its blocking methods work anywhere: in a
    script without `rclpy.init`, or in a callback of another node. Pass that `node` to share its context and
    namespace. The node may take `timeout` seconds to answer. Use it in a `with` statement, or call `close`.
    """

    def __init__(
        self,
        node: Node | None = None,
        *,
        server: str = "goalreel",
        timeout: float = 5.0,
        args: list[str] | None = None,
    ) -> None:
        self._server, self._timeout = server, timeout
        self._background = BackgroundNode("goalreel_client", node, args)
        own_node = self._background.node
        self._call = Calls(self._background, server, SERVICES | {"get_state": GetState}, timeout)
        self._generate = ActionClient(own_node, GenerateStoryboard, f"{server}/generate_storyboard")
        self._execute = ActionClient(own_node, ExecuteTask, f"{server}/execute_task")
        self._storyboard: Storyboard | None = None
        self._subgoal: SubGoal | None = None
        self._progress: StoryboardProgress | None = None
        self._picture: tuple[SubGoal, NDArray[np.uint8]] | None = None
        goal = LiveSubscription(
            own_node, SubGoal, f"{server}/subgoal", partial(self._take, "_subgoal"), self._forget
        )
        self._liveliness, self._changed = goal, goal.changed
        for kind, name, qos in ((Storyboard, "storyboard", LATCHED), (StoryboardProgress, "progress", 1)):
            own_node.create_subscription(kind, f"{server}/{name}", partial(self._take, f"_{name}"), qos)
        self._background.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop spinning. Tasks under way go on: cancel them first if they should end."""
        self._background.close()

    def wait_until_active(self, timeout: float | None = None) -> None:
        """Wait until the node is active.

        Raises:
            TimeoutError: it is not active after `timeout` seconds. The message has its state.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        found = "it was not looked for"
        while (rest := deadline - time.monotonic()) > 0:
            try:
                state = lifecycle_state(self._call, min(1.0, max(POLL_SECONDS, rest)))
            except TimeoutError as e:
                found = str(e)
                continue
            if state == "active":
                return
            found = f"it is {state}"
            time.sleep(POLL_SECONDS)
        raise TimeoutError(f"{self._server} is not active after {timeout:g} s: {found}")

    def generate(
        self,
        task: str,
        image: NDArray[np.uint8] | None = None,
        *,
        auxiliary_text: str = "",
        max_steps: int = -1,
        max_attempts: int = -1,
        text_only: bool = False,
        timeout: float = 0.0,
    ) -> Storyboard:
        """Make a storyboard without executing it, and wait for it.

        `image` is an RGB picture (h, w, 3) uint8 to plan from instead of the camera's newest frame. Numbers
        of -1 stand for the node's parameters, as does a `timeout` of 0 seconds; less is no limit. Ctrl-C
        cancels the task.

        Raises:
            GoalreelError: the task did not end well. `error.result.storyboard` is the storyboard so far.
            TimeoutError: the node does not answer.
        """
        goal = build(
            GenerateStoryboard.Goal,
            task=task,
            image=[] if image is None else [png(image)],
            auxiliary_text=auxiliary_text,
            max_steps=max_steps,
            max_attempts=max_attempts,
            text_only=text_only,
            timeout=to_duration(timeout),
        )
        handle: GenerateHandle = self._send(self._generate, goal)
        try:
            # The node ends it by itself after `timeout`; 10 s later it must have, unless it hangs.
            return handle.result(timeout + 10.0 if timeout > 0 else None).storyboard
        finally:
            if not handle.done:
                handle.cancel(timeout=0)

    def execute(
        self,
        task: str = "",
        *,
        storyboard_id: UUID | None = None,
        storyboard: PlannedStoryboard | None = None,
        auxiliary_text: str = "",
        max_steps: int = -1,
        max_attempts: int = -1,
        max_replans: int = -1,
        timeout: float = 0.0,
    ) -> ExecuteHandle:
        """Start a task: plan, stream sub-goals, track them, re-plan. Returns once the node accepts it.

        `storyboard_id` executes a storyboard that `generate` made, `storyboard` one that was made elsewhere,
        such as by `goalreel plan` or in the studio. Numbers are as in `generate`; with `max_replans` 0
        nothing is planned anew.

        Raises:
            GoalreelError: the node refuses it.
            InputError: a step of `storyboard` has no picture yet.
            TimeoutError: the node does not answer.
        """
        goal = build(
            ExecuteTask.Goal,
            task=task,
            storyboard_id=storyboard_id or UUID(),
            storyboard=[] if storyboard is None else [storyboard_message(storyboard)],
            auxiliary_text=auxiliary_text,
            max_steps=max_steps,
            max_attempts=max_attempts,
            max_replans=max_replans,
            timeout=to_duration(timeout),
        )
        return self._send(self._execute, goal)

    def pause(self, reason: str = "") -> None:
        """Hold the task under way: the sub-goal becomes inactive.

        Raises:
            GoalreelError: there is no task. `resume`, `replan` and `cancel` raise the same errors.
            TimeoutError: the node does not answer.
        """
        self._command("pause", reason)

    def resume(self, reason: str = "") -> None:
        """Resume the task after `pause`."""
        self._command("resume", reason)

    def replan(self, reason: str = "") -> None:
        """Plan the remaining steps again from the live scene."""
        self._command("replan", reason)

    def cancel(self, reason: str = "") -> None:
        """End the task under way, whoever started it."""
        self._command("cancel", reason)

    def set_active_step(self, index: int, status: int = StoryboardStep.STATUS_ACTIVE) -> None:
        """Override the tracker: go to a step, or mark the active one COMPLETED, SKIPPED or FAILED.

        Raises:
            GoalreelError: there is no such step, or no task.
            TimeoutError: the node does not answer.
        """
        check(self._call("set_active_step", build(SetActiveStep.Request, index=index, status=status)))

    def storyboard(self) -> Storyboard | None:
        """Give the newest `~/storyboard`; None before the first, and after its node was gone."""
        return self._storyboard

    def subgoal(self) -> SubGoal | None:
        """Give the newest `~/subgoal`, active or not, or None before the first.

        Raises:
            NodeGoneError: the node that published it ended or hangs.
        """
        self._check_alive()
        return self._subgoal

    def progress(self) -> StoryboardProgress | None:
        """Give the newest `~/progress`; its `message` says what the node waits for. None before the first."""
        return self._progress

    def wait_for_subgoal(self, timeout: float | None = None, after: SubGoal | None = None) -> SubGoal:
        """Wait for an active sub-goal and give it; with `after`, for another one than that.

        Raises:
            NodeGoneError: the node ended or hangs.
            TimeoutError: there is none within `timeout` seconds.
        """

        def found() -> SubGoal | None:
            goal = self._subgoal
            is_new = goal is not None and (after is None or subgoal_key(goal) != subgoal_key(after))
            return goal if is_new and goal.active else None

        with self._changed:
            self._changed.wait_for(lambda: self._liveliness.gone or found(), timeout)
            self._check_alive()
            if (goal := found()) is None:
                raise TimeoutError(f"no {'new ' if after else ''}active sub-goal within {timeout:g} s")
            return goal

    @property
    def goal_image(self) -> NDArray[np.uint8] | None:
        """The active sub-goal's picture, RGB (h, w, 3); None if there is none (no task, paused, text only).

        Raises:
            NodeGoneError: the node ended or hangs.
            ValueError: the picture cannot be read.
        """
        self._check_alive()
        goal, cache = self._subgoal, self._picture
        if goal is None or not goal.active or not goal.goal_image.data:
            return None
        if cache is None or cache[0] is not goal:
            cache = self._picture = goal, decode(goal.goal_image).pixels
        return cache[1]

    def _send(self, action: ActionClient, goal: Any) -> TaskHandle[Any, Any]:
        deadline = time.monotonic() + self._timeout
        if not action.wait_for_server(self._timeout):
            raise TimeoutError(f"no node {self._server} takes tasks within {self._timeout:g} s")
        wait = max(1.0, deadline - time.monotonic())
        return TaskHandle(self._background, action, goal, wait, self._server, self._liveliness, self.progress)

    def _command(self, name: str, reason: str) -> None:
        check(self._call(name, build(Command.Request, reason=reason)))

    def _check_alive(self) -> None:
        # Of a node that is back, the goal is not known before it has sent it anew.
        if self._liveliness.gone or (self._liveliness.losses and self._subgoal is None):
            raise NodeGoneError(self._server)

    def _forget(self) -> None:
        self._storyboard = self._subgoal = self._progress = self._picture = None

    def _take(self, attribute: str, message: Any) -> None:
        with self._changed:
            setattr(self, attribute, message)
            self._changed.notify_all()
