"""Converts the requests of actions, services and topics to the engine's TaskRequest."""

from typing import Protocol
from uuid import UUID

from sensor_msgs.msg import CompressedImage
from unique_identifier_msgs.msg import UUID as UUIDMessage

from goalreel.image import Image
from goalreel.streaming.board import NO_ID, ErrorCode
from goalreel.streaming.engine import OnPhase
from goalreel.streaming.request import TaskRequest
from goalreel.streaming.ticket import Ticket
from goalreel_interfaces.action import ExecuteTask, GenerateStoryboard
from goalreel_interfaces.srv import StartExecuteTask, StartGenerateStoryboard
from goalreel_ros.convert import from_uuid
from goalreel_ros.pictures import decode
from goalreel_ros.times import from_duration

type GenerateRequest = GenerateStoryboard.Goal | StartGenerateStoryboard.Request
type ExecuteRequest = ExecuteTask.Goal | StartExecuteTask.Request


class RequestRefusedError(Exception):
    """A request that does not reach the engine. `code` and the message, one line, say why."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Submit(Protocol):
    """Submits a request to the engine."""

    def __call__(self, request: TaskRequest, on_phase: OnPhase | None = None) -> Ticket:
        """Start the request.

        Raises:
            RequestRefusedError: the node is not active.
        """
        ...


def generate(message: GenerateRequest) -> TaskRequest:
    """Convert a request to make a storyboard.

    Raises:
        RequestRefusedError: the image cannot be read.
    """
    images = list(message.image)
    return TaskRequest(
        task=message.task,
        kind="generate",
        image=_image(images[0]) if images else None,
        auxiliary_text=message.auxiliary_text,
        max_steps=message.max_steps,
        max_attempts=message.max_attempts,
        timeout=from_duration(message.timeout),
        text_only=message.text_only,
    )


def execute(message: ExecuteRequest) -> TaskRequest:
    """Convert a request to carry a task out."""
    return TaskRequest(
        task=message.task,
        storyboard_id=_storyboard_id(message.storyboard_id),
        auxiliary_text=message.auxiliary_text,
        max_steps=message.max_steps,
        max_attempts=message.max_attempts,
        max_replans=message.max_replans,
        timeout=from_duration(message.timeout),
    )


def _storyboard_id(message: UUIDMessage) -> UUID | None:
    value = from_uuid(message)
    return None if value == NO_ID else value


def _image(message: CompressedImage) -> Image:
    try:
        return decode(message)
    except ValueError as e:
        raise RequestRefusedError(ErrorCode.BAD_IMAGE, f"the request's image cannot be used: {e}") from None
