"""A storyboard as the HTTP interface gives it (docs/reference/http-api.md)."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from goalreel.annotator.report.cards import claim_lines, display_name
from goalreel.claims import NOBODY
from goalreel.image import Image
from goalreel.studio.board import StudioBoard
from goalreel.studio.events import BoardEvent, PersonsChange
from goalreel.studio.news import change_words, picture_url
from goalreel.studio.record import recorded_step, storyboard_of
from goalreel.studio.state import DrawnAttempt, StudioState
from goalreel.types import Failure, Role, StoryboardStep
from goalreel.wording import background_note, reader_text

type Json = dict[str, Any]


def board_view(board: StudioBoard) -> Json:
    """Describe the state of a storyboard, without the record."""
    state, task = board.state, board.state.task
    record = storyboard_of(state)
    running = (datetime.now(UTC) - state.started).total_seconds() if state.started else 0.0
    waiting = None if board.waiting is None else board.waiting.data()

    def url(image: Image | None) -> str | None:
        return picture_url(board.id, None if image is None else image.frame)

    return {
        "id": board.id,
        "status": board.status,
        "number": state.number,
        "created": state.created,
        "seconds": round(state.seconds + running, 1),
        "instruction": task.instruction,
        "image": url(task.image),
        "images": [url(image) for image in task.images],
        "done": [{"instruction": done.instruction, "image": url(done.image)} for done in task.done],
        "seed": task.seed,
        "max_attempts": state.max_attempts,
        "variants": state.variants,
        "on_unverified": state.on_unverified,
        "preset": state.preset,
        "models": model_names(state),
        "waiting": waiting,
        "writing": board.writing,
        "failure": _failure(state.failure),
        "degraded": board.said_trouble or ("" if record is None else record.degraded),
        "complete": record is not None and record.complete,
        "end_checked": NOBODY if record is None else record.end_checked,
        "can_undo": bool(board.replay.done),
        "can_redo": bool(board.replay.undone),
        "history": board.replay.history(_line),
        "steps": [_step(board, place, waiting) for place in range(len(state.steps))],
        "storyboard": None,
    }


def model_names(state: StudioState) -> dict[Role, str]:
    """Name the models of the last work for a reader."""
    return {role: _name(name) or "" for role, name in state.models.items()}


@dataclass(frozen=True)
class BoardSummary:
    """A storyboard in the history."""

    words: str
    """All that a search looks at, in lower case."""
    row: Json
    """Its line as a client gets it."""

    @classmethod
    def of(cls, board: StudioBoard) -> "BoardSummary":
        """Summarize a storyboard as it stands."""
        state, record = board.state, storyboard_of(board.state)
        names = [step.step.name for step in state.steps]
        texts = [state.task.instruction, *names, *(step.step.instruction for step in state.steps)]
        goals = [state.image, *(step.goal for step in state.steps)]
        row = {
            "id": board.id,
            "instruction": state.task.instruction,
            "status": board.status,
            "created": state.created,
            "steps": names,
            "pictures": [picture_url(board.id, goal) for goal in goals if goal is not None],
            "verified": sum(step.status == "verified" for step in (record.steps if record else ())),
            "complete": record is not None and record.complete,
            "degraded": board.said_trouble or ("" if record is None else record.degraded),
        }
        return cls("\n".join(texts).casefold(), row)


def _line(event: BoardEvent) -> Json:
    assert isinstance(event.what, PersonsChange)
    words = change_words(event.what.edit)
    return {"number": event.number, "at": event.at, "by": event.what.by, "words": words}


def _step(board: StudioBoard, place: int, waiting: Json | None) -> Json:
    state = board.state
    step, recorded = state.steps[place], recorded_step(state, place)
    activity = None
    if waiting is not None and waiting["step"] == step.id:
        activity = "drawing" if waiting["role"] == "editor" else "judging"
    return {
        "id": step.id,
        **step.step.model_dump(include={"name", "instruction", "prompt", "auxiliary_text"}),
        "status": recorded.status,
        "reasons": _reasons(recorded),
        "stale": state.stale_goal(place),
        "open": step.todo is not None,
        "activity": activity,
        "claims": recorded.claims,
        "claim_lines": claim_lines(recorded.claims),
        "edited": sorted(step.edited),
        "chosen": step.chosen,
        "attempts": [_attempt(board.id, state, place, number) for number in range(len(step.attempts))],
    }


def _reasons(recorded: StoryboardStep) -> list[str]:
    """List why a step is not verified, and why its words may be untrue."""
    lines = [reader_text(doubt) for _, claim in recorded.claims.items() for doubt in claim.doubts]
    if recorded.failure is not None:
        lines.append(f"{recorded.failure.stage}: {recorded.failure.line}")
    return list(dict.fromkeys(lines))


def _attempt(board: str, state: StudioState, place: int, number: int) -> Json:
    drawn = state.steps[place].attempts[number]
    result = drawn.result
    verdict, failure = (None, None) if result is None else (result.verdict, result.failure)
    judged = verdict is not None or failure is not None
    if verdict is not None:  # a nano Critic lists places by cell: for the record alone
        verdict = verdict.model_copy(update={"reasoning": reader_text(verdict.reasoning)})
    return {
        "number": number,
        "picture": picture_url(board, drawn.picture),
        "prompt": drawn.prompt,
        "seed": drawn.seed,
        "by": _name((result and result.by) or drawn.models.get("editor")),
        "critic": _name(drawn.models.get("critic")) if judged else None,
        "outcome": _outcome(drawn, state.opinion(place, drawn)),
        "stale": state.stale(place, drawn),
        "verdict": verdict,
        "failure": _failure(failure),
        "background": background_note(None if result is None else result.registration) or None,
    }


def _outcome(drawn: DrawnAttempt, opinion: bool | None) -> str:
    if opinion is not None:
        return "person_accepted" if opinion else "person_refused"
    if drawn.result is None:
        return "drawn"
    if drawn.result.failure is not None:
        return "failed"
    return "accepted" if drawn.result.accepted else "rejected"


def _failure(failure: Failure | None) -> Json | None:
    return None if failure is None else {"stage": failure.stage, "message": failure.message}


def _name(model: str | None) -> str | None:
    """Shorten a model's name for a reader."""
    return display_name(model.removeprefix("model ")) if model else None
