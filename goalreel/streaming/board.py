"""The state of a storyboard under way, as it is drawn, streamed and latched. Frozen: a change is a new Board.

Times are nanoseconds of the node's clock, 0 before the event. The values of the literals are those of
`goalreel_interfaces`, in lower case.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Literal, Self
from uuid import UUID

from goalreel.image import Image
from goalreel.streaming.step_panel import ModelNames, StepPanel
from goalreel.types import Failure, failure_lines

type BoardState = Literal[
    "empty",
    "planning",
    "rendering",
    "ready",
    "executing",
    "paused",
    "succeeded",
    "failed",
    "canceled",
    "unverified",
]
type GoalReason = Literal[
    "no_task",
    "active",
    "planning",
    "paused",
    "replanning",
    "blind",
    "stale",
    "over",
    "holding",
    "not_active",
]
type PhaseName = Literal["waiting_for_image", "loading_models", "planning", "generating", "validating"]

NO_ID = UUID(int=0)


class ErrorCode(IntEnum):
    """Why something did not end well. The values are those of `goalreel_interfaces/msg/ErrorCode`."""

    NONE = 0
    UNKNOWN = 1
    INVALID_REQUEST = 2
    NOT_ACTIVE = 3
    MODELS_NOT_LOADED = 4
    NO_IMAGE = 5
    STALE_IMAGE = 6
    BAD_IMAGE = 7
    PLANNER_FAILED = 8
    EDITOR_FAILED = 9
    CRITIC_FAILED = 10
    ATTEMPTS_EXHAUSTED = 11
    STEP_FAILED = 12
    REPLANS_EXHAUSTED = 13
    TIMEOUT = 14
    CANCELED = 15
    PREEMPTED = 16
    OUT_OF_MEMORY = 17
    NO_TASK = 18
    UNVERIFIED = 19


type CodedText = tuple[ErrorCode, str]
"""Why something did not end well, as a code and one line; (NONE, "") when it did."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One camera frame. `stamp` is the camera's (ns), `received` is `time.monotonic()` on arrival (s)."""

    image: Image
    """In the size that the models are given: `max_image_side` at most."""
    stamp: int = 0
    frame_id: str = ""
    received: float = 0.0
    full_size: tuple[int, int] | None = None
    """(width, height) as the camera sent it, where that differs."""
    spacing: float = 0.0
    """Seconds between it and the frame before; of the last three such times, the longest."""

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) as the camera sent it, which is also the size of goal images."""
        return self.full_size or self.image.size


@dataclass(frozen=True, slots=True)
class Board:
    """The current state of a visual plan. Without steps there is no plan."""

    id: UUID = NO_ID
    task: str = ""
    state: BoardState = "empty"
    revision: int = 0
    stamp: int = 0
    source: Frame | None = None
    steps: tuple[StepPanel, ...] = ()
    models: ModelNames = field(default_factory=ModelNames)
    planner_failure: Failure | None = None
    """Why the planner gave no plan when it was last asked; None where it gave one.

    The task itself, in words, or the plan before stands in its place.
    """

    critic_failure: Failure | None = None
    """Why the critic did not say whether a step is done when it was last asked; None where it did."""

    earlier_failures: tuple[Failure, ...] = ()
    """What editor and critic failed at elsewhere, before the storyboard was sent here."""

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What models failed at in this plan."""
        panels = (panel.failure for panel in self.steps)
        failures = (self.planner_failure, *panels, self.critic_failure, *self.earlier_failures)
        return tuple(failure for failure in failures if failure is not None)

    @property
    def degraded(self) -> str:
        """Which models failed, in one line; empty where none did. Such a plan is worth less than it looks."""
        return "; ".join(self.degraded_lines)

    @property
    def degraded_lines(self) -> tuple[str, ...]:
        """The same, in one line a model."""
        return failure_lines(self.failures)

    @property
    def unaccepted(self) -> str:
        """How many steps have a picture that no critic accepted, in one line; empty where none has."""
        number = sum(p.image_status in ("unverified", "failed") for p in self.steps)
        return f"no critic accepted the goal of {number} of {len(self.steps)} steps" if number else ""

    def doubt(self, panel: StepPanel) -> str:
        """Say why a step's goal, which is final, is not verified; empty where it is."""
        if self.planner_failure is not None:
            return failure_lines([self.planner_failure])[0]
        if panel.image_status == "verified":
            return ""
        return "it is in words alone" if panel.goal_image is None else "no critic accepted its picture"

    @property
    def active(self) -> StepPanel | None:
        """The step being executed."""
        return next((p for p in self.steps if p.status == "active"), None)

    @property
    def frame_id(self) -> str:
        """Optical frame of the camera that it was planned from, or empty."""
        return self.source.frame_id if self.source is not None else ""

    def predicted_before(self, index: int) -> Image | None:
        """Give the predicted picture before step `index`: that of the last step before it that has one."""
        for panel in reversed(self.steps[:index]):
            if panel.step.prompt is not None:
                return panel.goal_image
        return self.source.image if self.source is not None else None

    def with_panel(self, panel: StepPanel) -> Self:
        """Give the board with one panel replaced."""
        steps = (*self.steps[: panel.index], panel, *self.steps[panel.index + 1 :])
        return replace(self, steps=steps)

    def leave_step(
        self,
        index: int,
        status: Literal["completed", "skipped", "active"],
        target: int,
        now: int,
        *,
        by_operator: bool = False,
    ) -> tuple[StepPanel, ...]:
        """Give the panels after step `index` ended with `status`, at the time `now`.

        With `active` the task jumps to step `target`: the steps between are skipped, and the steps from
        `target` on are pending.
        """
        steps = list(self.steps)
        if status != "active":
            by = ("operator" if by_operator else "critic") if status == "completed" else ""
            steps[index] = replace(steps[index], status=status, ended=now, ended_by=by)
            return tuple(steps)
        for i in range(min(index, target), len(steps)):
            if i < target:
                steps[i] = replace(steps[i], status="skipped", ended=now, ended_by="")
            else:
                steps[i] = replace(steps[i], status="pending", ended=0, ended_by="")
        return tuple(steps)


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal for the policy, which holds unless `reason` is "active". `panel` is its step, if any."""

    board: Board
    panel: StepPanel | None
    reason: GoalReason
    stamp: int

    @property
    def active(self) -> bool:
        """Whether the policy pursues it."""
        return self.reason == "active"


@dataclass(frozen=True, slots=True)
class BoardProgress:
    """How far a task is. `step_elapsed` is in seconds.

    `closeness` of the live view to the goal image is 1 at the goal and NaN where it is unknown. Below 0 the
    view is farther from the goal than at the start.
    """

    board: Board
    closeness: float = math.nan
    step_elapsed: float = 0.0
    replans: int = 0
    message: str = ""

    @property
    def step_completion(self) -> float:
        """Share of the active step that is done, 0-1; NaN where it is unknown."""
        return self.closeness if math.isnan(self.closeness) else min(1.0, max(0.0, self.closeness))

    @property
    def task_completion(self) -> float:
        """Share of the task that is done, 0-1: completed and skipped steps and the active step's share."""
        return _share(self.board.steps, self.step_completion)


@dataclass(frozen=True, slots=True)
class Phase:
    """Progress of making a storyboard, for whoever asked for it."""

    stage: PhaseName
    step: int = 0
    steps: int = 0
    """0 until the planner has answered."""
    attempt: int = 0
    completion: float = 0.0
    """Share of the steps whose picture is final, 0-1."""
    panel: StepPanel | None = None
    models: ModelNames = field(default_factory=ModelNames)


def _share(steps: Sequence[StepPanel], active: float) -> float:
    if not steps:
        return 0.0
    share = 0.0 if math.isnan(active) else active
    done = sum(p.status in ("completed", "skipped") for p in steps)
    return (done + share * any(p.status == "active" for p in steps)) / len(steps)
