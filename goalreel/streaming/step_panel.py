"""One step of a storyboard under way. Frozen: a change is a new StepPanel.

Times are nanoseconds of the node's clock, 0 before the event. The values of the literals are those of
`goalreel_interfaces`, in lower case.
"""

import sys
from dataclasses import dataclass, replace
from typing import Literal, Self

from goalreel.claims import OPERATOR, PERSON, UNKNOWN, Claim, Claims
from goalreel.image import Image
from goalreel.types import ROLES, Attempt, Failure, Role, Step, StoryboardStep

type StepStatus = Literal["pending", "completed", "skipped", "failed", "active"]
type ImageStatus = Literal["none", "generating", "validating", "verified", "unverified", "failed", "text"]


@dataclass(frozen=True, slots=True)
class ModelNames:
    """The published names of planner, editor and critic; empty where there is none."""

    planner: str = ""
    editor: str = ""
    critic: str = ""


@dataclass(frozen=True, slots=True)
class StepPanel:
    """The state of one step. `attempt` made `goal_image`, or is the latest failed one.

    A step in words alone becomes `text` without an attempt: there is nothing to check.
    """

    index: int
    step: Step
    max_attempts: int
    """Of all editors together."""
    status: StepStatus = "pending"
    image_status: ImageStatus = "none"
    attempts: int = 0
    attempt: Attempt | None = None
    failure: Failure | None = None
    """What a model failed at last, where the step has no accepted picture."""
    source_stamp: int = 0
    """Stamp of the camera frame that the picture was imagined from."""
    created: int = 0
    started: int = 0
    ended: int = 0
    ended_by: Literal["", "critic", "operator"] = ""
    """Who took the step for done: the critic, or whoever called set_active_step; empty until then."""
    written_by: Literal["planner", "person"] = "planner"
    """Who wrote the words: a person, where the instruction itself stands in for a plan."""
    what: Claim | None = None
    """The claim of its words, where the storyboard was made elsewhere."""
    looks: Claim | None = None
    """The claim of its goal image, where that was made elsewhere."""

    @property
    def goal_image(self) -> Image | None:
        """The picture to reach; None until it may be shown."""
        if self.attempt is None or self.image_status not in ("verified", "unverified"):
            return None
        return self.attempt.image

    @property
    def has_picture(self) -> bool:
        """Whether it has a picture, or one is being made, imagined from the prediction before it."""
        return self.goal_image is not None or self.image_status in ("generating", "validating")

    @property
    def picture_is_final(self) -> bool:
        """Whether no further attempt follows. Where it `failed`, the task ends when the step is due."""
        return self.image_status in ("verified", "unverified", "failed", "text")

    def as_step(self, longest: int) -> StoryboardStep:
        """Give the step with its picture, if one is shown, whose longer side is at most `longest` pixels."""
        status, attempt = self.image_status, self.attempt
        if self.step.prompt is None and self.picture_is_final:
            return StoryboardStep(step=self.step, status="text")
        if attempt is None or attempt.image is None or status not in ("verified", "unverified"):
            return StoryboardStep(step=self.step)
        attempt = attempt.model_copy(update={"image": attempt.image.within(longest)})
        return StoryboardStep(step=self.step, attempts=(attempt,), status=status, chosen=0)

    def claims(self, models: ModelNames) -> Claims:
        """Give what the step claims, with the published names of the models."""
        makers: dict[Role, str] = {role: f"model {name}" for role in ROLES if (name := getattr(models, role))}
        if self.written_by == "person":
            makers["planner"] = PERSON
        claims = self.as_step(longest=sys.maxsize).claims.named(makers)
        elsewhere = {name: claim for name in ("what", "looks") if (claim := getattr(self, name)) is not None}
        claims = claims.model_copy(update=elsewhere)
        if not self.ended_by:
            return claims
        who = makers.get("critic", UNKNOWN) if self.ended_by == "critic" else OPERATOR
        return claims.model_copy(update={"came_off": Claim(by=who, checked=who)})

    def in_size(self, size: tuple[int, int]) -> Self:
        """Give the panel with its picture in `size` (width, height)."""
        if self.attempt is None or self.attempt.image is None or self.attempt.image.size == size:
            return self
        attempt = self.attempt.model_copy(update={"image": self.attempt.image.resized(size)})
        return replace(self, attempt=attempt)

    def finish(self, result: StoryboardStep, created: int, size: tuple[int, int]) -> Self:
        """Give the panel with the loop's result for its step, its picture in `size` (width, height)."""
        attempts = result.attempts
        attempt = attempts[result.chosen if result.chosen is not None else -1] if attempts else None
        if attempt is not None and attempt.image is not None:
            # Without the name of a frame: nobody recorded what is to come.
            image = Image(attempt.image.resized(size).pixels)
            attempt = attempt.model_copy(update={"image": image})
        match result.status:
            case "skipped":
                status = "failed"
            case "observed":  # nobody compared it with the words
                status = "unverified"
            case "text" if self.written_by == "person":  # nobody planned it
                status = "unverified"
            case "verified" | "unverified" | "failed" | "text" as status:
                pass
        return replace(
            self,
            image_status=status,
            attempts=len(attempts),
            attempt=attempt,
            failure=result.failure,
            created=created,
        )
