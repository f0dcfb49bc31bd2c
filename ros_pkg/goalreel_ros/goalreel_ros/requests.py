"""Converts the requests of actions, services and topics to the engine's TaskRequest."""

import math
from typing import Protocol
from uuid import UUID, uuid4

from pydantic import ValidationError
from sensor_msgs.msg import CompressedImage
from unique_identifier_msgs.msg import UUID as UUIDMessage

from goalreel.claims import Claim
from goalreel.image import Image
from goalreel.streaming.board import NO_ID, Board, ErrorCode, Frame
from goalreel.streaming.engine import OnPhase
from goalreel.streaming.request import TaskRequest
from goalreel.streaming.step_panel import ImageStatus, StepPanel
from goalreel.streaming.ticket import Ticket
from goalreel.types import STAGE_OF_ROLE, Attempt, Failure, Step, Verdict
from goalreel_interfaces.action import ExecuteTask, GenerateStoryboard
from goalreel_interfaces.msg import CriticVerdict, Storyboard, StoryboardStep
from goalreel_interfaces.srv import StartExecuteTask, StartGenerateStoryboard
from goalreel_ros.convert import from_claims, from_uuid
from goalreel_ros.pictures import decode
from goalreel_ros.times import from_duration, from_time

MAX_STEPS = 1000
"""Steps of a storyboard that are read, at most; the parameter `max_steps` allows fewer."""
UNFINISHED = (
    StoryboardStep.IMAGE_NONE,
    StoryboardStep.IMAGE_GENERATING,
    StoryboardStep.IMAGE_VALIDATING,
)
IMAGE_STATUSES: dict[int, ImageStatus] = {
    StoryboardStep.IMAGE_VERIFIED: "verified",
    StoryboardStep.IMAGE_UNVERIFIED: "unverified",
    StoryboardStep.IMAGE_FAILED: "unverified",  # it goes on in words, as a step of the node's own does
    StoryboardStep.IMAGE_TEXT: "text",
}

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
    """Convert a request to carry a task out.

    Raises:
        RequestRefusedError: its storyboard is not complete, or contradicts itself.
    """
    return TaskRequest(
        task=message.task,
        storyboard_id=_storyboard_id(message.storyboard_id),
        storyboard=received_storyboard(message.storyboard[0]) if message.storyboard else None,
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


def received_storyboard(message: Storyboard) -> Board:
    """Convert a storyboard that was made elsewhere: its words, pictures, verdicts, claims and failures.

    Raises:
        RequestRefusedError: a step is not complete, or contradicts itself; or a picture cannot be read.
    """
    if len(message.steps) > MAX_STEPS:
        raise _refused(f"the storyboard has {len(message.steps)} steps, {MAX_STEPS} are allowed")
    failures = [_failure(line) for line in message.degraded]
    source = message.source_image
    stamp = from_time(source.header.stamp)
    return Board(
        id=_storyboard_id(message.id) or uuid4(),
        task=message.task,
        source=Frame(_image(source), stamp, source.header.frame_id) if source.data else None,
        steps=tuple(_panel(index, step) for index, step in enumerate(message.steps)),
        planner_failure=next((failure for failure in failures if failure.stage == "plan"), None),
        earlier_failures=tuple(failure for failure in failures if failure.stage != "plan"),
    )


def _panel(index: int, message: StoryboardStep) -> StepPanel:
    if message.status != StoryboardStep.STATUS_PENDING:
        raise _refused(f"step {index} of the storyboard is not pending: send every step as STATUS_PENDING")
    status = message.image_status
    if status in UNFINISHED:
        raise _refused(f"step {index} of the storyboard has no goal image yet: finish it first")
    if status not in IMAGE_STATUSES:
        raise _refused(f"step {index} of the storyboard has the unknown image status {status}")
    has_picture, prompt = bool(message.goal_image.data), message.prompt.strip()
    expected = {StoryboardStep.IMAGE_VERIFIED: True, StoryboardStep.IMAGE_UNVERIFIED: has_picture}
    if has_picture != expected.get(status, False) or (has_picture and not prompt):
        raise _refused(f"picture, prompt and image status of step {index} of the storyboard do not fit")
    if prompt and status == StoryboardStep.IMAGE_TEXT:
        raise _refused(f"step {index} of the storyboard is in words alone, but has a prompt")
    if status == StoryboardStep.IMAGE_VERIFIED and message.critic.verdict != CriticVerdict.ACCEPTED:
        raise _refused(f"step {index} of the storyboard is verified, but its critic did not accept it")
    claims = from_claims(message.claims)
    try:
        step = Step(
            name=message.name,
            instruction=message.instruction,
            prompt=prompt or None,
            auxiliary_text=message.auxiliary_text or None,
        )
        attempt = _attempt(message) if has_picture else None
    except ValidationError as e:
        raise _refused(f"step {index} of the storyboard: {e.errors()[0]['msg']}") from None
    failure = None if attempt is None or status == StoryboardStep.IMAGE_VERIFIED else attempt.failure
    if status == StoryboardStep.IMAGE_FAILED:
        failure = Failure(stage="edit", message=message.critic.reasoning.strip() or "no picture came about")
    return StepPanel(
        index=index,
        step=step,
        max_attempts=0,
        image_status=IMAGE_STATUSES[status],
        attempts=message.attempts,
        attempt=attempt,
        failure=failure,
        source_stamp=from_time(message.goal_image.header.stamp),
        created=from_time(message.created_stamp),
        what=claims.what,
        looks=(claims.looks or Claim()) if has_picture else None,
    )


def _attempt(message: StoryboardStep) -> Attempt:
    critic, verdict, failure = message.critic, None, None
    if critic.verdict in (CriticVerdict.ACCEPTED, CriticVerdict.REJECTED):
        scores = {score.criterion: score.score for score in critic.scores}
        accepted = critic.verdict == CriticVerdict.ACCEPTED
        verdict = Verdict(
            success=accepted,
            reasoning=critic.reasoning,
            refined_prompt=critic.refined_prompt.strip() or None,
            probability=None if math.isnan(critic.probability) else critic.probability,
            semantics=scores.get("semantics"),
            quality=scores.get("quality"),
            # Who accepts a picture that is not verified has not compared it with the words.
            pictures_only=accepted and message.image_status != StoryboardStep.IMAGE_VERIFIED,
        )
    else:
        reason = "no critic was asked" if critic.verdict == CriticVerdict.NOT_EVALUATED else "no reason given"
        failure = Failure(stage="judge", message=critic.reasoning.strip() or reason)
    image = _image(message.goal_image)
    return Attempt(prompt=message.prompt.strip(), seed=0, image=image, verdict=verdict, failure=failure)


def _failure(line: str) -> Failure:
    """Convert a line of `degraded`; one that names no model is the planner's."""
    for role, stage in STAGE_OF_ROLE.items():
        if line.startswith(start := f"the {role} failed: ") and line.removeprefix(start).strip():
            return Failure(stage=stage, message=line.removeprefix(start))
    return Failure(stage="plan", message=line.strip() or "no reason given")


def _refused(message: str) -> RequestRefusedError:
    return RequestRefusedError(ErrorCode.INVALID_REQUEST, message)
