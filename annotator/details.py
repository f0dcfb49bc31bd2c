"""Add what rules tell of the steps of a recorded episode to its storyboard (`goalreel.details`)."""

from collections.abc import Collection

from goalreel.claims import RULE
from goalreel.details import DetailName, Details, FailureDetail, by_rule
from goalreel.planners.kinematic.description import MotionDescription
from goalreel.planners.kinematic.layout import Layout, Unsegmentable, check_recording
from goalreel.planners.kinematic.robot import find_layout
from goalreel.types import Recording, Storyboard, StoryboardStep

_RULES: frozenset[DetailName] = frozenset({"motion", "pose", "failure"})


def with_details(
    board: Storyboard, recording: Recording, layout: Layout | None, names: Collection[DetailName]
) -> Storyboard:
    """The storyboard with the details `names` that rules tell; what a model or a person told stays.

    Of a recording whose motion cannot be read it stays as it is.
    """
    if not _RULES.intersection(names):
        return board
    try:
        check_recording(recording)
        description = MotionDescription(recording, find_layout(recording, layout))
    except Unsegmentable:
        return board
    steps = list(board.steps)
    for i, step in enumerate(steps):
        measurements = _details(
            description, step, any(s.step.outcome == "done" for s in steps[i + 1 :]), names
        )
        if measurements != Details():
            details = (step.step.details or Details()).filled(measurements)
            plan_step = step.step.model_copy(update={"details": details})
            steps[i] = step.model_copy(update={"step": plan_step})
    return board.model_copy(update={"steps": tuple(steps)})


def _details(
    description: MotionDescription, step: StoryboardStep, goes_on: bool, names: Collection[DetailName]
) -> Details:
    """Details of a step by rules; after a failure that was mended the recording `goes_on` to a done step."""
    if step.segment is None:
        return Details()
    cause = description.failure(step.segment) if step.step.outcome == "failed" else None
    return Details(
        motion=by_rule(description.motion(step.segment)) if "motion" in names else None,
        pose=by_rule(description.pose(step.segment) or None) if "pose" in names else None,
        failure=FailureDetail(text=cause, by=RULE, restorable=goes_on or None)
        if cause and "failure" in names
        else None,
    )
