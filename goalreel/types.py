"""The terms of goalreel as frozen types. They depend on no model, file or clock.

They stand in one file, although it is long: one explains the next, in the order in which a task meets them.

Every type goes to JSON and back without loss: `T.model_validate_json(x.model_dump_json()) == x`.
Images travel inline as PNG unless the caller passes `put_image` / `get_image` in pydantic's context.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from goalreel.claims import NOBODY, PERSON, UNKNOWN, Claims, Details, claims_of
from goalreel.image import Image
from goalreel.settings import Frozen
from goalreel.terms import ROLE_OF_STAGE, ROLES as ROLES, STAGE_OF_ROLE as STAGE_OF_ROLE, Role, Stage

Score = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]


OMITTED = Field(exclude_if=lambda value: not value)
"""Marks a field that is left out of JSON where it is empty."""


class Failure(Frozen):
    """A call that gave no usable answer. It is neither an acceptance nor a rejection."""

    stage: Stage
    message: Text
    reply: str | None = None
    """The model's raw reply, if it gave one."""
    refused: bool = False
    """The model works, but refuses this request."""

    @property
    def line(self) -> str:
        """The first line of the message; never empty."""
        return self.message.strip().splitlines()[0]


def failure_lines(failures: Iterable[Failure]) -> tuple[str, ...]:
    """Name the models that failed, one line for each, with its first reason."""
    reasons: dict[Role, str] = {}
    for failure in failures:
        reasons.setdefault(ROLE_OF_STAGE[failure.stage], failure.line)
    return tuple(f"the {role} failed: {reason}" for role, reason in reasons.items())


class DoneStep(Frozen):
    """A step that is done: what is true now, and how it looks."""

    instruction: Text
    image: Image | None = None


class Task(Frozen):
    """An instruction, and the scene at that moment."""

    id: Text
    instruction: Text
    image: Image | None = None
    """The scene as it is now, from which the first goal image is drawn; None draws that one from text."""
    images: tuple[Image, ...] = ()
    """The pictures at the `<image>` marks of the instruction, in order; empty without a mark."""
    done: tuple[DoneStep, ...] = ()
    """The steps that are done already: the plan goes on after them."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of the pictures."""


class Segment(Frozen):
    """The frames of a step in a recorded episode, counted from 0: `start` inclusive, `end` exclusive."""

    start: Annotated[int, Field(ge=0)]
    end: int
    goal: Annotated[tuple[int, int] | None, OMITTED] = None
    """Frames [first, end) in which what the step claims is true, for the goal image; None: the last ones."""

    @model_validator(mode="after")
    def _not_empty(self) -> "Segment":
        for start, end in ((self.start, self.end), *([self.goal] if self.goal else [])):
            if end <= start:
                raise ValueError(f"a segment holds at least one frame, got [{start}, {end})")
        return self


class Step(Frozen):
    """One sub-goal of a plan (InterleaveThinker's `execution_plan` entry)."""

    name: Text
    """A short name, such as "put the red block in the bowl"."""
    instruction: Text
    """State that must become true, as a state that the camera can see."""
    prompt: Text | None
    """The imperative edit for the image editor; None for a step in words alone, without a picture."""
    auxiliary_text: str | None = None
    """Words for a reader; required for a step without a picture."""
    outcome: Literal["done", "failed"] = "done"
    """`failed`: the recording shows an attempt without success, which is no example of the step."""
    doubts: tuple[Text, ...] = ()
    """Reasons to doubt the words, one line each. Such words are shown, but are no training data."""
    details: Annotated[Details | None, OMITTED] = None
    """Further information that was asked for (`Options.details`)."""
    by: Annotated[Text | None, OMITTED] = None
    """Maker of its words and its place, as `Claim.by` has it; None: the planner."""

    @model_validator(mode="after")
    def _says_something(self) -> "Step":
        if self.prompt is None and not (self.auxiliary_text or "").strip():
            raise ValueError("a step without a prompt needs an auxiliary text")
        return self


class MotionPhase(Frozen):
    """Motion of the arm in some frames of a step: reach, grasp, lift ..."""

    name: Text
    segment: Segment


class Plan(Frozen):
    """The Planner's complete list of steps, made once and without sight of any generated picture."""

    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    segments: tuple[Segment, ...] | None = None
    """One for each step, if the plan was read off a recorded episode; else None."""
    phases: tuple[MotionPhase, ...] = ()
    """In order and without overlap; empty unless they were requested."""
    reasoning: Annotated[str, OMITTED] = ""
    """Thoughts of the model that made it."""
    missing: Annotated[tuple[Text, ...], OMITTED] = ()
    """Things that the instruction names and no step mentions."""

    @model_validator(mode="after")
    def _aligned(self) -> "Plan":
        if self.segments is not None and len(self.segments) != len(self.steps):
            raise ValueError(f"{len(self.steps)} steps but {len(self.segments)} segments")
        parts = {"phases": [phase.segment for phase in self.phases], "segments": self.segments or ()}
        for name, segments in parts.items():
            if any(a.end > b.start for a, b in itertools.pairwise(segments)):
                raise ValueError(f"{name} overlap or are out of order")
        return self


class Edit(Frozen):
    """A request to the image editor."""

    task_id: Text
    step: Annotated[int, Field(ge=0)]
    attempt: Annotated[int, Field(ge=0)]
    """Which attempt at the step, from 0."""
    image: Image | None
    """The picture to edit; None draws from text."""
    prompt: Text
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    segment: Segment | None = None
    """The step's frames, for an editor that takes pictures from a recording."""
    references: Annotated[tuple[Image, ...], OMITTED] = ()
    """Further pictures for the editor to look at, the oldest first."""


class Candidate(Frozen):
    """A request to the Critic: a picture, and what it should show."""

    task_id: Text
    step: Annotated[int, Field(ge=0)]
    source: Image | None
    """The picture that was edited; None if the image was drawn from text."""
    image: Image
    """The picture to judge."""
    instruction: Text
    """State that must be true in it."""
    prompt: str
    """The prompt that it was drawn by (the paper's r_i^t); empty if it is `first_prompt`."""
    first_prompt: Text | None = None
    """The plan's own prompt for the step (the paper's p_i); None if it is `prompt`."""

    @property
    def drawn_by(self) -> str:
        """`prompt`, or in its place `first_prompt`."""
        return self.prompt or self.first_prompt or ""


class Verdict(Frozen):
    """The Critic's answer to one picture."""

    success: bool
    """True if the picture is accepted."""
    reasoning: str = ""
    refined_prompt: Text | None = None
    """The prompt for the next attempt; None keeps the prompt."""
    probability: Probability | None = None
    """The Critic's probability of success, 0-1; None if it gives none."""
    semantics: Score | None = None
    """Score for showing what it should, 0-10; None if not scored."""
    quality: Score | None = None
    """Score for looking good, 0-10; None if not scored."""
    pictures_only: bool = False
    """Rules checked the picture alone; nobody compared it with the words."""
    unseen: Annotated[bool, OMITTED] = False
    """The server showed that the Critic was not given the pictures."""

    @property
    def score(self) -> float | None:
        """The geometric mean of the scores, 0-10; None if there are none."""
        scores = [s for s in (self.semantics, self.quality) if s is not None]
        return math.prod(scores) ** (1 / len(scores)) if scores else None


class Registration(Frozen):
    """Motion of an edit's background against its source, and the reaction to it."""

    shift: tuple[Finite, Finite] | None = None
    """(right, down) at the picture's centre, in pixels of the source; None if it cannot be measured."""
    scale: Finite = 0.0
    """Growth of the background, in per cent."""
    rotation: Finite = 0.0
    """Degrees, clockwise."""
    reason: Text | None = None
    """Reason why it cannot be measured."""
    outcome: Literal["kept", "corrected", "rejected"] = "kept"

    @model_validator(mode="after")
    def _measured_or_not(self) -> "Registration":
        if (self.shift is None) == (self.reason is None):
            raise ValueError("a registration has either a shift or the reason why there is none")
        return self

    @property
    def line(self) -> str:
        """Measurement and reaction in one line."""
        if self.shift is None:
            return f"Background not measurable: {self.reason}."
        right, down = self.shift
        turned = f", turned by {self.rotation:+.1f} degrees" if abs(self.rotation) >= 0.1 else ""
        return (
            f"Background moved by {right:+.1f}, {down:+.1f} px, scaled by {self.scale:+.1f} %{turned}: "
            f"{self.outcome}."
        )


class Attempt(Frozen):
    """One picture for a step, with its verdict, or with the failure that came instead of either."""

    prompt: Text
    seed: int
    image: Image | None = None
    verdict: Verdict | None = None
    failure: Failure | None = None
    registration: Annotated[Registration | None, OMITTED] = None
    """Motion of the background; None if nobody measured. A correction is in `image`."""

    @model_validator(mode="after")
    def _one_outcome(self) -> "Attempt":
        if (self.verdict is None) == (self.failure is None):
            raise ValueError("an attempt has either a verdict or a failure")
        if self.verdict is not None and self.image is None:
            raise ValueError("a verdict needs the image it judged")
        return self

    @property
    def accepted(self) -> bool:
        """True if the Critic accepted the picture."""
        return self.verdict is not None and self.verdict.success

    @property
    def outcome(self) -> Literal["accepted", "unjudged", "rejected", "failed"]:
        """The result; unjudged: only picture checks accepted it."""
        if self.verdict is None:
            return "failed"
        if not self.verdict.success:
            return "rejected"
        return "unjudged" if self.verdict.pictures_only else "accepted"

    @property
    def status(self) -> "Status":
        """The status of a step for which this attempt is chosen."""
        if self.image is None:
            return "failed"
        if self.verdict is None:
            return "unjudged"
        if not self.verdict.success:
            return "rejected"
        if not self.verdict.pictures_only:
            return "accepted"
        return "observed" if self.image.recorded else "unjudged"


class Alignment(Frozen):
    """Match of a predicted step with a recording, or the reason why there is none."""

    cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Distance of the frame at the step's end from the goal image: 0 is equal, 1 is as far as the picture
    that the goal was made from; None if they were not compared."""
    reason: Text | None = None
    """Reason why the step has no segment."""


type Status = Literal["observed", "accepted", "unjudged", "rejected", "failed", "skipped", "text"]
STATUSES: tuple[Status, ...] = get_args(Status.__value__)
"""The best first; `text` stands apart."""
type Word = Status | Literal["verified", "in doubt"]
WORDS: tuple[Word, ...] = (
    *("failed", "rejected", "unjudged", "skipped", "in doubt"),
    *("observed", "accepted", "verified", "text"),
)
"""Words for the worth of a step (`goalreel.critics.examination.word`), the worst first; `text` stands
apart."""
ACCEPTED: tuple[Status, ...] = ("observed", "accepted")
"""The statuses of a step whose goal image may be used."""


class StoryboardStep(Frozen):
    """A step with every attempt at it. `status` is one of:

    - `observed`: attempt `chosen` is a real frame of the recording, and passed the picture checks. Nobody
      compared it with the words.
    - `accepted`: a model or a person compared the picture of attempt `chosen` with the words, and accepted.
    - `unjudged`: nobody compared the picture of attempt `chosen` with the words: the Critic gave no answer,
      or only picture checks accepted a picture that was drawn.
    - `rejected`: the picture of attempt `chosen`, the best or the last, was refused.
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
    """The result of searching a recording for the step; None if nobody searched."""
    claims: Claims = Claims()
    """Makers and checkers of the step's claims; by default derived from the other fields."""

    @property
    def unaligned(self) -> bool:
        """True if a recording was searched for the step in vain: then it is no training data."""
        return self.alignment is not None and self.alignment.reason is not None

    @model_validator(mode="after")
    def _consistent(self) -> "StoryboardStep":
        pictured = self.status in (*ACCEPTED, "unjudged", "rejected")
        untried = self.status in ("skipped", "text")
        in_words = self.status != "skipped" and (self.status == "text") != (self.step.prompt is None)
        if pictured != (self.chosen is not None) or untried != (not self.attempts) or in_words:
            raise ValueError(f"status {self.status} does not fit the attempts or the step's prompt")
        if self.unaligned and self.segment is not None:
            raise ValueError("an unaligned step has no segment")
        if self.chosen is not None:
            if self.chosen >= len(self.attempts) or self.attempts[self.chosen].image is None:
                raise ValueError("the chosen attempt has no image")
            chosen = self.attempts[self.chosen]
            # A picture that was stored in full does not name its frame any more; its status does.
            passed = chosen.verdict is not None and chosen.verdict.success and chosen.verdict.pictures_only
            if self.status != chosen.status and not (self.status == "observed" and passed):
                raise ValueError(f"status {self.status} does not fit the chosen attempt's verdict")
        if "claims" not in self.model_fields_set:
            object.__setattr__(self, "claims", claims_of(self))
        return self

    def aligned(self, alignment: Alignment, segment: Segment | None = None) -> "StoryboardStep":
        """Add the place in a recording where the step was found, or the reason why it was not."""
        fields: dict[str, Any] = {**dict(self), "alignment": alignment, "segment": segment}
        del fields["claims"]
        return StoryboardStep(**fields)

    @property
    def accepted(self) -> bool:
        """True if the goal image was accepted, by picture checks, a model or a person."""
        return self.status in ACCEPTED

    @property
    def usable(self) -> bool:
        """True if the step has an accepted goal image, or is in words alone."""
        return self.accepted or self.status == "text"

    @property
    def in_doubt(self) -> bool:
        """True if its goal may be used, but there is a reason against its words."""
        return self.usable and bool(self.step.doubts)

    @property
    def failure(self) -> Failure | None:
        """The last failure of a step without an accepted picture; None if no model failed."""
        return None if self.accepted or not self.attempts else self.attempts[-1].failure

    @property
    def goal_image(self) -> Image | None:
        """The picture of the chosen attempt, accepted or not, in the size that the editor works in."""
        return None if self.chosen is None else self.attempts[self.chosen].image


def not_mentioned(things: Iterable[str]) -> str:
    """Say that no step mentions some things of the instruction."""
    return f"no step mentions the {' or the '.join(things)}"


class EndCheck(Frozen):
    """The Critic's answer to the question whether the whole instruction has come true at the end."""

    answer: Verdict | Failure
    by: Text = UNKNOWN
    """The Critic, as `Claim.checked` names it."""


class Storyboard(Frozen):
    """The complete record of one task: its steps with every attempt, or the failure of the plan."""

    task: Task
    steps: tuple[StoryboardStep, ...] = ()
    failure: Failure | None = None
    """Reason why there is no plan; None if there is one."""
    phases: tuple[MotionPhase, ...] = ()
    """The motion phases of the plan."""
    reasoning: Annotated[str, OMITTED] = ""
    """The Planner's thoughts about the plan."""
    missing: Annotated[tuple[Text, ...], OMITTED] = ()
    """Things that the instruction names and no step mentions: the end is in doubt."""
    end: Annotated[EndCheck | None, OMITTED] = None
    """The end against the whole instruction; None if the Critic was not asked."""
    kept: Annotated[int, OMITTED] = 0
    """Number of this one among those that were drawn, from 1; 0 if one was asked for."""
    drawn: Annotated[int, OMITTED] = 0
    """Storyboards that were drawn of the task, where more than one was asked for."""

    @model_validator(mode="after")
    def _planned(self) -> "Storyboard":
        if bool(self.steps) == (self.failure is not None):
            raise ValueError("a storyboard has either steps or a failure")
        return self

    def goal_images(self) -> tuple[Image | None, ...]:
        """Give the goal image of each step (None without one), in the size of the task's picture if any."""
        size = None if self.task.image is None else self.task.image.size
        goals = (step.goal_image for step in self.steps)
        return tuple(goal if goal is None or size is None else goal.resized(size) for goal in goals)

    @property
    def degraded(self) -> str:
        """Which models failed, in one line; empty if none did."""
        if self.failure is not None:
            return f"no plan: {self.failure.line}"
        failures = [step.failure for step in self.steps if step.failure is not None]
        if self.end is not None and isinstance(self.end.answer, Failure):
            failures.append(self.end.answer)
        return "; ".join(failure_lines(failures))

    @property
    def complete(self) -> bool:
        """True if every step has an accepted goal image or is in words alone, and the end is not in doubt."""
        return bool(self.steps) and all(step.usable for step in self.steps) and not self.end_doubt

    @property
    def end_checked(self) -> str:
        """Checker of the end, as in `Claim.checked`: a person who accepted every step, or the Critic."""
        checkers = {claim.checked for step in self.steps for _, claim in step.claims.items()}
        if checkers == {PERSON}:
            return PERSON
        return self.end.by if self.end is not None and isinstance(self.end.answer, Verdict) else NOBODY

    @property
    def end_doubt(self) -> str:
        """The reason why the end may not be what was asked for, in one line; or empty."""
        if self.end_checked == PERSON:
            return ""
        answer = None if self.end is None else self.end.answer
        if isinstance(answer, Failure):
            return f"the end was not judged: {answer.line}"
        if answer is not None and not answer.success:
            reason = answer.reasoning.strip() or "the critic gives no reason"
            return f"the end was refused: {reason.splitlines()[0]}"
        return f"the end is in doubt: {not_mentioned(self.missing)}" if self.missing else ""


type Request = Task | Edit | Candidate
type Answer = Plan | Image | Verdict | Failure
type AnswerType = type[Plan] | type[Image] | type[Verdict]
ANSWER_TYPES: Mapping[Stage, AnswerType] = {"plan": Plan, "edit": Image, "judge": Verdict}
"""The type of each stage's answers, if not a `Failure`."""


def stage_of(request: Request) -> Stage:
    """Return the stage whose model answers the request."""
    return "plan" if isinstance(request, Task) else "edit" if isinstance(request, Edit) else "judge"


def task_id_of(request: Request) -> str:
    """Return the id of the task that the request belongs to."""
    return request.id if isinstance(request, Task) else request.task_id


type Ask = Callable[[Stage, Sequence[Request]], Sequence[Answer]]
"""Function that calls the models of a stage (`goalreel.middleware`): answer i belongs to request i."""


class Planner(Protocol):
    """Splits tasks into steps, a batch at a time: answer i belongs to task i."""

    def plan(self, tasks: Sequence[Task]) -> Sequence[Plan | Failure]:
        """Plan each task; a Failure says why there is no plan."""


@dataclass(frozen=True)
class ReplanContext:
    """A storyboard in progress: its first `done` steps are done, and `image` is the scene now."""

    storyboard: Storyboard
    done: int
    image: Image | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.done <= len(self.storyboard.steps):
            raise ValueError(f"{self.done} steps done, but the storyboard has {len(self.storyboard.steps)}")


@runtime_checkable
class Replanner(Protocol):
    """A Planner that can continue a storyboard under way."""

    def continue_plan(self, progress: Sequence[ReplanContext]) -> Sequence[Plan | Failure]:
        """Plan the steps that are left of each storyboard."""


def plan_rest(planner: Planner, progress: Sequence[ReplanContext]) -> Sequence[Plan | Failure]:
    """Ask for plans for the remaining steps. A planner that cannot continue plans each task anew."""
    if isinstance(planner, Replanner):
        return planner.continue_plan(progress)
    return planner.plan([p.storyboard.task.model_copy(update={"image": p.image}) for p in progress])


class Editor(Protocol):
    """Draws goal images, a batch at a time: answer i belongs to edit i, in the model's own size."""

    def edit(self, edits: Sequence[Edit]) -> Sequence[Image | Failure]:
        """Draw the scene of each edit as it looks once its step is done."""


class Critic(Protocol):
    """Judges pictures, a batch at a time: answer i belongs to candidate i."""

    def judge(self, candidates: Sequence[Candidate]) -> Sequence[Verdict | Failure]:
        """Say of each candidate whether its picture shows its step done."""


@dataclass(frozen=True)
class PictureScores:
    """Scores for following the prompt and for looking good; each 0-10, the lower of two marks."""

    semantics: float
    quality: float
    semantics_reason: str = ""
    quality_reason: str = ""

    @property
    def overall(self) -> float:
        """Geometric mean of both, 0-10."""
        return math.sqrt(self.semantics * self.quality)


class Scorer(Protocol):
    """Scores pictures, batch first: answer i belongs to candidate i."""

    def score(self, candidates: Sequence[Candidate]) -> Sequence[PictureScores | None]:
        """Score each candidate's picture by the plan's prompt; None where the scorer gives no score.

        Raises:
            goalreel.errors.BackendError: the scorer cannot be called at all.
        """


class Recording(Protocol):
    """A recorded episode, as models that read recordings see it. Frames are counted from 0."""

    @property
    def id(self) -> str:
        """The id by which `Recordings` finds it."""

    @property
    def instruction(self) -> str:
        """The episode's instruction, as recorded."""

    @property
    def fps(self) -> float:
        """Frames a second."""

    @property
    def timestamps(self) -> NDArray[np.float32]:
        """Seconds since the episode's start, (n,), as recorded."""

    @property
    def state(self) -> NDArray[np.float32]:
        """`observation.state`, (n, dims); dims may be 0."""

    @property
    def action(self) -> NDArray[np.float32]:
        """`action`, (n, dims); dims may be 0."""

    @property
    def state_names(self) -> tuple[str, ...]:
        """One name a state dimension, or empty."""

    @property
    def action_names(self) -> tuple[str, ...]:
        """One name an action dimension, or empty."""

    def frames(self, camera: str, indices: Sequence[int]) -> list[Image]:
        """Decode frames of one camera; each names its place in `Image.frame`."""


type Recordings = Mapping[str, Recording] | Callable[[str], Recording]
"""Recordings by their id; an unknown id raises KeyError."""


def opener(recordings: Recordings) -> Callable[[str], Recording]:
    """Make a function that opens a recording by its id."""
    return recordings.__getitem__ if isinstance(recordings, Mapping) else recordings
