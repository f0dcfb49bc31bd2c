"""The node's actions and services: tasks, an operator's commands, and the storyboard.

No goal of an action is rejected, since a rejection has no reason; it ends with a code and a text.
"""

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future as ConcurrentFuture
from functools import partial
from typing import Any, get_args

from rclpy.action.server import ActionServer, CancelResponse, ServerGoalHandle
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.task import Future

from goalreel.streaming.board import BoardProgress, CodedText, ErrorCode, Phase
from goalreel.streaming.engine import Engine, TaskCommand
from goalreel.streaming.request import TaskOutcome, TaskRequest, Ticket
from goalreel_interfaces.action import ExecuteTask, GenerateStoryboard
from goalreel_interfaces.msg import StoryboardStep
from goalreel_interfaces.srv import (
    Command,
    GetStoryboard,
    SetActiveStep,
    StartExecuteTask,
    StartGenerateStoryboard,
)
from goalreel_ros import convert
from goalreel_ros.convert import RequestRefusedError, Submit, to_duration
from goalreel_ros.outputs import Outputs
from goalreel_ros.pictures import Jpegs

RESULT_TIMEOUT = 60
"""Seconds after its end for which a goal's result can still be fetched."""


class _ActiveGoal:
    """One goal under way: the engine's ticket, or why the request was refused."""

    def __init__(self, handle: ServerGoalHandle, submission: Ticket | RequestRefusedError) -> None:
        self.handle, self.submission = handle, submission
        self.cancel_requested = False

    def cancel(self) -> None:
        self.cancel_requested = True
        if isinstance(self.submission, Ticket):
            self.submission.cancel()


class Actions:
    """Both action servers. No executor thread waits: a goal's coroutine sleeps until the engine is done."""

    def __init__(self, node: Node, submit: Submit, outputs: Outputs, now: Callable[[], int]) -> None:
        self._node, self._submit, self._outputs, self._now = node, submit, outputs, now
        self._goals: dict[bytes, _ActiveGoal] = {}
        self._changed = threading.Condition()
        # Goals of both actions are accepted one after the other. The newest wins, and a client may send it as
        # soon as the previous one is accepted.
        group = MutuallyExclusiveCallbackGroup()
        self._servers = [
            ActionServer(
                node,
                kind,
                name,
                partial(self._carry_out, result),
                callback_group=group,
                handle_accepted_callback=partial(self._on_accepted, to_request),
                # rclpy declares a request there but passes a handle.
                cancel_callback=self._cancel,
                result_timeout=RESULT_TIMEOUT,
            )
            for kind, name, to_request, result in (
                (GenerateStoryboard, "~/generate_storyboard", convert.generate_request, self._generated),
                (ExecuteTask, "~/execute_task", convert.execute_request, self._executed),
            )
        ]

    def publish_progress(self, progress: BoardProgress) -> None:
        """Publish feedback for the goals that execute this storyboard."""
        message = ExecuteTask.Feedback(progress=convert.progress(progress, self._now()))
        with self._changed:
            goals = list(self._goals.values())
        for goal in goals:
            executes, ticket = isinstance(goal.handle.request, ExecuteTask.Goal), goal.submission
            if executes and isinstance(ticket, Ticket) and ticket.id == progress.board.id:
                _publish(goal.handle, message)

    def drain(self, seconds: float) -> None:
        """Wait until every goal has ended, at most `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._goals, seconds)

    def destroy(self) -> None:
        """Remove both actions."""
        for server in self._servers:
            server.destroy()

    # -- callbacks of the servers

    def _on_accepted(self, to_request: Callable[[Any], TaskRequest], handle: ServerGoalHandle) -> None:
        def publish(phase: Phase) -> None:
            feedback = partial(convert.phase, phase)
            self._outputs.call(
                lambda: _publish(handle, feedback(self._outputs.frame_id, self._outputs.jpegs))
            )

        generates = isinstance(handle.request, GenerateStoryboard.Goal)
        try:
            submission = self._submit(to_request(handle.request), publish if generates else None)
        except RequestRefusedError as e:
            submission = e
        with self._changed:
            self._goals[bytes(handle.goal_id.uuid)] = _ActiveGoal(handle, submission)
        handle.execute()

    def _cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        with self._changed:
            goal = self._goals.get(bytes(handle.goal_id.uuid))
        if goal is None or not handle.is_active:
            return CancelResponse.REJECT  # it has just ended
        goal.cancel()
        return CancelResponse.ACCEPT

    async def _carry_out(self, result: Callable[[TaskOutcome | None], Any], handle: ServerGoalHandle) -> Any:
        """Wait for one goal's end, set its final state, and give its result."""
        name = bytes(handle.goal_id.uuid)
        goal = self._goals[name]
        if isinstance(goal.submission, RequestRefusedError):
            message = result(None)
            message.error_code, message.error_msg = goal.submission.code, str(goal.submission)
        else:
            message = await self._wait_for_end(goal.submission, result)
        # The engine may be faster than rclpy, which records a cancellation only after its callback.
        while goal.cancel_requested and not handle.is_cancel_requested:
            await _Yield()
        if message.error_code == ErrorCode.NONE:
            handle.succeed()
        elif message.error_code == ErrorCode.CANCELED and handle.is_cancel_requested:
            handle.canceled()
        else:
            handle.abort()
        with self._changed:
            del self._goals[name]
            self._changed.notify_all()
        return message

    async def _wait_for_end(self, ticket: Ticket, result: Callable[[TaskOutcome | None], Any]) -> Any:
        """Wait for the engine. The publishing thread makes the result."""
        future: Future[Any] = Future(executor=self._node.executor)
        future.add_done_callback(_wake)

        def on_outcome(outcome: ConcurrentFuture[TaskOutcome]) -> None:
            self._outputs.call(lambda: future.set_result(result(outcome.result())))

        ticket.outcome.add_done_callback(on_outcome)
        if (message := await future) is None:
            raise RuntimeError("the executor cancelled this goal's future")
        return message

    # -- results; None stands for a request that was refused

    def _generated(self, outcome: TaskOutcome | None) -> GenerateStoryboard.Result:
        if outcome is None:
            return GenerateStoryboard.Result()
        planning_time = to_duration(outcome.planning_time)
        return GenerateStoryboard.Result(planning_time=planning_time, **self._common(outcome))

    def _executed(self, outcome: TaskOutcome | None) -> ExecuteTask.Result:
        if outcome is None:
            return ExecuteTask.Result()
        return ExecuteTask.Result(
            verdict=convert.verdict(outcome.verdict),
            replans=outcome.replans,
            total_elapsed_time=to_duration(outcome.elapsed),
            **self._common(outcome),
        )

    def _common(self, outcome: TaskOutcome) -> dict[str, Any]:
        return {
            "storyboard": convert.storyboard(outcome.board, self._outputs.jpegs, self._now()),
            "degraded": list(outcome.board.degraded_lines),
            "error_code": outcome.error,
            "error_msg": outcome.message,
        }


class _Yield:
    """Await it to let the executor run other callbacks once."""

    def __await__(self) -> Generator[None]:
        yield


def _publish(handle: ServerGoalHandle, feedback: ExecuteTask.Feedback | GenerateStoryboard.Feedback) -> None:
    # rclpy declares its own wrapper there but takes the bare message.
    handle.publish_feedback(feedback)


def _wake(_: Future) -> None:
    """Do nothing. A done callback is a task of the executor, which makes it resume the coroutine."""


STATUSES = {
    StoryboardStep.STATUS_ACTIVE: "active",
    StoryboardStep.STATUS_COMPLETED: "completed",
    StoryboardStep.STATUS_SKIPPED: "skipped",
    StoryboardStep.STATUS_FAILED: "failed",
}


type StartResponse = StartExecuteTask.Response | StartGenerateStoryboard.Response
type CodedResponse = GetStoryboard.Response | SetActiveStep.Response | Command.Response | StartResponse
"""Every response of goalreel_interfaces: it has `error_code` and `error_msg`."""


class Services:
    """Offers every service of the node.

    `active_engine` gives the engine, or raises RequestRefusedError while the node is not active.
    """

    def __init__(
        self,
        node: Node,
        active_engine: Callable[[], Engine],
        submit: Submit,
        jpegs: Jpegs,
        now: Callable[[], int],
    ) -> None:
        self._node, self._active_engine, self._submit = node, active_engine, submit
        self._jpegs, self._now = jpegs, now
        group = ReentrantCallbackGroup()

        def create(kind: type[Any], name: str, callback: Callable[..., Any]) -> Any:
            return node.create_service(kind, f"~/{name}", callback, callback_group=group)

        self._services = [
            create(GetStoryboard, "get_storyboard", self._get),
            create(SetActiveStep, "set_active_step", self._set_step),
            create(
                StartGenerateStoryboard,
                "start/generate_storyboard",
                partial(self._start, convert.generate_request),
            ),
            create(StartExecuteTask, "start/execute_task", partial(self._start, convert.execute_request)),
            *(
                create(Command, command, partial(self._command, command))
                for command in get_args(TaskCommand.__value__)
            ),
        ]

    def destroy(self) -> None:
        """Remove every service."""
        for service in self._services:
            self._node.destroy_service(service)

    def _get(
        self, request: GetStoryboard.Request, response: GetStoryboard.Response
    ) -> GetStoryboard.Response:
        def snapshot() -> CodedText:
            jpegs = self._jpegs if request.include_images else None
            response.storyboard = convert.storyboard(self._active_engine().board, jpegs, self._now())
            return ErrorCode.NONE, ""

        return _answer(response, snapshot)

    def _set_step(
        self, request: SetActiveStep.Request, response: SetActiveStep.Response
    ) -> SetActiveStep.Response:
        def set_step() -> CodedText:
            engine, status = self._active_engine(), STATUSES.get(request.status)
            if status is None:
                return ErrorCode.INVALID_REQUEST, f"a step cannot be given status {request.status}"
            return engine.set_step(request.index, status)

        return _answer(response, set_step)

    def _command(
        self, command: TaskCommand, request: Command.Request, response: Command.Response
    ) -> Command.Response:
        return _answer(response, lambda: self._active_engine().command(command, request.reason))

    def _start[Response: StartResponse](
        self, to_request: Callable[[Any], TaskRequest], request: Any, response: Response
    ) -> Response:
        def start() -> CodedText:
            ticket = self._submit(to_request(request))
            response.storyboard_id = convert.to_uuid(ticket.id)
            if not ticket.done:
                return ErrorCode.NONE, ""
            outcome = ticket.outcome.result()
            return outcome.error, outcome.message

        return _answer(response, start)


def _answer[Response: CodedResponse](response: Response, act: Callable[[], CodedText]) -> Response:
    try:
        response.error_code, response.error_msg = act()
    except RequestRefusedError as e:
        response.error_code, response.error_msg = e.code, str(e)
    return response
