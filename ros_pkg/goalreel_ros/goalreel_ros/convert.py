# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""Converts between the engine's types and messages of goalreel_interfaces."""

import math
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from builtin_interfaces.msg import Duration, Time
from pydantic import ValidationError
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import Header
from unique_identifier_msgs.msg import UUID as UUIDMessage

from goalreel.claims import CLAIM_NAMES, NOBODY, PICTURE_CHECKS, UNKNOWN, Claim as StepClaim, Claims
from goalreel.image import Image
from goalreel.streaming.board import (
    NO_ID,
    NOT_ASKED,
    Board,
    BoardProgress,
    ErrorCode,
    Frame,
    Goal,
    ModelNames,
    Phase,
    StepPanel,
)
from goalreel.streaming.request import TaskEnded, TaskRequest
from goalreel.types import STAGE_OF_ROLE, Attempt, Failure, Step, StoryboardStep as PlannedStep, Verdict
from goalreel_interfaces.action import ExecuteTask, GenerateStoryboard
from goalreel_interfaces.msg import (
    Claim,
    CriticScore,
    CriticVerdict,
    Storyboard,
    StoryboardProgress,
    StoryboardStep,
    SubGoal,
)
from goalreel_interfaces.srv import StartExecuteTask, StartGenerateStoryboard
from goalreel_ros.pictures import Jpegs, decode

GIGA = 10**9


def names(kind: Any, prefix: str) -> dict[int, Any]:
    """Map the constants of a message type that begin with `prefix` to the rest of their names, lower case."""
    constants = [name for name in dir(type(kind)) if name.startswith(prefix)]
    return {getattr(kind, name): name.removeprefix(prefix).lower() for name in constants}


STATES = names(Storyboard, "STATE_")
STATUSES = names(StoryboardStep, "STATUS_")
IMAGES = names(StoryboardStep, "IMAGE_")


def constant(kind: Any, prefix: str, name: str) -> int:
    """Give the constant of a message type for one of the engine's literals."""
    return getattr(kind, f"{prefix}_{name.upper()}")


def to_time(nanoseconds: int) -> Time:
    """Turn nanoseconds into a ROS time."""
    return Time(sec=nanoseconds // GIGA, nanosec=nanoseconds % GIGA)


def from_time(time: Time) -> int:
    """Turn a ROS time into nanoseconds."""
    return time.sec * GIGA + time.nanosec


def to_duration(seconds: float) -> Duration:
    """Turn seconds into a ROS duration, rounded to a nanosecond."""
    nanoseconds = round(seconds * GIGA)
    return Duration(sec=nanoseconds // GIGA, nanosec=nanoseconds % GIGA)


def from_duration(duration: Duration) -> float:
    """Turn a ROS duration into seconds."""
    return duration.sec + duration.nanosec / GIGA


def header(stamp: int, frame_id: str) -> Header:
    """Make a header; `stamp` is in ns."""
    return Header(stamp=to_time(stamp), frame_id=frame_id)


def to_uuid(value: UUID) -> UUIDMessage:
    """Convert a UUID to its message."""
    return UUIDMessage(uuid=list(value.bytes))


def from_uuid(message: UUIDMessage) -> UUID:
    """Convert a message to its UUID."""
    return UUID(bytes=bytes(message.uuid))


def storyboard(board: Board, jpegs: Jpegs | None, now: int) -> Storyboard:
    """Make a board's message, without pictures where `jpegs` is None. `now` (ns) stamps an empty one."""
    message = Storyboard(
        header=header(board.stamp or now, board.frame_id),
        id=to_uuid(board.id),
        revision=board.revision,
        task=board.task,
        state=constant(Storyboard, "STATE", board.state),
        steps=[step(p, board.frame_id, jpegs, board.models, image_status(board, p)) for p in board.steps],
        planner_model=board.models.planner,
        editor_model=board.models.editor,
        critic_model=board.models.critic,
        examination=examined(board),
        degraded=list(board.degraded_lines),
    )
    if jpegs is not None and board.source is not None:
        at = header(board.source.stamp, board.frame_id)
        message.source_image = jpegs.message(board.source.image, at)
    return message


def examined(board: Board) -> str:
    """Give the result of the critic's examination; empty where there is none."""
    return board.examination.line if board.examination else ""


def image_status(board: Board, panel: StepPanel) -> str:
    """Name the status of a step's picture, `verified` where a judge that may be believed accepted it."""
    return "verified" if board.is_verified(panel) else panel.image_status


def step(
    panel: StepPanel, frame_id: str, jpegs: Jpegs | None, models: ModelNames, image_status: str = ""
) -> StoryboardStep:
    """Make one step's message; `frame_id` is the source camera's, and `models` have their published names."""
    attempt = panel.attempt
    message = StoryboardStep(
        index=panel.index,
        name=panel.step.name,
        instruction=panel.step.instruction,
        auxiliary_text=panel.step.auxiliary_text or "",
        prompt=attempt.prompt if attempt is not None else panel.step.prompt or "",
        status=constant(StoryboardStep, "STATUS", panel.status),
        image_status=constant(StoryboardStep, "IMAGE", image_status or panel.image_status),
        attempts=panel.attempts,
        max_attempts=panel.max_attempts,
        critic=verdict(attempt.verdict, attempt.failure) if attempt is not None else verdict(None),
        created_stamp=to_time(panel.created),
        start_stamp=to_time(panel.started),
        end_stamp=to_time(panel.ended),
        claims=claims(panel.claims(models)),
    )
    if jpegs is not None:
        message.goal_image = jpegs.message(panel.goal_image, header(panel.source_stamp, frame_id))
    return message


def subgoal(goal: Goal, jpegs: Jpegs, now: int) -> SubGoal:
    """Make the sub-goal message for the policy; `now` is in ns."""
    board, panel = goal.board, goal.panel
    message = SubGoal(
        header=header(goal.stamp or now, board.frame_id),
        storyboard_id=to_uuid(board.id),
        revision=board.revision,
        num_steps=len(board.steps),
        active=goal.active,
        reason=constant(SubGoal, "REASON", goal.reason),
        task=board.task,
        degraded=list(board.degraded_lines),
        examination=examined(board),
    )
    if panel is None:
        message.goal_image = jpegs.message(None, message.header)
        return message
    shown = step(panel, board.frame_id, jpegs, board.models, image_status(board, panel))
    for field in ("index", "name", "instruction", "auxiliary_text", "image_status", "claims", "goal_image"):
        setattr(message, field, getattr(shown, field))
    return message


def progress(value: BoardProgress, now: int) -> StoryboardProgress:
    """Make the message of ~/progress; `now` is in ns."""
    board, active = value.board, value.board.active
    return StoryboardProgress(
        header=header(now, board.frame_id),
        storyboard_id=to_uuid(board.id),
        revision=board.revision,
        state=constant(Storyboard, "STATE", board.state),
        num_steps=len(board.steps),
        active_step=active.index if active is not None else 0,
        step_status=[constant(StoryboardStep, "STATUS", panel.status) for panel in board.steps],
        step_completion=value.step_completion,
        task_completion=value.task_completion,
        step_elapsed=to_duration(value.step_elapsed),
        replans=value.replans,
        message=value.message,
    )


def claims(value: Claims) -> list[Claim]:
    """Make the messages of a step's claims."""
    return [
        Claim(claim=name, by=claim.by, checked=claim.checked, doubts=list(claim.doubts))
        for name, claim in value.items()
    ]


def from_claims(messages: Sequence[Claim]) -> Claims:
    """Convert the messages of a step's claims; what is empty in them is unknown, and checked by nobody."""
    values = {
        message.claim: StepClaim(
            by=message.by or UNKNOWN, checked=message.checked or NOBODY, doubts=tuple(message.doubts)
        )
        for message in messages
        if message.claim in CLAIM_NAMES
    }
    return Claims.model_validate(values)


def phase(value: Phase, frame_id: str, jpegs: Jpegs) -> GenerateStoryboard.Feedback:
    """Make the feedback of the action GenerateStoryboard."""
    return GenerateStoryboard.Feedback(
        phase=constant(GenerateStoryboard.Feedback, "PHASE", value.stage),
        step_index=value.step,
        num_steps=value.steps,
        attempt=value.attempt,
        completion=value.completion,
        step=[] if value.panel is None else [step(value.panel, frame_id, jpegs, value.models)],
    )


def verdict(value: Verdict | None, failure: Failure | None = None) -> CriticVerdict:
    """Make the message of a verdict, or of a failure in its place; NOT_EVALUATED where there is neither."""
    if value is None:
        kind = CriticVerdict.NOT_EVALUATED if failure in (None, NOT_ASKED) else CriticVerdict.ERROR
        reason = "" if failure is None else failure.message
        return CriticVerdict(verdict=kind, score=math.nan, probability=math.nan, reasoning=reason)
    scores = {"semantics": value.semantics, "quality": value.quality}
    return CriticVerdict(
        verdict=CriticVerdict.ACCEPTED if value.success else CriticVerdict.REJECTED,
        score=math.nan if value.score is None else value.score,
        scores=[CriticScore(criterion=name, score=s) for name, s in scores.items() if s is not None],
        probability=math.nan if value.probability is None else value.probability,
        reasoning=value.reasoning,
        refined_prompt=value.refined_prompt or "",
    )


MAX_STEPS = 1000
"""Steps of a storyboard that are read, at most; the parameter `max_steps` allows fewer."""

type GenerateRequest = GenerateStoryboard.Goal | StartGenerateStoryboard.Request
type ExecuteRequest = ExecuteTask.Goal | StartExecuteTask.Request


def generate_request(message: GenerateRequest) -> TaskRequest:
    """Convert a request to make a storyboard.

    Raises:
        TaskEnded: the image cannot be read.
    """
    return TaskRequest(
        task=message.task,
        kind="generate",
        image=_image(message.image[0]) if message.image else None,
        auxiliary_text=message.auxiliary_text,
        max_steps=message.max_steps,
        max_attempts=message.max_attempts,
        timeout=from_duration(message.timeout),
        text_only=message.text_only,
    )


def execute_request(message: ExecuteRequest) -> TaskRequest:
    """Convert a request to carry a task out.

    Raises:
        TaskEnded: its storyboard is not complete, or contradicts itself.
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
        raise TaskEnded(ErrorCode.BAD_IMAGE, f"the request's image cannot be used: {e}") from None


def received_storyboard(message: Storyboard) -> Board:
    """Convert a storyboard that was made elsewhere: its words, pictures, verdicts, claims and failures.

    Raises:
        TaskEnded: a step is not complete, or contradicts itself; or a picture cannot be read.
    """
    if len(message.steps) > MAX_STEPS:
        raise _refused(f"the storyboard has {len(message.steps)} steps, {MAX_STEPS} are allowed")
    failures = [_failure(line) for line in message.degraded]
    for step in message.steps:
        if IMAGES.get(step.image_status) == "failed":
            reason = step.critic.reasoning.strip() or "no picture came about"
            failures.append(Failure(stage="edit", message=reason))
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
    status: Any = IMAGES.get(message.image_status)
    status = "accepted" if status == "verified" else status  # the claims and this node's examination say so
    claims = from_claims(message.claims)
    prompt, has_picture = message.prompt.strip(), bool(message.goal_image.data)
    if message.status != StoryboardStep.STATUS_PENDING:
        raise _refused(f"step {index} of the storyboard is not pending: send every step as STATUS_PENDING")
    is_whole = {
        "accepted": has_picture and prompt and message.critic.verdict == CriticVerdict.ACCEPTED,
        "unjudged": prompt or not has_picture,
        "rejected": prompt or not has_picture,
        "failed": not has_picture,
        "text": not prompt and not has_picture,
    }
    if not is_whole.get(status):
        raise _refused(
            f"step {index} of the storyboard is unfinished, or its picture, prompt and verdict do not fit "
            f"its image status, {status or message.image_status}"
        )
    try:
        step = Step(
            name=message.name,
            instruction=message.instruction,
            prompt=prompt or None,
            auxiliary_text=message.auxiliary_text or None,
        )
        record = PlannedStep(step=step)
        if has_picture:
            attempt = _attempt(message, claims.looks)
            worth: Any = attempt.status
            status = worth  # older nodes had one number for unjudged and rejected
            record = PlannedStep(step=step, attempts=(attempt,), status=worth, chosen=0)
        elif status in ("failed", "rejected"):
            status = "unjudged"  # it goes on in words, as a step of the node's own does
    except ValidationError as e:
        raise _refused(f"step {index} of the storyboard: {e.errors()[0]['msg']}") from None
    looks = claims.looks or StepClaim(checked=UNKNOWN if status == "accepted" else NOBODY)
    return StepPanel(
        index=index,
        record=record,
        max_attempts=0,
        image_status=status,
        attempts=message.attempts,
        source_stamp=from_time(message.goal_image.header.stamp),
        created=from_time(message.created_stamp),
        what=claims.what,
        looks=looks if has_picture else None,
    )


def _attempt(message: StoryboardStep, looks: StepClaim | None) -> Attempt:
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
            # A yes to a picture of another status, or that nobody claims, did not compare it with the words.
            pictures_only=accepted
            and (
                IMAGES.get(message.image_status) not in ("accepted", "verified")
                or (looks is not None and looks.checked in (NOBODY, PICTURE_CHECKS))
            ),
        )
    elif critic.verdict == CriticVerdict.NOT_EVALUATED:
        failure = NOT_ASKED
    else:
        failure = Failure(stage="judge", message=critic.reasoning.strip() or "no reason given")
    image = _image(message.goal_image)
    return Attempt(prompt=message.prompt.strip(), seed=0, image=image, verdict=verdict, failure=failure)


def _failure(line: str) -> Failure:
    """Convert a line of `degraded`; one that names no model is the planner's."""
    for role, stage in STAGE_OF_ROLE.items():
        if line.startswith(start := f"the {role} failed: ") and line.removeprefix(start).strip():
            return Failure(stage=stage, message=line.removeprefix(start))
    return Failure(stage="plan", message=line.strip() or "no reason given")


def _refused(message: str) -> TaskEnded:
    return TaskEnded(ErrorCode.INVALID_REQUEST, message)
