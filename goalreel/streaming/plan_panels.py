"""A plan as panels of the storyboard under way, within the limits of its request."""

from collections.abc import Sequence
from dataclasses import replace

from goalreel.models.presets import Preset
from goalreel.streaming.board import ErrorCode
from goalreel.streaming.preset_settings import attempts_of
from goalreel.streaming.request import TaskRequest
from goalreel.streaming.step_panel import StepPanel
from goalreel.streaming.task_end import TaskEnded
from goalreel.types import Plan


def panels_of(
    plan: Plan, previous: tuple[StepPanel, ...], request: TaskRequest, preset: Preset
) -> tuple[StepPanel, ...]:
    """The previous panels, followed by one for each step of the plan.

    Raises:
        TaskEnded: PLANNER_FAILED, as the plan has more steps than are allowed.
    """
    limit = preset.max_steps if request.max_steps < 0 else request.max_steps
    if len(plan.steps) > limit:
        text = f"the plan has {len(plan.steps)} steps, {limit} are allowed (max_steps)"
        raise TaskEnded(ErrorCode.PLANNER_FAILED, text)
    attempts = attempts_of(request.max_attempts, preset)
    steps = enumerate(plan.steps, len(previous))
    return (*previous, *(StepPanel(index, step, attempts) for index, step in steps))


def panels_again(
    panels: Sequence[StepPanel], index: int, request: TaskRequest, preset: Preset
) -> tuple[StepPanel, ...]:
    """The panels with step `index` and what follows as they were planned, where nobody can plan anew.

    Raises:
        TaskEnded: as `panels_of`.
    """
    before, old = tuple(panels[:index]), panels[index:]
    new = panels_of(Plan(steps=tuple(p.step for p in old)), before, request, preset)[index:]
    authors = (replace(n, written_by=o.written_by, what=o.what) for n, o in zip(new, old, strict=True))
    return (*before, *authors)
