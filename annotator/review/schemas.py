"""The JSON that the page sends and gets."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from goalreel.annotator.review.curves import Points
from goalreel.claims import Claims
from goalreel.datasets.corrections.events import (
    FlagIssue,
    GiveVerdict,
    InsertStep,
    Issue,
    Opinion,
    RedoChange,
    RenameStep,
    StepEdit,
    StepId,
    UndoChange,
    Words,
    one_line,
)
from goalreel.details import Details

type PageEvent = Annotated[
    StepEdit | InsertStep | RenameStep | FlagIssue | GiveVerdict | UndoChange | RedoChange,
    Field(discriminator="kind"),
]
"""A change that the page may request; only the server itself adds a rendering."""
Who = Annotated[str, StringConstraints(min_length=1, max_length=80), AfterValidator(one_line)]
_TEXTS = ("name", "instruction", "prompt", "text")


def _clean(event: PageEvent) -> PageEvent:
    texts = {name: one_line(text) for name in _TEXTS if (text := getattr(event, name, None)) is not None}
    return event.model_copy(update=texts)


class Schema(BaseModel):
    """A part of a request or an answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ChangeRequest(Schema):
    """A change to a revision of an episode."""

    revision: Annotated[int, Field(ge=0)]
    by: Who
    event: Annotated[PageEvent, AfterValidator(_clean)]


class RenderRequest(Schema):
    """A request for another picture of a step, from a person's prompt."""

    revision: Annotated[int, Field(ge=0)]
    by: Who
    step: StepId
    prompt: Annotated[Words, AfterValidator(one_line)]


class DatasetAnswer(Schema):
    """The facts that all episodes share."""

    name: str
    fps: float
    cameras: list[str]
    episodes: int
    can_render: bool
    names: list[str]
    reviewer: str


class RowAnswer(Schema):
    """An episode in the list."""

    episode: int
    instruction: str
    seconds: float
    steps: int
    status: str
    verdict: Opinion | None
    by: str | None
    words: str
    doubt: float
    reasons: tuple[str, ...]


class ListAnswer(Schema):
    """A page of the list."""

    total: int
    reviewed: int
    an_hour: float | None
    rows: list[RowAnswer]


class CameraAnswer(Schema):
    """A camera; `from_s` and `to_s` are the episode's place in the video, which may hold many episodes."""

    key: str
    video: str | None
    from_s: float
    to_s: float


class AttemptAnswer(Schema):
    """A picture of a step, rendered or from the recording."""

    number: int
    """Counted from 0; frames that a step ended with once, and nobody chose, are left out."""
    picture: str | None
    prompt: str
    by: str | None
    """Which of several editors drew it."""
    outcome: Literal["accepted", "rejected", "failed", "person", "observed"]
    text: str
    probability: float | None
    semantics: float | None
    quality: float | None


class StepAnswer(Schema):
    """A step; `end` is the first frame after it."""

    id: str
    name: str
    instruction: str
    prompt: str | None
    outcome: Literal["done", "failed"]
    start: int | None
    end: int | None
    unaligned: str | None
    doubts: tuple[str, ...]
    claims: Claims
    claim_lines: list[str]
    """The claims for a reader."""
    details: Details
    issues: tuple[Issue, ...]
    chosen: int | None
    edited: list[str]
    attempts: list[AttemptAnswer]


class HistoryLine(Schema):
    """A change in the history."""

    revision: int
    at: datetime
    by: str
    words: str
    undone: bool


class HistoryAnswer(Schema):
    """A page of the history."""

    changes: int
    """In the whole history."""
    history: list[HistoryLine]


class EpisodeAnswer(HistoryAnswer):
    """The present state of an episode, with its last changes."""

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
    previous: int | None
    next: int | None


class ConflictAnswer(Schema):
    """A conflict: the episode after the change that came first."""

    detail: str
    by: str
    """Whose change it was."""
    episode: EpisodeAnswer
