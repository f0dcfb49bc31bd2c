"""An event as a client hears it: its name, and its data as JSON can have it."""

from typing import assert_never

from goalreel.studio import events
from goalreel.studio.record import recorded_step
from goalreel.studio.state import StudioState
from goalreel.wording import reader_text

type _Data = dict[str, object]


def picture_url(board: str, name: str | None) -> str | None:
    """Make the address of a storyboard's picture."""
    return None if name is None else f"/v1/storyboards/{board}/pictures/{name}"


def news(board: str, event: events.BoardEvent, state: StudioState) -> tuple[str, _Data]:
    """Name an event, and collect its data; places are those of the present `state`."""
    what = event.what
    match what:
        case events.Submitted():
            return "submitted", {"instruction": what.task.instruction}
        case events.WorkBegun():
            return "begun", {"models": dict(what.models)}
        case events.PlanMade():
            fields = {"name", "instruction", "prompt", "auxiliary_text"}
            plan = [
                {"id": f"e{event.number}s{n}", **step.model_dump(include=fields)}
                for n, step in enumerate(what.steps)
            ]
            return "planned", {"steps": [step.name for step in what.steps], "plan": plan}
        case events.PlanFailed():
            return "failure", {"stage": "plan", "message": what.failure.message}
        case events.DrawnPicture():
            drawn = {"prompt": what.prompt, "seed": what.seed, "picture": picture_url(board, what.picture)}
            return "edited", _place(state, what) | drawn
        case events.AttemptEnded():
            return _ended(board, what, _place(state, what))
        case events.StepEnded():
            place = _index(state, what.step)
            data: _Data = {"step": place, "id": what.step}
            if place is None:
                return "step", data | {"status": None, "chosen": None}
            chosen = state.steps[place].chosen
            return "step", data | {"status": recorded_step(state, place).status, "chosen": chosen}
        case events.PersonsChange():
            edit = what.edit.model_dump(mode="json", exclude_none=True)
            return "changed", {"by": what.by, "words": change_words(what.edit), "edit": edit}
        case events.WorkEnded():
            ending: _Data = {"status": what.status}
            if what.trouble:
                ending["message"] = what.trouble
            return "finished", ending
    assert_never(what)


def change_words(edit: events.BoardEdit) -> str:
    """Describe a change for a reader."""
    match edit:
        case events.WordsEdit():
            words = edit.model_dump(exclude={"kind", "step"}, exclude_none=True)
            return f"changed the {' and the '.join(name.replace('_', ' ') for name in words)}"
        case events.AddEdit():
            return f"added “{edit.name}”"
        case events.DeleteStep():
            return "removed a step"
        case events.MoveEdit():
            return "moved a step"
        case events.DrawEdit(variants=0):
            text = "drew a step again" if edit.prompt is None else "drew a step by another prompt"
            return f"{text}, and those after it" if edit.rest else text
        case events.DrawEdit():
            return f"drew {edit.variants} variants of a step"
        case events.ChooseAttempt():
            return f"chose picture {edit.attempt + 1}"
        case events.JudgeEdit():
            return f"{'accepted' if edit.accept else 'refused'} picture {edit.attempt + 1}"
        case events.ContinueEdit():
            return f"went on from a later picture, after {edit.done} steps"
        case events.UndoChange():
            return "took back a change"
        case events.RedoChange():
            return "made a change again"
    assert_never(edit)


def _ended(board: str, what: events.AttemptEnded, place: _Data) -> tuple[str, _Data]:
    result = what.result
    if result.verdict is None:
        failure = result.failure
        assert failure is not None
        return "failure", place | {"stage": failure.stage, "message": failure.message}
    picture = None if result.image is None else result.image.frame
    verdict = result.verdict.model_dump(include={"success", "probability", "pictures_only"})
    verdict["reasoning"] = reader_text(result.verdict.reasoning)
    return "judged", place | verdict | {"picture": picture_url(board, picture)}


def _place(state: StudioState, what: events.DrawnPicture | events.AttemptEnded) -> _Data:
    """Place an attempt: `attempt` is its number among all of the step."""
    index = _index(state, what.step)
    place = None if index is None else state.steps[index].place(what.round, what.attempt)
    return {"step": index, "id": what.step, "attempt": place}


def _index(state: StudioState, step: str) -> int | None:
    return next((n for n, candidate in enumerate(state.steps) if candidate.id == step), None)
