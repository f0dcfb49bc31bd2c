"""What the page is sent, and what it sends: the JSON of every answer."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from goalreel.annotator.review.curves import Points
from goalreel.datasets.corrections.events import (
    BlankGoal,
    ChooseAttempt,
    DeleteStep,
    FlagIssue,
    GiveVerdict,
    InsertStep,
    Issue,
    MergeSteps,
    MoveBoundary,
    Opinion,
    PlaceStep,
    RedoChange,
    RenameStep,
    SetOutcome,
    SplitStep,
    StepId,
    TakeFrame,
    UndoChange,
    Words,
)

type PageEvent = Annotated[
    MoveBoundary
    | PlaceStep
    | SplitStep
    | MergeSteps
    | InsertStep
    | DeleteStep
    | RenameStep
    | SetOutcome
    | ChooseAttempt
    | TakeFrame
    | BlankGoal
    | FlagIssue
    | GiveVerdict
    | UndoChange
    | RedoChange,
    Field(discriminator="kind"),
]
"""A change that the page may ask for; only the server itself makes a rendering one."""
Who = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80)]


class Wire(BaseModel):
    """A part of a request or an answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ChangeRequest(Wire):
    """A change to a revision of an episode."""

    revision: Annotated[int, Field(ge=0)]
    by: Who
    event: PageEvent


class RenderRequest(Wire):
    """Another picture of a step, by a prompt that a person wrote."""

    revision: Annotated[int, Field(ge=0)]
    by: Who
    step: StepId
    prompt: Words


class DatasetAnswer(Wire):
    """What all episodes have in common."""

    name: str
    fps: float
    cameras: list[str]
    episodes: int
    can_render: bool
    names: list[str]
    reviewer: str


class RowAnswer(Wire):
    """An episode in the list."""

    episode: int
    instruction: str
    seconds: float
    steps: int
    status: str
    verdict: Opinion | None
    by: str | None
    doubt: float
    reasons: tuple[str, ...]


class ListAnswer(Wire):
    """A page of the list."""

    total: int
    reviewed: int
    an_hour: float | None
    rows: list[RowAnswer]


class CameraAnswer(Wire):
    """A camera; `from_s` and `to_s` are the episode's place in the video, which may hold many episodes."""

    key: str
    video: str | None
    from_s: float
    to_s: float


class AttemptAnswer(Wire):
    """A picture that was made or taken for a step."""

    picture: str | None
    prompt: str
    outcome: Literal["accepted", "rejected", "failed", "person"]
    text: str
    probability: float | None
    semantics: float | None
    quality: float | None


class StepAnswer(Wire):
    """A step; `end` is the first frame behind it."""

    id: str
    name: str
    instruction: str
    prompt: str | None
    outcome: Literal["done", "failed"]
    start: int | None
    end: int | None
    unaligned: str | None
    issues: tuple[Issue, ...]
    chosen: int | None
    edited: list[str]
    attempts: list[AttemptAnswer]


class HistoryLine(Wire):
    """A change that somebody made."""

    revision: int
    at: datetime
    by: str
    words: str
    undone: bool


class EpisodeAnswer(Wire):
    """An episode as it is now."""

    episode: int
    revision: int
    instruction: str
    failure: str | None
    fps: float
    length: int
    doubt: float
    reasons: tuple[str, ...]
    cameras: list[CameraAnswer]
    curves: dict[str, Points]
    verdict: Opinion | None
    by: str | None
    issues: tuple[Issue, ...]
    steps: list[StepAnswer]
    can_undo: bool
    can_redo: bool
    history: list[HistoryLine]
    previous: int | None
    next: int | None


class ConflictAnswer(Wire):
    """Somebody was first: what they made of the episode."""

    detail: str
    episode: EpisodeAnswer
