# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""The node's actions and services: tasks, an operator's commands, and the storyboard.

No goal of an action is rejected, since a rejection has no reason; it ends with a code and a text.
"""

import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, get_args

from rclpy.action.server import ActionServer, CancelResponse, ServerGoalHandle
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.task import Future

from goalreel.streaming.board import BoardProgress, CodedText, ErrorCode, Phase
from goalreel.streaming.engine import Engine, TaskCommand
from goalreel.streaming.request import TaskOutcome, TaskRequest, Ticket
from goalreel_interfaces import srv
from goalreel_interfaces.action import ExecuteTask, GenerateStoryboard
from goalreel_ros import convert
from goalreel_ros.convert import STATUSES, to_duration
from goalreel_ros.outputs import Outputs
from goalreel_ros.pictures import Jpegs

BURST = QoSProfile(depth=256)
"""For requests. A full queue drops the oldest; ROS's default of ten is too few for a script's burst."""

type Submit = Callable[..., Ticket]
"""`NodeEntities.submit`: from a function that makes a request, to its ticket."""


class Actions:
    """Both action servers. No executor thread waits: a goal's coroutine sleeps until the engine is done."""

    def __init__(
        self, node: Node, submit: Submit, outputs: Outputs, now: Callable[[], int], group: CallbackGroup
    ) -> None:
        self._node, self._submit, self._outputs, self._now = node, submit, outputs, now
        self._goals: dict[bytes, tuple[ServerGoalHandle, Ticket]] = {}
        self._cancelling: set[bytes] = set()
        self._changed = threading.Condition()
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
                goal_service_qos_profile=BURST,
                cancel_service_qos_profile=BURST,
                result_service_qos_profile=BURST,
                result_timeout=60,  # seconds after its end for which a result can still be fetched
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
        for handle, ticket in goals:
            if isinstance(handle.request, ExecuteTask.Goal) and ticket.id == progress.board.id:
                _publish(handle, message)

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
            self._outputs.call(
                lambda: _publish(handle, convert.phase(phase, self._outputs.frame_id, self._outputs.jpegs))
            )

        generates = isinstance(handle.request, GenerateStoryboard.Goal)
        ticket = self._submit(partial(to_request, handle.request), publish if generates else None)
        with self._changed:
            self._goals[bytes(handle.goal_id.uuid)] = handle, ticket
        handle.execute()

    def _cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        name = bytes(handle.goal_id.uuid)
        with self._changed:
            if name not in self._goals or not handle.is_active:
                return CancelResponse.REJECT  # it has just ended
            _, ticket = self._goals[name]
            self._cancelling.add(name)
        ticket.cancel()
        return CancelResponse.ACCEPT

    async def _carry_out(self, result: Callable[[TaskOutcome], Any], handle: ServerGoalHandle) -> Any:
        """Wait for one goal's end, set its final state, and give its result."""
        name = bytes(handle.goal_id.uuid)
        message = await self._wait_for_end(self._goals[name][1], result)
        # The engine may be faster than rclpy, which records a cancellation only after its callback.
        while name in self._cancelling and not handle.is_cancel_requested:
            await _Yield()
        if message.error_code == ErrorCode.NONE:
            handle.succeed()
        elif message.error_code == ErrorCode.CANCELED and handle.is_cancel_requested:
            handle.canceled()
        else:
            handle.abort()
        with self._changed:
            del self._goals[name]
            self._cancelling.discard(name)
            self._changed.notify_all()
        return message

    async def _wait_for_end(self, ticket: Ticket, result: Callable[[TaskOutcome], Any]) -> Any:
        """Wait for the engine. The publishing thread makes the result."""
        future: Future[Any] = Future(executor=self._node.executor)
        # A done callback is a task of the executor, which makes it resume the coroutine.
        future.add_done_callback(lambda _: None)
        ticket.outcome.add_done_callback(
            lambda outcome: self._outputs.call(lambda: future.set_result(result(outcome.result())))
        )
        if (message := await future) is None:
            raise RuntimeError("the executor cancelled this goal's future")
        return message

    def _generated(self, outcome: TaskOutcome) -> GenerateStoryboard.Result:
        return GenerateStoryboard.Result(
            planning_time=to_duration(outcome.planning_time), **self._common(outcome)
        )

    def _executed(self, outcome: TaskOutcome) -> ExecuteTask.Result:
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


class Services:
    """Offers every service of the node. `active_engine` gives None while the node is not active.

    In one exclusive `group` with the actions, requests are carried out as they came.
    """

    def __init__(
        self,
        node: Node,
        active_engine: Callable[[], Engine | None],
        submit: Submit,
        jpegs: Jpegs,
        now: Callable[[], int],
        group: CallbackGroup,
    ) -> None:
        self._node, self._active_engine, self._submit = node, active_engine, submit
        self._jpegs, self._now = jpegs, now

        def create(kind: type[Any], name: str, callback: Callable[..., Any]) -> Any:
            return node.create_service(kind, f"~/{name}", callback, qos_profile=BURST, callback_group=group)

        start, generate = self._start, convert.generate_request
        self._services = [
            create(srv.StartGenerateStoryboard, "start/generate_storyboard", partial(start, generate)),
            create(srv.StartExecuteTask, "start/execute_task", partial(start, convert.execute_request)),
            create(srv.GetStoryboard, "get_storyboard", partial(self._answer, self._get)),
            create(srv.SetActiveStep, "set_active_step", partial(self._answer, self._set_step)),
            *(
                create(srv.Command, command, partial(self._answer, partial(self._command, command)))
                for command in get_args(TaskCommand.__value__)
            ),
        ]

    def destroy(self) -> None:
        """Remove every service."""
        for service in self._services:
            self._node.destroy_service(service)

    def _start(self, to_request: Callable[[Any], TaskRequest], request: Any, response: Any) -> Any:
        ticket = self._submit(partial(to_request, request))
        response.storyboard_id = convert.to_uuid(ticket.id)
        if ticket.done:
            outcome = ticket.outcome.result()
            response.error_code, response.error_msg = outcome.error, outcome.message
        return response

    def _answer(self, act: Callable[[Engine, Any, Any], CodedText], request: Any, response: Any) -> Any:
        """Have an active engine act, and tell how it went in `error_code` and `error_msg`."""
        if (engine := self._active_engine()) is None:
            response.error_code = ErrorCode.NOT_ACTIVE
            response.error_msg = "the node is not active: activate it first"
        else:
            response.error_code, response.error_msg = act(engine, request, response)
        return response

    def _get(self, engine: Engine, request: srv.GetStoryboard.Request, response: Any) -> CodedText:
        jpegs = self._jpegs if request.include_images else None
        response.storyboard = convert.storyboard(engine.board, jpegs, self._now())
        return ErrorCode.NONE, ""

    def _set_step(self, engine: Engine, request: srv.SetActiveStep.Request, _: object) -> CodedText:
        status = STATUSES.get(request.status, "pending")
        if status == "pending":
            return ErrorCode.INVALID_REQUEST, f"a step cannot be given status {request.status}"
        return engine.set_step(request.index, status)

    def _command(self, command: TaskCommand, engine: Engine, request: Any, _: object) -> CodedText:
        return engine.command(command, request.reason)
