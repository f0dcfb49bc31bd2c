"""An operator's services, and services in place of the actions for tools that cannot send action goals."""

from collections.abc import Callable
from functools import partial
from typing import Any, get_args

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node

from goalreel.streaming.board import CodedText, ErrorCode
from goalreel.streaming.engine import Engine
from goalreel.streaming.operator_commands import TaskCommand
from goalreel.streaming.request import TaskRequest
from goalreel_interfaces.msg import StoryboardStep
from goalreel_interfaces.srv import (
    Command,
    GetStoryboard,
    SetActiveStep,
    StartExecuteTask,
    StartGenerateStoryboard,
)
from goalreel_ros import convert, requests
from goalreel_ros.pictures import Jpegs
from goalreel_ros.requests import RequestRefusedError, Submit

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
                StartGenerateStoryboard, "start/generate_storyboard", partial(self._start, requests.generate)
            ),
            create(StartExecuteTask, "start/execute_task", partial(self._start, requests.execute)),
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
        jpegs = self._jpegs if request.include_images else None
        return self._answer(response, partial(self._snapshot, response, jpegs))

    def _snapshot(self, response: GetStoryboard.Response, jpegs: Jpegs | None) -> CodedText:
        response.storyboard = convert.storyboard(self._active_engine().board, jpegs, self._now())
        return ErrorCode.NONE, ""

    def _set_step(
        self, request: SetActiveStep.Request, response: SetActiveStep.Response
    ) -> SetActiveStep.Response:
        def set_step() -> CodedText:
            engine, status = self._active_engine(), STATUSES.get(request.status)
            if status is None:
                return ErrorCode.INVALID_REQUEST, f"a step cannot be given status {request.status}"
            return engine.set_step(request.index, status)

        return self._answer(response, set_step)

    def _command(
        self, command: TaskCommand, request: Command.Request, response: Command.Response
    ) -> Command.Response:
        return self._answer(response, lambda: self._active_engine().command(command, request.reason))

    def _start[Response: StartResponse](
        self, parse: Callable[[Any], TaskRequest], request: Any, response: Response
    ) -> Response:
        def start() -> CodedText:
            ticket = self._submit(parse(request))
            response.storyboard_id = convert.to_uuid(ticket.id)
            if not ticket.done:
                return ErrorCode.NONE, ""
            outcome = ticket.outcome.result()
            return outcome.error, outcome.message

        return self._answer(response, start)

    def _answer[Response: CodedResponse](self, response: Response, act: Callable[[], CodedText]) -> Response:
        try:
            response.error_code, response.error_msg = act()
        except RequestRefusedError as e:
            response.error_code, response.error_msg = e.code, str(e)
        return response
