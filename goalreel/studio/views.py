"""A storyboard as the HTTP interface gives it (docs/reference/http-api.md)."""

from collections.abc import Sequence
from datetime import UTC, datetime

from goalreel.annotator.report.cards import claim_lines, display_name
from goalreel.claims import NOBODY
from goalreel.studio.board import StudioBoard
from goalreel.studio.board_summary import BoardSummary
from goalreel.studio.edits import RedoEdit, UndoEdit
from goalreel.studio.events import BoardEvent, PersonsChange
from goalreel.studio.news import change_words, picture_url
from goalreel.studio.presets import StudioPreset
from goalreel.studio.schemas import (
    AttemptOutcome,
    AttemptView,
    BoardView,
    ChangeView,
    DoneView,
    FailureView,
    PresetView,
    RowView,
    StepView,
    WaitingView,
)
from goalreel.studio.state import DrawnAttempt, StudioState
from goalreel.studio.trust import recorded_step, storyboard_of
from goalreel.types import Failure, Role, StoryboardStep, Verdict
from goalreel.wording import background_note, reader_text

_MODEL = "model "


def board_view(board: StudioBoard) -> BoardView:
    """The state of a storyboard, without the record."""
    state, task = board.state, board.state.task
    record = storyboard_of(state)
    running = (datetime.now(UTC) - state.started).total_seconds() if state.started else 0.0
    waiting = None if board.waiting is None else WaitingView.model_validate(board.waiting.data())
    return BoardView(
        id=board.id,
        status=board.status,
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
        preset=state.preset,
        models=model_names(state),
        waiting=waiting,
        writing=board.writing,
        failure=_failure(state.failure),
        degraded=board.said_trouble or ("" if record is None else record.degraded),
        complete=record is not None and record.complete,
        end_checked=NOBODY if record is None else record.end_checked,
        can_undo=bool(board.replay.done),
        can_redo=bool(board.replay.undone),
        history=list(_history(board.replay.events, set(board.replay.done))),
        steps=[_step(board, place, waiting) for place in range(len(state.steps))],
    )


def model_names(state: StudioState) -> dict[Role, str]:
    """The names of the models of the last work, for a reader."""
    return {role: _name(name) or "" for role, name in state.models.items()}


def preset_view(preset: StudioPreset) -> PresetView:
    """A preset, whose servers are asked whether they are there: it blocks."""
    reason = preset.problem()
    return PresetView(name=preset.name, models=preset.models, available=reason is None, reason=reason)


def row_view(summary: BoardSummary) -> RowView:
    """A storyboard in the history."""
    return RowView(
        id=summary.id,
        instruction=summary.instruction,
        status=summary.status,
        created=summary.created,
        steps=list(summary.names),
        pictures=[picture_url(summary.id, name) for name in summary.pictures],
        verified=summary.verified,
        complete=summary.complete,
        degraded=summary.degraded,
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
    lines = [reader_text(doubt) for _, claim in recorded.claims.items() for doubt in claim.doubts]
    if recorded.failure is not None:
        lines.append(f"{recorded.failure.stage}: {recorded.failure.line}")
    return tuple(dict.fromkeys(lines))


def _attempt(board: str, state: StudioState, place: int, number: int) -> AttemptView:
    step = state.steps[place]
    drawn = step.attempts[number]
    result = drawn.result
    judged = result is not None and (result.verdict is not None or result.failure is not None)
    return AttemptView(
        number=number,
        picture=picture_url(board, drawn.picture),
        prompt=drawn.prompt,
        seed=drawn.seed,
        by=_name((result and result.by) or drawn.models.get("editor")),
        critic=_name(drawn.models.get("critic")) if judged else None,
        outcome=_outcome(drawn, state.opinion(place, drawn)),
        stale=state.stale(place, drawn),
        verdict=None if result is None else _for_reader(result.verdict),
        failure=_failure(None if result is None else result.failure),
        background=background_note(None if result is None else result.registration) or None,
    )


def _outcome(drawn: DrawnAttempt, opinion: bool | None) -> AttemptOutcome:
    if opinion is not None:
        return "person_accepted" if opinion else "person_refused"
    if drawn.result is None:
        return "drawn"
    if drawn.result.failure is not None:
        return "failed"
    return "accepted" if drawn.result.accepted else "rejected"


def _for_reader(verdict: Verdict | None) -> Verdict | None:
    """A verdict without the places that a nano Critic lists by cell; the record keeps them."""
    if verdict is None:
        return None
    return verdict.model_copy(update={"reasoning": reader_text(verdict.reasoning)})


def _failure(failure: Failure | None) -> FailureView | None:
    return None if failure is None else FailureView(stage=failure.stage, message=failure.message)


def _name(model: str | None) -> str | None:
    """A model's name for a reader."""
    return display_name(model.removeprefix(_MODEL)) if model else None
