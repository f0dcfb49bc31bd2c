"""What each change of a person makes of a storyboard. Pure."""

from typing import Any, assert_never

from goalreel.datasets.corrections.files import stand_in
from goalreel.errors import InputError
from goalreel.studio import edits
from goalreel.studio.state import BoardStep, EditedPart, StudioState
from goalreel.types import DoneStep, Step

MAX_BOARD_STEPS = 200


def with_change(state: StudioState, edit: edits.StepChange, number: int) -> StudioState:
    """The storyboard with a change made to it by event `number`.

    Raises:
        InputError: the change does not fit the storyboard.
    """
    match edit:
        case edits.AddEdit():
            return _added(state, edit, number)
        case edits.ContinueEdit():
            return _continued(state, edit, number)
    place = state.place(edit.step)
    step = state.steps[place]
    match edit:
        case edits.WordsEdit():
            return state.with_step(place, _worded(step, edit, number))
        case edits.DeleteEdit():
            if len(state.steps) == 1:
                raise InputError("it is the only step: change its words instead")
            return state.with_step(place)
        case edits.MoveEdit():
            return _moved(state, place, edit)
        case edits.DrawEdit():
            return _drawn(state, place, edit, number)
        case edits.ChooseEdit():
            _check_picture(step, edit.attempt)
            return state.with_step(place, step.model_copy(update={"chosen": edit.attempt}))
        case edits.JudgeEdit():
            return state.with_step(place, _judged(step, edit, state.source(place)))
    assert_never(edit)


def open_step(step: BoardStep, number: int) -> BoardStep:
    """The step, to be drawn from the start because of event `number`."""
    return step.model_copy(update={"rounds": (*step.rounds, number), "todo": "render", "variants_left": 0})


def _worded(step: BoardStep, edit: edits.WordsEdit, number: int) -> BoardStep:
    texts = edit.model_dump(exclude={"kind", "step"}, exclude_none=True)
    if not texts:
        raise InputError("the change has no words")
    parts: set[EditedPart] = {"prompt"} if "prompt" in texts else set()
    words: set[EditedPart] = {"words"} if texts.keys() - {"prompt"} else set()
    doubts: dict[str, Any] = {"doubts": ()} if words else {}
    changed = step.step.model_copy(update=texts | doubts)
    update: dict[str, Any] = {"step": changed, "edited": step.edited | parts | words}
    if words:
        update["planner"] = None
    if step.todo:  # what is being drawn is of other words
        update["rounds"] = (*step.rounds, number)
    return step.model_copy(update=update)


def _added(state: StudioState, edit: edits.AddEdit, number: int) -> StudioState:
    if not state.steps:
        raise InputError("there is no plan yet to add a step to")
    if len(state.steps) >= MAX_BOARD_STEPS:
        raise InputError(f"a storyboard has at most {MAX_BOARD_STEPS} steps")
    place = len(state.steps) if edit.before is None else state.place(edit.before)
    words = Step(name=edit.name, instruction=edit.instruction or edit.name, prompt=edit.prompt or edit.name)
    added = BoardStep(
        id=f"e{number}",
        step=words,
        planner=None,
        rounds=(number,),
        todo="render",
        edited=frozenset[EditedPart]({"words", "prompt"}),
    )
    return state.model_copy(update={"steps": (*state.steps[:place], added, *state.steps[place:])})


def _moved(state: StudioState, place: int, edit: edits.MoveEdit) -> StudioState:
    step = state.steps[place]
    if edit.before == edit.step:
        raise InputError("a step cannot stand before itself")
    others = state.with_step(place)
    to = len(others.steps) if edit.before is None else others.place(edit.before)
    return state.model_copy(update={"steps": (*others.steps[:to], step, *others.steps[to:])})


def _drawn(state: StudioState, place: int, edit: edits.DrawEdit, number: int) -> StudioState:
    step = state.steps[place]
    if edit.prompt is not None:
        words = step.step.model_copy(update={"prompt": edit.prompt})
        step = step.model_copy(update={"step": words, "edited": step.edited | {"prompt"}})
    if step.step.prompt is None:
        raise InputError(f"step {step.id} is in words alone: give it a prompt to draw it by")
    if state.started is None:  # what was left open stays so until somebody says to go on
        closed = tuple(s.model_copy(update={"todo": None, "variants_left": 0}) for s in state.steps)
        state = state.model_copy(update={"steps": closed})
    step = open_step(step, number)
    if edit.variants:
        step = step.model_copy(update={"todo": "variants", "variants_left": edit.variants})
        return state.with_step(place, step)
    state = state.with_step(place, step)
    if not edit.rest:
        return state
    rest = tuple(s if s.step.prompt is None else open_step(s, number) for s in state.steps[place + 1 :])
    return state.model_copy(update={"steps": (*state.steps[: place + 1], *rest)})


def _judged(step: BoardStep, edit: edits.JudgeEdit, source: str | None) -> BoardStep:
    _check_picture(step, edit.attempt)
    opinion = {
        "opinion": edit.accept,
        "opinion_name": step.step.name,
        "opinion_instruction": step.step.instruction,
        "opinion_source": source,
    }
    judged = step.attempts[edit.attempt].model_copy(update=opinion)
    attempts = (*step.attempts[: edit.attempt], judged, *step.attempts[edit.attempt + 1 :])
    chosen = edit.attempt if edit.accept else step.chosen
    return step.model_copy(update={"attempts": attempts, "chosen": chosen})


def _check_picture(step: BoardStep, attempt: int) -> None:
    if attempt >= len(step.attempts) or step.attempts[attempt].picture is None:
        raise InputError(f"step {step.id} has no attempt {attempt} with a picture")
    if step.attempts[attempt].result is None:
        raise InputError(f"attempt {attempt} of step {step.id} is not judged yet: wait for the Critic")


def _continued(state: StudioState, edit: edits.ContinueEdit, number: int) -> StudioState:
    if edit.done > len(state.steps):
        raise InputError(f"{edit.done} steps done, but the plan has {len(state.steps)}")
    done = [
        DoneStep(instruction=s.step.instruction, image=None if s.goal is None else stand_in(s.goal))
        for s in state.steps[: edit.done]
    ]
    scene = {"image": stand_in(edit.image), "done": (*state.task.done, *done)}
    task = state.task.model_copy(update=scene)
    return state.model_copy(update={"task": task, "steps": (), "failure": None, "plan_round": number})
