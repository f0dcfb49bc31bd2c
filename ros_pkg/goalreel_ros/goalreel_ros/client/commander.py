"""What a script or a policy asks of the node: tasks, commands, the present sub-goal."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from unique_identifier_msgs.msg import UUID

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel_interfaces.action import AnnotateTask, GenerateStoryboard
from goalreel_interfaces.msg import Storyboard, StoryboardProgress, StoryboardStep, SubGoal
from goalreel_interfaces.srv import Command, SetActiveStep
from goalreel_ros.client import lifecycle
from goalreel_ros.client.action import FeedbackActionClient
from goalreel_ros.client.background_node import Beside
from goalreel_ros.client.calls import Calls
from goalreel_ros.client.errors import NodeGoneError, check
from goalreel_ros.client.task import TaskHandle
from goalreel_ros.liveliness import Presence
from goalreel_ros.pictures import decode
from goalreel_ros.qos import LATCHED, WATCHED
from goalreel_ros.times import to_duration

COMMANDS = ("pause", "resume", "replan", "cancel")
SERVICES = dict.fromkeys(COMMANDS, Command) | {"set_active_step": SetActiveStep}
GRACE = 10.0
"""Seconds after its own timeout in which the node must have ended a task."""

type Generating = TaskHandle[GenerateStoryboard.Result, GenerateStoryboard.Feedback]
type Annotating = TaskHandle[AnnotateTask.Result, AnnotateTask.Feedback]


class GoalreelClient:
    """Talks to the node called `server` (absolute, or relative to the namespace).

    It spins a node and an executor of its own in a thread, so its blocking methods may be called from
    anywhere: a script without `rclpy.init`, or a callback of another node. Give that `node` to share its
    context and namespace. `timeout` is how long the node may take to answer, in seconds. Use it in a `with`,
    or call `close`.
    """

    def __init__(
        self,
        node: Node | None = None,
        *,
        server: str = "goalreel",
        timeout: float = 5.0,
        args: list[str] | None = None,
    ) -> None:
        self._timeout = timeout
        self._beside = Beside("goalreel_client", node, args)
        own = self._beside.node
        self._call = Calls(self._beside, server, SERVICES | lifecycle.SERVICES, timeout)
        self._generate = FeedbackActionClient(own, GenerateStoryboard, f"{server}/generate_storyboard")
        self._annotate = FeedbackActionClient(own, AnnotateTask, f"{server}/annotate_task")
        self._server = server
        self._presence = Presence()
        self._news = self._presence.changed
        self._storyboard: Storyboard | None = None
        self._subgoal: SubGoal | None = None
        self._progress: StoryboardProgress | None = None
        self._picture: tuple[SubGoal, NDArray[np.uint8] | None] | None = None
        own.create_subscription(Storyboard, f"{server}/storyboard", self._on_storyboard, LATCHED)
        own.create_subscription(StoryboardProgress, f"{server}/progress", self._on_progress, 1)
        events = self._presence.events
        own.create_subscription(
            SubGoal, f"{server}/subgoal", self._on_subgoal, WATCHED, event_callbacks=events
        )
        self.lifecycle = lifecycle.Lifecycle(self._call, timeout)
        self._beside.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop spinning. Tasks under way go on; cancel them first if they should not."""
        self._beside.close()

    def wait_until_active(self, timeout: float | None = None) -> None:
        """Wait until the node is there and active.

        Raises:
            TimeoutError: it is not, after `timeout` seconds; says in what state it is.
        """
        self.lifecycle.wait_for("active", timeout)

    def generate(
        self,
        task: str,
        image: NDArray[np.uint8] | None = None,
        *,
        auxiliary_text: str = "",
        max_steps: int = 0,
        max_attempts: int = 0,
        text_only: bool = False,
        timeout: float = 0.0,
        on_feedback: Callable[[GenerateStoryboard.Feedback], None] | None = None,
    ) -> Storyboard:
        """Plan and render, execute nothing, and wait for the storyboard.

        `image` is an RGB picture (h, w, 3) uint8 to plan from instead of the camera's newest frame. Zeros
        mean the node's parameters; `timeout` is in seconds. `on_feedback` is called in this thread.
        Ctrl-C cancels the task.

        Raises:
            GoalreelError: it did not end well; `error.result.storyboard` is how far it came.
            TimeoutError: the node does not answer.
        """
        goal = _message(
            GenerateStoryboard.Goal,
            task=task,
            image=[] if image is None else [_png(image)],
            auxiliary_text=auxiliary_text,
            max_steps=max_steps,
            max_attempts=max_attempts,
            text_only=text_only,
            timeout=to_duration(timeout),
        )
        handle: Generating = self._send(self._generate, goal)
        try:
            return handle.result(timeout + GRACE if timeout else None, on_feedback).storyboard
        finally:
            if not handle.done:
                handle.cancel(timeout=0)

    def annotate(
        self,
        task: str = "",
        *,
        storyboard_id: UUID | None = None,
        auxiliary_text: str = "",
        max_steps: int = 0,
        max_attempts: int = 0,
        max_replans: int = 0,
        timeout: float = 0.0,
    ) -> Annotating:
        """Start a task: plan, stream sub-goals, track them, re-plan. Returns once the node accepted it.

        `storyboard_id` executes a storyboard that `generate` made. Zeros mean the node's parameters.

        Raises:
            GoalreelError: the node refuses it.
            TimeoutError: the node does not answer.
        """
        goal = _message(
            AnnotateTask.Goal,
            task=task,
            storyboard_id=storyboard_id or UUID(),
            auxiliary_text=auxiliary_text,
            max_steps=max_steps,
            max_attempts=max_attempts,
            max_replans=max_replans,
            timeout=to_duration(timeout),
        )
        return self._send(self._annotate, goal)

    def pause(self, reason: str = "") -> None:
        """Hold the task under way: the sub-goal becomes inactive.

        Raises:
            GoalreelError: there is nothing to pause. As for `resume`, `replan` and `cancel`.
            TimeoutError: the node does not answer.
        """
        self._command("pause", reason)

    def resume(self, reason: str = "") -> None:
        """Go on after `pause`."""
        self._command("resume", reason)

    def replan(self, reason: str = "") -> None:
        """Plan the rest again from what the camera sees now."""
        self._command("replan", reason)

    def cancel(self, reason: str = "") -> None:
        """End the task under way, whoever started it."""
        self._command("cancel", reason)

    def set_active_step(self, index: int, status: int = StoryboardStep.STATUS_ACTIVE) -> None:
        """Override the tracker: go to a step, or mark the active one COMPLETED, SKIPPED or FAILED.

        Raises:
            GoalreelError: no such step, or no task.
            TimeoutError: the node does not answer.
        """
        request = _message(SetActiveStep.Request, index=index, status=status)
        check(self._call("set_active_step", request))

    def storyboard(self) -> Storyboard | None:
        """The newest `~/storyboard`, or None before the first."""
        return self._storyboard

    def subgoal(self) -> SubGoal | None:
        """The newest `~/subgoal`, active or not, or None before the first.

        Raises:
            NodeGoneError: the node that published it ended or hangs. As for all that concerns sub-goals.
        """
        self._check_there()
        return self._subgoal

    def progress(self) -> StoryboardProgress | None:
        """The newest `~/progress`, whose `message` says what the node waits for; None before the first."""
        return self._progress

    def wait_for_subgoal(self, timeout: float | None = None, after: SubGoal | None = None) -> SubGoal:
        """The active sub-goal; with `after`, the next one that is not that one.

        Raises:
            NodeGoneError: the node ended or hangs.
            TimeoutError: none within `timeout` seconds.
        """

        def wanted() -> SubGoal | None:
            goal = self._subgoal
            known = after is not None and goal is not None and _which(goal) == _which(after)
            return None if goal is None or not goal.active or known else goal

        with self._news:
            self._news.wait_for(lambda: self._presence.gone or wanted(), timeout)
            self._check_there()
            found = wanted()
        if found is None:
            raise TimeoutError(f"no {'new ' if after else ''}active sub-goal within {timeout:g} s")
        return found

    @property
    def goal_image(self) -> NDArray[np.uint8] | None:
        """The active sub-goal's picture, RGB (h, w, 3); None without one (no task, paused, text only).

        Raises:
            NodeGoneError: the node ended or hangs.
            ValueError: the picture cannot be read.
        """
        self._check_there()
        goal, known = self._subgoal, self._picture
        if goal is None or not goal.active or not goal.goal_image.data:
            return None
        if known is None or known[0] is not goal:
            known = self._picture = goal, decode(goal.goal_image).pixels
        return known[1]

    def _send(self, action: FeedbackActionClient, goal: Any) -> TaskHandle[Any, Any]:
        until = time.monotonic() + self._timeout
        if not action.client.wait_for_server(self._timeout):
            raise TimeoutError(f"no node {self._server} takes tasks within {self._timeout:g} s")
        left = max(1.0, until - time.monotonic())
        return TaskHandle(self._beside, action, goal, left, self._server, self._presence, self._said)

    def _said(self) -> str:
        return "" if self._progress is None else self._progress.message

    def _command(self, name: str, reason: str) -> None:
        check(self._call(name, _message(Command.Request, reason=reason)))

    def _check_there(self) -> None:
        if self._presence.gone:
            raise NodeGoneError(self._server)

    def _on_storyboard(self, message: Storyboard) -> None:
        with self._news:
            self._storyboard = message
            self._news.notify_all()

    def _on_progress(self, message: StoryboardProgress) -> None:
        self._progress = message

    def _on_subgoal(self, message: SubGoal) -> None:
        with self._news:
            self._subgoal = message
            self._news.notify_all()


def _which(goal: SubGoal) -> tuple[object, ...]:
    """What tells it from every other; simulated time that stands still gives all the same stamp."""
    return goal.header, bytes(goal.storyboard_id.uuid), goal.revision, goal.index


def _message[M](kind: Callable[..., M], **fields: Any) -> M:
    """Make a message whose fields are checked, which rclpy leaves out by default and then crashes on.

    Raises:
        InputError: a value of the wrong type or out of range.
    """
    try:
        return kind(check_fields=True, **fields)
    except AssertionError as e:
        raise InputError(" ".join(str(e).split())) from None


def _png(image: NDArray[np.uint8]) -> Any:
    from array import array

    from sensor_msgs.msg import CompressedImage

    return CompressedImage(format="png", data=array("B", Image(image.copy()).png()))
