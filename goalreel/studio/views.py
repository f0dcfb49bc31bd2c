"""A storyboard as the HTTP interface gives it (docs/reference/http-api.md)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel

from goalreel.annotator.report.claim_text import claim_lines, display_name
from goalreel.claims import Claims
from goalreel.loop import OnUnverified
from goalreel.studio.board import StudioBoard
from goalreel.studio.boards import BoardSummary
from goalreel.studio.edits import RedoEdit, UndoEdit
from goalreel.studio.events import BoardEvent, BoardStatus, PersonsChange
from goalreel.studio.news import change_words, picture_url
from goalreel.studio.state import BoardState, BoardStep, DrawnAttempt, EditedPart
from goalreel.studio.trust import recorded_step, storyboard_of
from goalreel.terms import Role
from goalreel.types import Failure, Status, StoryboardStep, Verdict

type Outcome = Literal["drawn", "accepted", "rejected", "failed", "person_accepted", "person_refused"]
_MODEL = "model "


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
    outcome: Outcome
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
    models: dict[Role, str]
    waiting: WaitingView | None
    failure: FailureView | None
    degraded: str
    complete: bool
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


class HistoryView(BaseModel):
    """A page of the history; `total` counts all that match."""

    total: int
    storyboards: list[RowView]


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


class StudioView(BaseModel):
    """What a server can do."""

    version: str
    models: dict[Role, str]
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


def board_view(board: StudioBoard) -> BoardView:
    """The state of a storyboard, without the record."""
    state, task = board.state, board.state.task
    record = storyboard_of(state)
    running = (datetime.now(UTC) - state.started).total_seconds() if state.started else 0.0
    waiting = None if board.waiting is None else WaitingView.model_validate(board.waiting.data())
    return BoardView(
        id=board.id,
        status=state.status,
        number=state.number,
        created=state.created,
        seconds=round(state.seconds + running, 1),
        instruction=task.instruction,
        image=picture_url(board.id, state.image),
        images=[f"{picture_url(board.id, image.frame)}" for image in task.images],
        done=[
            DoneView(
                instruction=d.instruction, image=picture_url(board.id, d.image.frame if d.image else None)
            )
            for d in task.done
        ],
        seed=task.seed,
        max_attempts=state.max_attempts,
        variants=state.variants,
        on_unverified=state.on_unverified,
        models={role: _name(name) or "" for role, name in state.models.items()},
        waiting=waiting,
        failure=_failure(state.failure),
        degraded="" if record is None else record.degraded,
        complete=record is not None and record.complete,
        can_undo=bool(board.replay.done),
        can_redo=bool(board.replay.undone),
        history=list(_history(board.replay.events, set(board.replay.done))),
        steps=[_step(board, place, waiting) for place in range(len(state.steps))],
    )


def row_view(summary: BoardSummary) -> RowView:
    """A storyboard in the history."""
    return RowView(
        id=summary.id,
        instruction=summary.instruction,
        status=summary.status,
        created=summary.created,
        steps=list(summary.names),
        pictures=[picture_url(summary.id, name) for name in summary.pictures],
    )


def _history(events: Sequence[BoardEvent], standing: set[int]) -> list[ChangeView]:
    changes = [(e, e.what) for e in events if isinstance(e.what, PersonsChange)]
    return [
        ChangeView(
            number=event.number,
            at=event.at,
            by=what.by,
            words=change_words(what.edit),
            undone=event.number not in standing,
        )
        for event, what in changes
        if not isinstance(what.edit, UndoEdit | RedoEdit)
    ]


def _step(board: StudioBoard, place: int, waiting: WaitingView | None) -> StepView:
    state = board.state
    step, recorded = state.steps[place], recorded_step(state, place)
    activity = None
    if waiting is not None and waiting.step == step.id:
        activity = "drawing" if waiting.role == "editor" else "judging"
    words = step.step
    return StepView(
        id=step.id,
        name=words.name,
        instruction=words.instruction,
        prompt=words.prompt,
        auxiliary_text=words.auxiliary_text,
        status=recorded.status,
        reasons=_reasons(recorded),
        stale=state.stale_goal(place),
        open=step.todo is not None,
        activity=activity,
        claims=recorded.claims,
        claim_lines=claim_lines(recorded.claims),
        edited=sorted(step.edited),
        chosen=step.chosen,
        attempts=[_attempt(board.id, state, place, number) for number in range(len(step.attempts))],
    )


def _reasons(recorded: StoryboardStep) -> tuple[str, ...]:
    """Why a step is not verified, and why its words may be untrue."""
    lines = [doubt for _, claim in recorded.claims.items() for doubt in claim.doubts]
    if recorded.failure is not None:
        lines.append(f"{recorded.failure.stage}: {recorded.failure.line}")
    return tuple(dict.fromkeys(lines))


def _attempt(board: str, state: BoardState, place: int, number: int) -> AttemptView:
    step = state.steps[place]
    drawn = step.attempts[number]
    result = drawn.result
    registration = None if result is None else result.registration
    judged = result is not None and (result.verdict is not None or result.failure is not None)
    return AttemptView(
        number=number,
        picture=picture_url(board, drawn.picture),
        prompt=drawn.prompt,
        seed=drawn.seed,
        by=_name((result and result.by) or drawn.models.get("editor")),
        critic=_name(drawn.models.get("critic")) if judged else None,
        outcome=_outcome(step, drawn),
        stale=state.stale(place, drawn),
        verdict=None if result is None else result.verdict,
        failure=_failure(None if result is None else result.failure),
        background=None if registration is None else registration.line,
    )


def _outcome(step: BoardStep, drawn: DrawnAttempt) -> Outcome:
    opinion = step.opinion(drawn)
    if opinion is not None:
        return "person_accepted" if opinion else "person_refused"
    if drawn.result is None:
        return "drawn"
    if drawn.result.failure is not None:
        return "failed"
    return "accepted" if drawn.result.accepted else "rejected"


def _failure(failure: Failure | None) -> FailureView | None:
    return None if failure is None else FailureView(stage=failure.stage, message=failure.message)


def _name(model: str | None) -> str | None:
    """A model's name for a reader."""
    return display_name(model.removeprefix(_MODEL)) if model else None
