"""The terms of goalreel as frozen types. They know nothing of models, files or clocks.

Every type goes to JSON and back without loss: `T.model_validate_json(x.model_dump_json()) == x`.
Images travel inline as PNG unless the caller passes `put_image` / `get_image` in pydantic's context.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from goalreel.claims import Claims, claims_of
from goalreel.details import Details
from goalreel.image import Image
from goalreel.terms import ROLE_OF_STAGE as ROLE_OF_STAGE
from goalreel.terms import ROLES as ROLES
from goalreel.terms import STAGE_OF_ROLE as STAGE_OF_ROLE
from goalreel.terms import Frozen as Frozen
from goalreel.terms import Role as Role
from goalreel.terms import Stage as Stage

Score = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]


class Failure(Frozen):
    """A call that gave no usable answer. Never an acceptance, never a rejection."""

    stage: Stage
    message: Text
    reply: str | None = None
    """The model's raw reply, when it gave one."""
    refused: bool = False
    """The model is well, but will not take this very request."""

    @property
    def line(self) -> str:
        """The first line of the message; never empty."""
        return self.message.strip().splitlines()[0]


def failure_lines(failures: Iterable[Failure]) -> tuple[str, ...]:
    """Say which models failed, each with its first reason, in one line a model."""
    reasons: dict[Role, str] = {}
    for failure in failures:
        reasons.setdefault(ROLE_OF_STAGE[failure.stage], failure.line)
    return tuple(f"the {role} failed: {reason}" for role, reason in reasons.items())


class DoneStep(Frozen):
    """A step that is done: what is true since then, and how that looks."""

    instruction: Text
    image: Image | None = None


class Task(Frozen):
    """What the person asked for, and what the camera saw at that moment."""

    id: Text
    instruction: Text
    image: Image | None = None
    """What the first step is edited from: the scene as it is now. None draws it from text."""
    images: tuple[Image, ...] = ()
    """The pictures at the instruction's `<image>` marks, in order; empty where it has no mark."""
    done: tuple[DoneStep, ...] = ()
    """The steps that are done already: the plan goes on after them."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0


class Segment(Frozen):
    """A step's span of frames in a recorded episode: `start` inclusive, `end` exclusive."""

    start: Annotated[int, Field(ge=0)]
    end: int

    @model_validator(mode="after")
    def _not_empty(self) -> "Segment":
        if self.end <= self.start:
            raise ValueError(f"a segment holds at least one frame, got [{self.start}, {self.end})")
        return self


class Step(Frozen):
    """One sub-goal of a plan (InterleaveThinker's `execution_plan` entry)."""

    name: Text
    instruction: Text
    """What must become true, as a state the camera can see."""
    prompt: Text | None
    """The imperative edit given to the image editor; None for a step in words alone, without a picture."""
    auxiliary_text: str | None = None
    """The words for a reader; a step without a picture has them."""
    outcome: Literal["done", "failed"] = "done"
    """`failed` where a recording shows an attempt without success, which is no example of the step."""
    doubts: tuple[Text, ...] = ()
    """Why the words may be untrue, in one line each. Such words are shown, and are no training data."""
    details: Details | None = Field(default=None, exclude_if=lambda details: details is None)
    """What was asked for beside the words; records without any do not mention them."""

    @model_validator(mode="after")
    def _says_something(self) -> "Step":
        if self.prompt is None and not (self.auxiliary_text or "").strip():
            raise ValueError("a step without a prompt needs an auxiliary text")
        return self


class MotionPhase(Frozen):
    """What the arm does in a span of frames, below the steps: reach, grasp, lift ..."""

    name: Text
    segment: Segment


class Plan(Frozen):
    """The Planner's full list of steps, made once, blind to generated images."""

    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    segments: tuple[Segment, ...] | None = None
    """One a step, where the plan was read off a recorded episode; else None."""
    phases: tuple[MotionPhase, ...] = ()
    """In order, without overlap; empty where they were not requested."""

    @model_validator(mode="after")
    def _aligned(self) -> "Plan":
        if _overlap([phase.segment for phase in self.phases]):
            raise ValueError("phases overlap or are out of order")
        if self.segments is None:
            return self
        if len(self.segments) != len(self.steps):
            raise ValueError(f"{len(self.steps)} steps but {len(self.segments)} segments")
        if _overlap(self.segments):
            raise ValueError("segments overlap or are out of order")
        return self


def _overlap(segments: Sequence[Segment]) -> bool:
    return any(a.end > b.start for a, b in itertools.pairwise(segments))


class Edit(Frozen):
    """One call of the image editor. `image` is None for text-to-image."""

    task_id: Text
    step: Annotated[int, Field(ge=0)]
    attempt: Annotated[int, Field(ge=0)]
    image: Image | None
    prompt: Text
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    segment: Segment | None = None
    references: Annotated[tuple[Image, ...], Field(exclude_if=lambda images: not images)] = ()
    """More pictures for the editor to look at, the oldest first; a request without any does not say so."""
    editor: Annotated[int, Field(ge=0, exclude_if=lambda number: number == 0)] = 0
    """Which of several editors is asked, from 0; a request to the first does not say so."""


class Candidate(Frozen):
    """What the Critic judges: the source, the picture, the state to reach and the prompt of the picture."""

    task_id: Text
    step: Annotated[int, Field(ge=0)]
    source: Image | None
    image: Image
    instruction: Text
    prompt: Text
    """The paper's r_i^t."""
    first_prompt: Text | None = None
    """The plan's own prompt for the step (the paper's p_i); None where it is `prompt`."""


_PICTURE_CHECK = re.compile(
    r"[\d.,]+% of the picture changed, at [\d.]+ of the source's sharpness\.$|The picture is well exposed; "
)


class Verdict(Frozen):
    """The Critic's answer. `semantics` and `quality` are 0-10."""

    success: bool
    reasoning: str = ""
    refined_prompt: Text | None = None
    probability: Probability | None = None
    """How sure the Critic is that the step succeeded, 0-1; None where it does not tell."""
    semantics: Score | None = None
    quality: Score | None = None
    pictures_only: bool = False
    """Rules checked the picture; nobody compared it with the words."""

    @model_validator(mode="after")
    def _of_an_old_record(self) -> "Verdict":
        """Verdicts of picture checks did not always say so; their reasoning did."""
        if "pictures_only" not in self.model_fields_set and _PICTURE_CHECK.match(self.reasoning):
            object.__setattr__(self, "pictures_only", True)
        return self

    @property
    def score(self) -> float | None:
        """Geometric mean of the scores, 0-10; None without any."""
        scores = [s for s in (self.semantics, self.quality) if s is not None]
        return math.prod(scores) ** (1 / len(scores)) if scores else None


class Registration(Frozen):
    """Where an edit's background lies over its source's, and what was done about it."""

    shift: tuple[Finite, Finite] | None = None
    """(right, down) at the picture's centre, in pixels of the source; None where it cannot be measured."""
    scale: Finite = 0.0
    """By how many per cent the background grew."""
    rotation: Finite = 0.0
    """Degrees, clockwise."""
    reason: Text | None = None
    """Why it cannot be measured."""
    outcome: Literal["kept", "corrected", "rejected"] = "kept"

    @model_validator(mode="after")
    def _measured_or_not(self) -> "Registration":
        if (self.shift is None) == (self.reason is None):
            raise ValueError("a registration has either a shift or the reason why there is none")
        return self

    @property
    def line(self) -> str:
        """What was measured and done, in one line."""
        if self.shift is None:
            return f"Background not measurable: {self.reason}."
        right, down = self.shift
        turned = f", turned by {self.rotation:+.1f} degrees" if abs(self.rotation) >= 0.1 else ""
        moved = f"moved by {right:+.1f}, {down:+.1f} px, scaled by {self.scale:+.1f} %{turned}"
        return f"Background {moved}: {self.outcome}."


class Attempt(Frozen):
    """One edit with its verdict, or with the failure that stood in for either."""

    prompt: Text
    seed: int
    image: Image | None = None
    verdict: Verdict | None = None
    failure: Failure | None = None
    by: Annotated[Text | None, Field(exclude_if=lambda by: by is None)] = None
    """Which of several editors was asked, as `Claim.by` names it; None where there was one."""
    registration: Annotated[Registration | None, Field(exclude_if=lambda measured: measured is None)] = None
    """How the background lay over the source's; None where nobody measured. A correction is in `image`."""

    @model_validator(mode="after")
    def _one_outcome(self) -> "Attempt":
        if (self.verdict is None) == (self.failure is None):
            raise ValueError("an attempt has either a verdict or a failure")
        if self.verdict is not None and self.image is None:
            raise ValueError("a verdict needs the image it judged")
        return self

    @property
    def accepted(self) -> bool:
        """The Critic accepted the picture."""
        return self.verdict is not None and self.verdict.success

    @property
    def rejected(self) -> bool:
        """The Critic rejected the picture, or the editor refused to draw it."""
        if self.failure is not None:
            return self.failure.stage == "edit" and self.failure.refused
        return not self.accepted

    @property
    def status(self) -> "Status":
        """What a step is worth that this attempt was chosen for."""
        if self.image is None:
            return "failed"
        if self.verdict is None or not self.verdict.success:
            return "unverified"
        if not self.verdict.pictures_only:
            return "verified"
        return "observed" if self.image.recorded else "unverified"


class Alignment(Frozen):
    """How well a step of a predicted storyboard matches a recording, or why it does not."""

    cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """How far the recording is from the step's goal image where the step ends: 0 is alike, 1 is as far as the
    picture that the goal was made from; None where they were not compared."""
    reason: Text | None = None
    """Why the step has no segment; None where it has one."""


type Status = Literal["observed", "verified", "unverified", "failed", "skipped", "text"]
ACCEPTED: tuple[Status, ...] = ("observed", "verified")
"""The statuses of a step with a goal image that may be used."""


class StoryboardStep(Frozen):
    """A step with every attempt at it.

    - `observed`: attempt `chosen` is a real frame of the recording, and passed the picture checks. Nobody
      compared it with the words.
    - `verified`: a model or a person compared the picture of attempt `chosen` with the words, and accepted.
    - `unverified`: nobody accepted a picture, or only picture checks did of a picture that was made; `chosen`
      is the best or the last.
    - `failed`: no attempt gave a picture.
    - `skipped`: nothing was attempted.
    - `text`: a step in words alone, without a picture.
    """

    step: Step
    segment: Segment | None = None
    attempts: tuple[Attempt, ...] = ()
    status: Status = "skipped"
    chosen: Annotated[int, Field(ge=0)] | None = None
    alignment: Alignment | None = None
    """Set where the step was searched for in a recording; None where there was no recording, or the segment
    was planned."""
    claims: Claims = Claims()
    """Who made what the step claims, and who checked it; by default derived from its other fields."""

    @property
    def unaligned(self) -> bool:
        """The step was searched for in a recording without a match: it is no training data."""
        return self.alignment is not None and self.alignment.reason is not None

    @model_validator(mode="after")
    def _consistent(self) -> "StoryboardStep":
        pictured = self.status in (*ACCEPTED, "unverified")
        untried = self.status in ("skipped", "text")
        if pictured != (self.chosen is not None) or untried != (not self.attempts):
            raise ValueError(f"status {self.status} does not fit the attempts")
        if self.status != "skipped" and (self.status == "text") != (self.step.prompt is None):
            raise ValueError(f"status {self.status} does not fit the step's prompt")
        if self.unaligned and self.segment is not None:
            raise ValueError("an unaligned step has no segment")
        if self.chosen is not None:
            if self.chosen >= len(self.attempts) or self.attempts[self.chosen].image is None:
                raise ValueError("the chosen attempt has no image")
            chosen = self.attempts[self.chosen]
            if self.status == "verified" and chosen.verdict is not None and chosen.verdict.pictures_only:
                object.__setattr__(self, "status", chosen.status)  # of an old record
            # A picture that was stored in full does not name its frame any more; its status does.
            passed = chosen.verdict is not None and chosen.verdict.success and chosen.verdict.pictures_only
            if self.status != chosen.status and not (self.status == "observed" and passed):
                raise ValueError(f"status {self.status} does not fit the chosen attempt's verdict")
        if "claims" not in self.model_fields_set:
            object.__setattr__(self, "claims", claims_of(self))
        return self

    def aligned(self, alignment: Alignment, segment: Segment | None = None) -> "StoryboardStep":
        """The step with the place in a recording where it was found, or the reason why it was not."""
        fields: dict[str, Any] = {**dict(self), "alignment": alignment, "segment": segment}
        del fields["claims"]
        return StoryboardStep(**fields)

    @property
    def accepted(self) -> bool:
        """The goal image was accepted, by picture checks, a model or a person."""
        return self.status in ACCEPTED

    @property
    def usable(self) -> bool:
        """The step has an accepted goal image, or is in words alone."""
        return self.accepted or self.status == "text"

    @property
    def failure(self) -> Failure | None:
        """What a model failed at last, where the step has no accepted picture; None where none failed."""
        return None if self.accepted or not self.attempts else self.attempts[-1].failure

    @property
    def goal_image(self) -> Image | None:
        """The chosen attempt's picture, accepted or not, in the size that the editor works in."""
        return None if self.chosen is None else self.attempts[self.chosen].image


class Storyboard(Frozen):
    """The complete record of one trajectory: task, plan and every attempt of every step."""

    task: Task
    steps: tuple[StoryboardStep, ...] = ()
    failure: Failure | None = None
    """Set when there is no plan."""
    phases: tuple[MotionPhase, ...] = ()
    """Those of the plan."""

    @model_validator(mode="after")
    def _planned(self) -> "Storyboard":
        if bool(self.steps) == (self.failure is not None):
            raise ValueError("a storyboard has either steps or a failure")
        return self

    def goal_images(self) -> tuple[Image | None, ...]:
        """Each step's goal image in the size of the task's picture.

        Where the task has no picture, the images keep their own size. None is a step without an image.
        """
        size = None if self.task.image is None else self.task.image.size
        goals = (step.goal_image for step in self.steps)
        return tuple(goal if goal is None or size is None else goal.resized(size) for goal in goals)

    @property
    def degraded(self) -> str:
        """Which models failed, in one line; empty where none did."""
        if self.failure is not None:
            return f"no plan: {self.failure.line}"
        return "; ".join(failure_lines(step.failure for step in self.steps if step.failure is not None))

    @property
    def complete(self) -> bool:
        """Every step with a picture has an accepted one."""
        return bool(self.steps) and all(step.usable for step in self.steps)


type Request = Task | Edit | Candidate
type Answer = Plan | Image | Verdict | Failure
ANSWER_TYPES: Mapping[Stage, type[Plan] | type[Image] | type[Verdict]] = {
    "plan": Plan,
    "edit": Image,
    "judge": Verdict,
}
"""What each stage answers, if not a Failure."""


def stage_of(request: Request) -> Stage:
    """Return the stage whose model answers the request."""
    match request:
        case Task():
            return "plan"
        case Edit():
            return "edit"
        case Candidate():
            return "judge"


def task_id_of(request: Request) -> str:
    """Return the id of the task that the request belongs to."""
    return request.id if isinstance(request, Task) else request.task_id


type Ask = Callable[[Stage, Sequence[Request]], Sequence[Answer]]
"""How models are asked inside goalreel: requests of one stage in, answer i to request i out. See
`goalreel.middleware`."""


class Planner(Protocol):
    """Decomposes tasks, batch first: answer i belongs to task i."""

    def plan(self, tasks: Sequence[Task]) -> Sequence[Plan | Failure]: ...


class Editor(Protocol):
    """Renders goal images, batch first: answer i belongs to edit i, in the size that the model works in."""

    def edit(self, edits: Sequence[Edit]) -> Sequence[Image | Failure]: ...


class Critic(Protocol):
    """Judges candidates, batch first: answer i belongs to candidate i."""

    def judge(self, candidates: Sequence[Candidate]) -> Sequence[Verdict | Failure]: ...


class Recording(Protocol):
    """A recorded episode, as the hindsight back ends see it. Frames are counted from 0."""

    @property
    def id(self) -> str: ...
    @property
    def instruction(self) -> str: ...
    @property
    def fps(self) -> float: ...
    @property
    def timestamps(self) -> NDArray[np.float32]:
        """Seconds since the episode's start, (n,), as recorded."""
        ...

    @property
    def state(self) -> NDArray[np.float32]:
        """`observation.state`, (n, dims); dims may be 0."""
        ...

    @property
    def action(self) -> NDArray[np.float32]:
        """`action`, (n, dims); dims may be 0."""
        ...

    @property
    def state_names(self) -> tuple[str, ...]:
        """One name a state dimension, or empty."""
        ...

    @property
    def action_names(self) -> tuple[str, ...]: ...

    def frames(self, camera: str, indices: Sequence[int]) -> list[Image]:
        """Decode frames of one camera; each `Image.frame` is `CAMERA#INDEX`."""
        ...


type Recordings = Mapping[str, Recording] | Callable[[str], Recording]
"""Recordings by their id; an unknown id raises KeyError."""
