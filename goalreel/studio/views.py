"""A storyboard, and what happens to it, as the HTTP interface tells (docs/reference/http-api.md)."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from goalreel.annotator.report.cards import claim_lines, display_name
from goalreel.claims import NOBODY
from goalreel.critics.examiner import Examination, word, worst_word
from goalreel.image import Image
from goalreel.planners.kinematic.naming import asked
from goalreel.studio import events
from goalreel.studio.state import StudioState, recorded_step, storyboard_of
from goalreel.types import Failure, Role, StoryboardStep, Verdict
from goalreel.wording import background_note, reader_text, status_counts

if TYPE_CHECKING:
    from goalreel.studio.board import StudioBoard

type Json = dict[str, Any]
type Url = Callable[[str | None], str | None]


def picture_url(board: str) -> Url:
    """Make what gives the address of a storyboard's picture by its name."""
    return lambda name: None if name is None else f"/v1/storyboards/{board}/pictures/{name}"


def board_view(board: "StudioBoard", by: str = "person") -> Json:
    """Describe the state of a storyboard, without the record; undo and redo are those of the person `by`."""
    state, task, url = board.state, board.state.task, picture_url(board.id)
    record, examination, waiting = storyboard_of(state), board.examination, board.waiting

    def picture(image: Image | None) -> str | None:
        return url(None if image is None else image.frame)

    return {
        "id": board.id,
        "status": board.status,
        "number": len(board.replay.lines),
        "created": state.created,
        "instruction": task.instruction,
        "image": picture(task.image),
        "images": [picture(image) for image in task.images],
        "done": [{"instruction": done.instruction, "image": picture(done.image)} for done in task.done],
        "seed": task.seed,
        "max_attempts": state.max_attempts,
        "on_rejected": state.on_rejected,
        "models": model_names(state.models),
        "waiting": waiting,
        "failure": _failure(state.failure),
        "degraded": board.trouble or state.trouble or ("" if record is None else record.degraded),
        "complete": record is not None and record.complete,
        "end_checked": NOBODY if record is None else record.end_checked,
        "end_doubt": "" if record is None else reader_text(record.end_doubt),
        "asked": asked(task.instruction, [step.step for step in state.steps]) if state.steps else [],
        **board.replay.steps_back(by, events.describe),
        "history": board.replay.history(events.describe),
        "examination": None if examination is None else examination.summary(),
        "steps": [_step(state, place, url, waiting or {}, examination) for place in range(len(state.steps))],
        "storyboard": None,
    }


def summary_row(board: "StudioBoard") -> Json:
    """Summarize a storyboard in a line of the history."""
    state, record, url = board.state, storyboard_of(board.state), picture_url(board.id)
    goals, examination = [state.image, *(step.goal for step in state.steps)], board.examination
    return {
        "id": board.id,
        "instruction": state.task.instruction,
        "status": board.status,
        "created": state.created,
        "steps": [step.step.name for step in state.steps],
        "pictures": [url(goal) for goal in goals if goal is not None],
        "words": status_counts(word(step, examination) for step in (record.steps if record else ())),
        "word": "skipped" if record is None else worst_word(record, examination),
        "complete": record is not None and record.complete,
        "degraded": board.trouble or state.trouble or ("" if record is None else record.degraded),
    }


def model_names(models: Mapping[Role, str]) -> dict[Role, str]:
    """Name models for a reader."""
    return {role: _name(name) or "" for role, name in models.items()}


def _step(state: StudioState, place: int, url: Url, waiting: Json, examination: Examination | None) -> Json:
    step, recorded = state.steps[place], recorded_step(state, place)
    activity = None
    if waiting.get("step") == step.id:
        activity = "drawing" if waiting["role"] == "editor" else "judging"
    return {
        "id": step.id,
        **step.step.model_dump(include={"name", "instruction", "prompt", "auxiliary_text"}),
        "status": recorded.status,
        "word": word(recorded, examination),
        "reasons": _reasons(recorded),
        "stale": state.stale_goal(place),
        "open": step.todo,
        "activity": activity,
        "claims": recorded.claims,
        "claim_lines": claim_lines(recorded.claims),
        "edited": sorted(step.edited),
        "chosen": step.chosen,
        "attempts": [_attempt(state, place, number, url) for number in range(len(step.attempts))],
    }


def _reasons(recorded: StoryboardStep) -> list[str]:
    """List why a step is not accepted, and why its words may be untrue."""
    lines = [reader_text(doubt) for _, claim in recorded.claims.items() for doubt in claim.doubts]
    if recorded.failure is not None:
        lines.append(f"{recorded.failure.stage}: {recorded.failure.line}")
    return list(dict.fromkeys(lines))


def _attempt(state: StudioState, place: int, number: int, url: Url) -> Json:
    drawn = state.steps[place].attempts[number]
    result, opinion = drawn.result, state.opinion(place, drawn)
    verdict, failure = (None, None) if result is None else (result.verdict, result.failure)
    outcome = "drawn" if result is None else result.outcome
    if opinion is not None:
        outcome = "person_accepted" if opinion else "person_refused"
    return {
        "number": number,
        "picture": url(drawn.picture),
        "prompt": drawn.prompt,
        "seed": drawn.seed,
        "by": _name(drawn.models.get("editor")),
        "critic": _name(drawn.models.get("critic")) if verdict or failure else None,
        "outcome": outcome,
        "stale": state.stale(place, drawn),
        # A nano Critic lists places by cell: for the record alone.
        "verdict": verdict and verdict.model_copy(update=_said(verdict)),
        "failure": _failure(failure),
        "background": background_note(None if result is None else result.registration) or None,
    }


def _said(verdict: Verdict, *names: str) -> Json:
    """Fields of a verdict, with its reasoning for a reader."""
    return {name: getattr(verdict, name) for name in names} | {"reasoning": reader_text(verdict.reasoning)}


def _failure(failure: Failure | None) -> Json | None:
    return None if failure is None else {"stage": failure.stage, "message": failure.message}


def _name(model: str | None) -> str | None:
    return display_name(model.removeprefix("model ")) if model else None


def news(board: str, event: events.BoardEvent, state: StudioState) -> tuple[str, Json]:
    """Name an event, and collect its data; places are those of the present `state`."""
    what, url = event.what, picture_url(board)
    match what:
        case events.Submitted():
            return "submitted", {"instruction": what.task.instruction}
        case events.WorkBegun():
            return "begun", {"models": dict(what.models)}
        case events.PlanMade():
            return "planned", {"steps": [step.name for step in what.steps]}
        case events.PlanFailed():
            return "failure", {"stage": "plan", "message": what.failure.message}
        case events.PersonsChange():
            edit = what.edit.model_dump(mode="json", exclude_none=True)
            return "changed", {"by": what.by, "words": events.describe(what.edit), "edit": edit}
        case events.WorkEnded():
            return "finished", {"status": what.status} | ({"message": what.trouble} if what.trouble else {})
        case events.EndJudged(answer=answer):
            if isinstance(answer, Failure):
                return "failure", {"step": None, "stage": "judge", "message": answer.message}
            return "end", {} if answer is None else _said(answer, "success", "probability")
    place = state.find(what.step)
    at: Json = {"step": place, "id": what.step}
    if isinstance(what, events.StepEnded):
        ended = {"status": None, "chosen": None}
        if place is not None:
            ended = {"status": recorded_step(state, place).status, "chosen": state.steps[place].chosen}
        return "step", at | ended
    at["attempt"] = None if place is None else state.steps[place].place(what.round, what.attempt)
    if isinstance(what, events.DrawnPicture):
        return "edited", at | {"prompt": what.prompt, "seed": what.seed, "picture": url(what.picture)}
    verdict, image = what.result.verdict, what.result.image
    if verdict is None:
        return "failure", at | (_failure(what.result.failure) or {})
    said = _said(verdict, "success", "probability", "pictures_only")
    return "judged", at | said | {"picture": url(None if image is None else image.frame)}
