"""Converts the engine's state of a storyboard to messages of goalreel_interfaces."""

import math
from collections.abc import Sequence
from uuid import UUID

from std_msgs.msg import Header
from unique_identifier_msgs.msg import UUID as UUIDMessage

from goalreel.claims import CLAIM_NAMES, NOBODY, UNKNOWN, Claims
from goalreel.claims import Claim as StepClaim
from goalreel.streaming.board import Board, BoardProgress, Goal, Phase
from goalreel.streaming.step_panel import ModelNames, StepPanel
from goalreel.types import Attempt, Verdict
from goalreel_interfaces.action import GenerateStoryboard
from goalreel_interfaces.msg import (
    Claim,
    CriticScore,
    CriticVerdict,
    Storyboard,
    StoryboardProgress,
    StoryboardStep,
    SubGoal,
)
from goalreel_ros.pictures import Jpegs
from goalreel_ros.times import to_duration, to_time


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
    at = header(board.stamp or now, board.frame_id)
    message = Storyboard(
        header=at,
        id=to_uuid(board.id),
        revision=board.revision,
        task=board.task,
        state=getattr(Storyboard, f"STATE_{board.state.upper()}"),
        steps=[step(p, board.frame_id, jpegs, board.models) for p in board.steps],
        planner_model=board.models.planner,
        editor_model=board.models.editor,
        critic_model=board.models.critic,
        degraded=list(board.degraded_lines),
    )
    if jpegs is not None and board.source is not None:
        source_header = header(board.source.stamp, board.frame_id)
        message.source_image = jpegs.message(board.source.image, source_header)
    return message


def step(panel: StepPanel, frame_id: str, jpegs: Jpegs | None, models: ModelNames) -> StoryboardStep:
    """Make one step's message; `frame_id` is the source camera's, and `models` have their published names."""
    message = StoryboardStep(
        index=panel.index,
        name=panel.step.name,
        instruction=panel.step.instruction,
        auxiliary_text=panel.step.auxiliary_text or "",
        prompt=panel.attempt.prompt if panel.attempt is not None else panel.step.prompt or "",
        status=getattr(StoryboardStep, f"STATUS_{panel.status.upper()}"),
        image_status=_image_status(panel),
        attempts=panel.attempts,
        max_attempts=panel.max_attempts,
        critic=_critic(panel.attempt),
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
        reason=getattr(SubGoal, f"REASON_{goal.reason.upper()}"),
        task=board.task,
        degraded=list(board.degraded_lines),
    )
    if panel is None:
        message.goal_image = jpegs.message(None, message.header)
        return message
    message.index = panel.index
    message.name = panel.step.name
    message.instruction = panel.step.instruction
    message.auxiliary_text = panel.step.auxiliary_text or ""
    message.image_status = _image_status(panel)
    message.claims = claims(panel.claims(board.models))
    message.goal_image = jpegs.message(panel.goal_image, header(panel.source_stamp, board.frame_id))
    return message


def progress(value: BoardProgress, now: int) -> StoryboardProgress:
    """Make the message of ~/progress; `now` is in ns."""
    board = value.board
    active = board.active
    return StoryboardProgress(
        header=header(now, board.frame_id),
        storyboard_id=to_uuid(board.id),
        revision=board.revision,
        state=getattr(Storyboard, f"STATE_{board.state.upper()}"),
        num_steps=len(board.steps),
        active_step=active.index if active is not None else 0,
        step_status=[getattr(StoryboardStep, f"STATUS_{p.status.upper()}") for p in board.steps],
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
        phase=getattr(GenerateStoryboard.Feedback, f"PHASE_{value.stage.upper()}"),
        step_index=value.step,
        num_steps=value.steps,
        attempt=value.attempt,
        completion=value.completion,
        step=[] if value.panel is None else [step(value.panel, frame_id, jpegs, value.models)],
    )


def _image_status(panel: StepPanel) -> int:
    return getattr(StoryboardStep, f"IMAGE_{panel.image_status.upper()}")


def _critic(attempt: Attempt | None) -> CriticVerdict:
    if attempt is not None and attempt.failure is not None:
        return _critic_verdict(CriticVerdict.ERROR, reasoning=attempt.failure.message)
    if attempt is None or attempt.verdict is None:
        return _critic_verdict(CriticVerdict.NOT_EVALUATED)
    return _verdict_message(attempt.verdict)


def verdict(value: Verdict | None) -> CriticVerdict:
    """Make the message of the verdict on a task as a whole; NOT_EVALUATED where there is none."""
    return _critic_verdict(CriticVerdict.NOT_EVALUATED) if value is None else _verdict_message(value)


def _critic_verdict(verdict: int, reasoning: str = "") -> CriticVerdict:
    return CriticVerdict(verdict=verdict, score=math.nan, probability=math.nan, reasoning=reasoning)


def _verdict_message(verdict: Verdict) -> CriticVerdict:
    return CriticVerdict(
        verdict=CriticVerdict.ACCEPTED if verdict.success else CriticVerdict.REJECTED,
        score=math.nan if verdict.score is None else verdict.score,
        scores=_scores(verdict),
        probability=math.nan if verdict.probability is None else verdict.probability,
        reasoning=verdict.reasoning,
        refined_prompt=verdict.refined_prompt or "",
    )


def _scores(verdict: Verdict) -> list[CriticScore]:
    scores = {"semantics": verdict.semantics, "quality": verdict.quality}
    return [CriticScore(criterion=name, score=score) for name, score in scores.items() if score is not None]
