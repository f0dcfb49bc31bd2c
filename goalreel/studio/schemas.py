"""The JSON of the HTTP interface of storyboards on disk (docs/reference/http-api.md)."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel

from goalreel.claims import Claims
from goalreel.loop import OnUnverified
from goalreel.studio.events import BoardStatus
from goalreel.studio.state import EditedPart
from goalreel.terms import Role
from goalreel.types import Status, Verdict

type AttemptOutcome = Literal["drawn", "accepted", "rejected", "failed", "person_accepted", "person_refused"]


class FailureView(BaseModel):
    """Why there is no answer."""

    stage: str
    message: str


class AttemptView(BaseModel):
    """A picture of a step; `number` counts from 0 over all that was ever drawn for it."""

    number: int
    picture: str | None
    prompt: str
    seed: int
    by: str | None
    critic: str | None
    outcome: AttemptOutcome
    stale: tuple[str, ...]
    verdict: Verdict | None
    failure: FailureView | None
    background: str | None


class StepView(BaseModel):
    """A step; see the page on the HTTP interface."""

    id: str
    name: str
    instruction: str
    prompt: str | None
    auxiliary_text: str | None
    status: Status
    reasons: tuple[str, ...]
    stale: tuple[str, ...]
    open: bool
    activity: Literal["drawing", "judging"] | None
    claims: Claims
    claim_lines: list[str]
    edited: list[EditedPart]
    chosen: int | None
    attempts: list[AttemptView]


class WaitingView(BaseModel):
    """Which model is asked, for how long, whether it is alive or still loads, and how many are before it."""

    role: Role
    step: str | None
    attempt: int | None
    seconds: float
    alive: bool
    loading: bool
    queue: int


class DoneView(BaseModel):
    """A step that is done."""

    instruction: str
    image: str | None


class ChangeView(BaseModel):
    """A person's change."""

    number: int
    at: datetime
    by: str
    words: str
    undone: bool


class BoardView(BaseModel):
    """The state of a storyboard. `storyboard` is the whole record, where it was asked for."""

    id: str
    status: BoardStatus
    number: int
    created: datetime
    seconds: float
    instruction: str
    image: str | None
    images: list[str]
    done: list[DoneView]
    seed: int
    max_attempts: int
    variants: int
    on_unverified: OnUnverified
    preset: str | None
    models: dict[Role, str]
    waiting: WaitingView | None
    writing: str
    failure: FailureView | None
    degraded: str
    complete: bool
    end_checked: str
    can_undo: bool
    can_redo: bool
    history: list[ChangeView]
    steps: list[StepView]
    storyboard: dict[str, Any] | None = None


class RowView(BaseModel):
    """A storyboard in the history."""

    id: str
    instruction: str
    status: BoardStatus
    created: datetime
    steps: list[str]
    pictures: list[str | None]
    verified: int
    complete: bool
    degraded: str


class HistoryView(BaseModel):
    """A page of the history; `total` counts all that match."""

    total: int
    storyboards: list[RowView]
    damaged: list[str]
    """What is wrong with each storyboard that cannot be read."""


class Scene(BaseModel):
    """A picture with what a robot could do there; `picture` is a data URL."""

    name: str
    instruction: str
    picture: str


class ScenesView(BaseModel):
    """Scenes."""

    scenes: list[Scene]


class DatasetView(BaseModel):
    """A dataset below the folder that was allowed at the start."""

    path: str
    episodes: int


class DatasetsView(BaseModel):
    """Datasets."""

    datasets: list[DatasetView]


class Ability(BaseModel):
    """Whether something can be done here; `reason` says why not."""

    available: bool
    reason: str | None = None


class PresetView(BaseModel):
    """Models that a storyboard may be made with; `reason` says why they cannot be used here."""

    name: str
    models: dict[Role, str]
    available: bool
    reason: str | None = None


class StudioView(BaseModel):
    """What a server can do; `models` are those of the start."""

    version: str
    models: dict[Role, str]
    presets: list[PresetView]
    max_attempts: int
    max_pixels: int
    max_variants: int
    datasets: Ability
    ros: Ability
    execute: Ability


class CorpusView(BaseModel):
    """What is in the corpus now; `rows` by its parts."""

    folder: str
    storyboards: int
    rows: dict[str, int]


class ExecutionView(BaseModel):
    """A node has begun to execute a storyboard."""

    message: str


class ErrorText(BaseModel):
    """As in every refusal."""

    message: str
    type: str = "invalid_request_error"
    param: str | None = None
    code: str | None = "conflict"


class ConflictView(BaseModel):
    """Another change came first: `state` is after it."""

    error: ErrorText
    state: BoardView
