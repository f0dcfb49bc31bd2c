"""The state of a storyboard under way, as it is drawn, streamed and latched. Frozen: a change is a new Board.

Times are nanoseconds of the node's clock, 0 before the event. The values of the literals are those of
`goalreel_interfaces`, in lower case.
"""

import math
import sys
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Literal, Self
from uuid import UUID

from goalreel.claims import OPERATOR, PERSON, UNKNOWN, Claim, Claims
from goalreel.critics.examination import Examination, verifies
from goalreel.image import Image
from goalreel.planners.kinematic.naming import unmentioned
from goalreel.types import ROLES, Attempt, Failure, Role, Step, StoryboardStep, failure_lines, not_mentioned

type StepStatus = Literal["pending", "completed", "skipped", "failed", "active"]
type ImageStatus = Literal[
    "none", "generating", "validating", "accepted", "unjudged", "rejected", "failed", "text"
]
SHOWN: tuple[ImageStatus, ...] = ("accepted", "unjudged", "rejected")
"""The statuses of a picture that is shown. Words in place of a picture are `unjudged` too."""
EndState = Literal["succeeded", "failed", "canceled", "unconfirmed"]
type BoardState = Literal["empty", "planning", "rendering", "ready", "executing", "paused", EndState]
type GoalReason = Literal[
    "no_task", "active", "planning", "paused", "replanning", "blind", "stale", "over", "holding", "not_active"
]
type PhaseName = Literal["waiting_for_image", "loading_models", "planning", "generating", "validating"]

NO_ID = UUID(int=0)
NOT_ASKED = Failure(stage="judge", message="no critic was asked")
"""Stands for the verdict on a picture made elsewhere that nobody judged. No model failed."""


class ErrorCode(IntEnum):
    """Reasons why something did not end well. The values are those of `goalreel_interfaces/msg/ErrorCode`."""

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
    UNCONFIRMED = 19

    @classmethod
    def _missing_(cls, value: object) -> "ErrorCode":
        return cls.UNKNOWN  # a newer node knows more codes


type CodedText = tuple[ErrorCode, str]
"""The reason why something did not end well, as a code and one line; (NONE, "") when it did."""


@dataclass(frozen=True, slots=True)
class ModelNames:
    """The published names of the models; empty where there is none."""

    planner: str = ""
    editor: str = ""
    critic: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """One camera frame. `stamp` is the camera's (ns), `received` the task's clock on arrival (s)."""

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
class StepPanel:
    """A step while it is drawn and executed: its record so far, and how far it is.

    Its picture has the camera's size. A step in words alone becomes `text` without an attempt.
    """

    index: int
    record: StoryboardStep
    max_attempts: int
    status: StepStatus = "pending"
    image_status: ImageStatus = "none"
    """The status that holds for the robot, where it differs from the record's."""
    attempts: int = 0
    """Those that were begun; the record holds the chosen one and the last."""
    source_stamp: int = 0
    """Stamp of the camera frame that the picture was imagined from."""
    created: int = 0
    started: int = 0
    ended: int = 0
    ended_by: Literal["", "critic", "operator"] = ""
    """The one who took the step for done; empty until then."""
    written_by: Literal["planner", "person"] = "planner"
    """The author of the words: a person, where the instruction itself stands in for a plan."""
    what: Claim | None = None
    """The claim of its words, where the storyboard was made elsewhere."""
    looks: Claim | None = None
    """The claim of its goal image, where that was made elsewhere."""

    @property
    def step(self) -> Step:
        """Its words."""
        return self.record.step

    @property
    def attempt(self) -> Attempt | None:
        """The attempt that made `goal_image`, or the latest failed one."""
        if not self.record.attempts:
            return None
        return self.record.attempts[-1 if self.record.chosen is None else self.record.chosen]

    @property
    def goal_image(self) -> Image | None:
        """The picture to reach; None until it may be shown."""
        return self.record.goal_image if self.image_status in SHOWN else None

    @property
    def has_picture(self) -> bool:
        """True if it has a picture, or one is being made, imagined from the prediction before it."""
        return self.goal_image is not None or self.image_status in ("generating", "validating")

    @property
    def picture_is_final(self) -> bool:
        """True if no further attempt follows. Where it `failed`, the task ends when the step is due."""
        return self.image_status in (*SHOWN, "failed", "text")

    def shown(self, longest: int = sys.maxsize) -> StoryboardStep:
        """Give the record as far as it is shown, its picture with at most `longest` pixels a side."""
        if (image := self.goal_image) is not None:
            return _with_picture(self.record, image.within(longest))
        is_text = self.step.prompt is None and self.picture_is_final
        return StoryboardStep(step=self.step, status="text" if is_text else "skipped")

    def claims(self, models: ModelNames) -> Claims:
        """Give what the step claims, with the published names of the models."""
        makers: dict[Role, str] = {role: f"model {name}" for role in ROLES if (name := getattr(models, role))}
        if self.written_by == "person":
            makers["planner"] = PERSON
        claims = self.shown().claims.named(makers)
        changes = {name: claim for name in ("what", "looks") if (claim := getattr(self, name)) is not None}
        if self.ended_by:
            who = makers.get("critic", UNKNOWN) if self.ended_by == "critic" else OPERATOR
            changes["came_off"] = Claim(by=who, checked=who)
        return claims.model_copy(update=changes)

    def in_size(self, size: tuple[int, int]) -> Self:
        """Give the panel with its picture in `size` (width, height)."""
        image = self.record.goal_image
        if image is None or image.size == size:
            return self
        return replace(self, record=_with_picture(self.record, image.resized(size)))

    def finish(self, result: StoryboardStep, created: int, size: tuple[int, int]) -> Self:
        """Give the panel with the loop's result for its step, its picture in `size` (width, height)."""
        attempts = len(result.attempts)
        if (image := result.goal_image) is not None:
            # Without the name of a frame: nobody recorded what is to come.
            result = _with_picture(result, Image(image.resized(size).pixels))
        status = "failed" if result.status == "skipped" else result.status
        if status == "text" and self.written_by == "person":  # nobody planned it
            status = "unjudged"
        assert status != "observed"
        return replace(self, record=result, image_status=status, attempts=attempts, created=created)

    def without_picture(self) -> Self:
        """Give the panel as before its first attempt."""
        record = StoryboardStep(step=self.step)
        return replace(self, record=record, image_status="none", attempts=0, looks=None, created=0)


def _with_picture(step: StoryboardStep, image: Image) -> StoryboardStep:
    """Give the step with `image` in its chosen attempt. Its status and its claims are derived anew.

    Of the other attempts only the last is kept, at which a model may have failed: their pictures are large.
    """
    assert step.chosen is not None
    chosen = step.attempts[step.chosen].model_copy(update={"image": image})
    last = step.attempts[step.chosen + 1 :][-1:]
    return StoryboardStep(step=step.step, attempts=(chosen, *last), status=chosen.status, chosen=0)


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
    """The reason why the planner gave no plan when it was last asked. The task in words, or the plan before,
    stands in its place."""
    critic_failure: Failure | None = None
    """The critic's failure to say if a step or the task is done, at the last question."""
    earlier_failures: tuple[Failure, ...] = ()
    """Failures of editor and critic elsewhere, before the storyboard was sent here."""
    examination: Examination | None = None
    """The examination of the critic, if there is one."""
    camera_frame: str = ""
    """The optical frame of the live camera; empty before its first frame."""

    def is_verified(self, panel: StepPanel) -> bool:
        """Return whether one who may be believed accepted a step's picture, and neither claim is in doubt."""
        return not self._fault(panel)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The failures of models in this plan."""
        panels = (panel.record.failure for panel in self.steps)
        failures = (self.planner_failure, *panels, self.critic_failure, *self.earlier_failures)
        return tuple(failure for failure in failures if failure is not None and failure != NOT_ASKED)

    @property
    def degraded(self) -> str:
        """The failed models in one line; empty where none did. Such a plan is worth less than it looks."""
        return "; ".join(self.degraded_lines)

    @property
    def degraded_lines(self) -> tuple[str, ...]:
        """The failed models, a line each."""
        return failure_lines(self.failures)

    @property
    def unaccepted(self) -> str:
        """The number of steps whose picture no critic accepted, in one line; empty where there is none."""
        number = sum(p.image_status in ("unjudged", "rejected", "failed") for p in self.steps)
        return f"no critic accepted the goal of {number} of {len(self.steps)} steps" if number else ""

    @property
    def doubted(self) -> int:
        """The number of steps with a reason against what they claim."""
        claims = (panel.claims(self.models).items() for panel in self.steps)
        return sum(any(claim.doubts for _, claim in items) for items in claims)

    @property
    def missing(self) -> tuple[str, ...]:
        """Things that the task names and no step mentions."""
        return unmentioned(self.task, [panel.step for panel in self.steps]) if self.steps else ()

    def doubt(self, panel: StepPanel) -> str:
        """Say why a step's goal, which is final, is not verified; empty where it is."""
        if self.planner_failure is not None:
            return failure_lines([self.planner_failure])[0]
        missing = self.missing if panel.index == len(self.steps) - 1 else ()
        return not_mentioned(missing) if missing else self._fault(panel)

    def _fault(self, panel: StepPanel) -> str:
        claims = panel.claims(self.models)
        if claims.what.doubts:
            return f"its words are in doubt: {'; '.join(claims.what.doubts)}"
        if panel.image_status != "accepted":
            return "it is in words alone" if panel.goal_image is None else "no critic accepted its picture"
        if claims.looks and claims.looks.doubts:
            return f"its picture is in doubt: {'; '.join(claims.looks.doubts)}"
        if verifies(claims.looks, self.examination):
            return ""
        examined, why = self.examination, "nobody has examined it (examination)"
        if examined is not None:
            why = examined.open or f"{examined.shown} was examined, and no other"
        return f"the critic that accepted its picture has not passed: {why}"

    @property
    def active(self) -> StepPanel | None:
        """The step being executed."""
        return next((p for p in self.steps if p.status == "active"), None)

    @property
    def frame_id(self) -> str:
        """Optical frame of the robot's camera, else of the one that it was planned from, or empty."""
        return self.camera_frame or (self.source.frame_id if self.source is not None else "")

    def predicted_before(self, index: int) -> Image | None:
        """Give the predicted picture before step `index`: that of the last step before it that has one."""
        source = self.source.image if self.source is not None else None
        pictures = (p.goal_image for p in reversed(self.steps[:index]) if p.step.prompt is not None)
        return next(pictures, source)

    def with_panel(self, panel: StepPanel) -> Self:
        """Give the board with one panel replaced."""
        return replace(self, steps=(*self.steps[: panel.index], panel, *self.steps[panel.index + 1 :]))

    def leave_step(
        self,
        index: int,
        status: Literal["completed", "skipped", "active"],
        target: int,
        now: int,
        by: Literal["critic", "operator"] = "critic",
    ) -> tuple[StepPanel, ...]:
        """Give the panels after step `index` ended with `status`, at the time `now`; `by` takes it for done.

        With `active` the task jumps to `target`: steps between are skipped, those from `target` on pending.
        """
        if status != "active":
            ended_by = by if status == "completed" else ""
            panel = replace(self.steps[index], status=status, ended=now, ended_by=ended_by)
            return self.with_panel(panel).steps
        first = min(index, target)
        skipped = (replace(p, status="skipped", ended=now, ended_by="") for p in self.steps[first:target])
        pending = (replace(p, status="pending", ended=0, ended_by="") for p in self.steps[target:])
        return (*self.steps[:first], *skipped, *pending)


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal for the policy, which holds unless `reason` is "active". `panel` is its step, if any."""

    board: Board
    panel: StepPanel | None
    reason: GoalReason
    stamp: int

    @property
    def active(self) -> bool:
        """True if the policy pursues it."""
        return self.reason == "active"

    @property
    def image(self) -> Image | None:
        """The picture to pursue, if there is one."""
        return self.panel.goal_image if self.active and self.panel is not None else None


@dataclass(frozen=True, slots=True)
class BoardProgress:
    """Progress of a task. `step_elapsed` is in seconds.

    `closeness` is 1 at the goal, below 0 farther from it than at the start, and NaN where it is unknown.
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
        done = sum(p.status in ("completed", "skipped") for p in self.board.steps)
        if self.board.active is not None and not math.isnan(self.closeness):
            done += self.step_completion
        return done / max(1, len(self.board.steps))


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
