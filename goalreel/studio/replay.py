"""From the lines of a storyboard's log to the storyboard as it stands. Pure."""

from typing import Any, assert_never

from goalreel.boards.replay import Change, Rules
from goalreel.boards.words import stand_in
from goalreel.errors import InputError
from goalreel.studio import events
from goalreel.studio.state import Basis, BoardStep, DrawnAttempt, EditedPart, StudioState
from goalreel.types import DoneStep, Step

MAX_BOARD_STEPS = 200


def _begin(event: events.BoardEvent, submitted: events.Submitted) -> StudioState:
    return StudioState(
        number=event.number,
        created=event.at,
        updated=event.at,
        task=submitted.task,
        max_attempts=submitted.max_attempts,
        variants=submitted.variants,
        on_unverified=submitted.on_unverified,
        preset=submitted.preset,
        plan_round=event.number,
    )


def _after(state: StudioState | None, event: events.BoardEvent) -> StudioState:
    """Apply an event; one about a step or a plan that was taken back changes nothing."""
    if state is None:
        if not isinstance(event.what, events.Submitted):
            raise ValueError("the first line says nothing of a task")
        return _begin(event, event.what)
    return _skip(_changed(state, event), event)


def _skip(state: StudioState, event: events.BoardEvent) -> StudioState:
    return state.model_copy(update={"number": event.number, "updated": event.at})


def _person(event: events.BoardEvent) -> tuple[str, Change] | None:
    return (event.what.by, event.what.edit) if isinstance(event.what, events.PersonsChange) else None


def _changed(state: StudioState, event: events.BoardEvent) -> StudioState:
    what = event.what
    match what:
        case events.Submitted():
            raise ValueError("a storyboard is submitted once")
        case events.WorkBegun():
            start = {"status": "running", "started": event.at, "models": what.models, "trouble": ""}
            return _reopened(state.model_copy(update=start), event.number, what.reopen)
        case events.WorkEnded():
            until = state.updated if what.status == "interrupted" else event.at
            worked = (until - state.started).total_seconds() if state.started else 0.0
            ended = {"status": what.status, "started": None, "seconds": state.seconds + worked}
            ended["trouble"] = what.trouble
            return state.model_copy(update=ended)
        case events.PlanMade():
            return _planned(state, what, event.number) if what.round == state.plan_round else state
        case events.PlanFailed():
            return state.model_copy(update={"failure": what.failure}) if _waits(state, what) else state
        case events.PersonsChange(edit=edit):
            if isinstance(edit, events.UndoChange | events.RedoChange):
                return state
            return _with_change(state, edit, event.number)
        case events.DrawnPicture() | events.AttemptEnded() | events.StepEnded():
            place = next((n for n, s in enumerate(state.steps) if s.id == what.step), None)
            if place is None or what.round not in state.steps[place].rounds:
                return state
            return state.replaced(place, _worked(state, state.steps[place], what))
    assert_never(what)


def _waits(state: StudioState, failed: events.PlanFailed) -> bool:
    return failed.round == state.plan_round and not state.steps


def _planned(state: StudioState, plan: events.PlanMade, number: int) -> StudioState:
    steps = tuple(
        BoardStep(
            id=f"e{number}s{place}",
            step=step,
            planner=state.models.get("planner"),
            rounds=(number,),
            todo=None if step.prompt is None else "render",
        )
        for place, step in enumerate(plan.steps)
    )
    return state.model_copy(update={"steps": steps, "failure": None})


def _reopened(state: StudioState, number: int, reopen: bool) -> StudioState:
    if not reopen:
        return state
    if state.failure is not None:
        return state.model_copy(update={"failure": None, "plan_round": number})
    steps: list[BoardStep] = []
    is_behind = False  # of a step that is drawn anew, so that its own picture will be stale
    for place, step in enumerate(state.steps):
        drawn = step.step.prompt is not None and not step.todo
        if drawn and (step.goal is None or state.stale_goal(place) or is_behind):
            step = _open_step(step, number)
        is_behind = is_behind or step.todo is not None
        steps.append(step)
    return state.model_copy(update={"steps": tuple(steps)})


def _worked(
    state: StudioState,
    step: BoardStep,
    what: events.DrawnPicture | events.AttemptEnded | events.StepEnded,
) -> BoardStep:
    match what:
        case events.DrawnPicture():
            drawn = _attempt(state, what, what.prompt, what.seed, what.picture)
            return step.model_copy(update={"attempts": (*step.attempts, drawn)})
        case events.AttemptEnded():
            return _ended(state, step, what)
        case events.StepEnded():
            if what.round != step.round:
                return step
            # A goal image from before stays where the new round came to nothing.
            place = None if what.attempt is None else step.place(what.round, what.attempt)
            update: dict[str, object] = {"todo": None, "chosen": step.chosen if place is None else place}
            more = state.variants - sum(attempt.round == step.round for attempt in step.attempts)
            if more > 0 and place is not None:
                update |= {"todo": "variants", "variants_left": more}
            return step.model_copy(update=update)
    assert_never(what)


def _attempt(
    state: StudioState, of: events.AttemptEvent, prompt: str, seed: int, raw: str | None
) -> DrawnAttempt:
    return DrawnAttempt(
        round=of.round,
        number=of.attempt,
        prompt=prompt,
        seed=seed,
        basis=Basis(of.name, of.instruction, of.source),
        raw=raw,
        models=state.models,
    )


def _ended(state: StudioState, step: BoardStep, ended: events.AttemptEnded) -> BoardStep:
    place = step.place(ended.round, ended.attempt)
    if place is None or step.attempts[place].basis.source != ended.source:
        place = len(step.attempts)
        attempt = _attempt(state, ended, ended.result.prompt, ended.result.seed, None)
    else:
        attempt = step.attempts[place]
    attempt = attempt.model_copy(update={"result": ended.result, "models": state.models})
    attempts = (*step.attempts[:place], attempt, *step.attempts[place + 1 :])
    update: dict[str, object] = {"attempts": attempts}
    if step.todo == "variants" and ended.round == step.round:
        left = step.variants_left - 1
        update |= {"variants_left": left, "todo": "variants" if left > 0 else None}
        if step.chosen is None and ended.result.image is not None:
            update["chosen"] = place
    return step.model_copy(update=update)


def _with_change(state: StudioState, edit: events.StepChange, number: int) -> StudioState:
    """The storyboard with a change made to it by event `number`.

    Raises:
        InputError: the change does not fit the storyboard.
    """
    match edit:
        case events.AddEdit():
            return _added(state, edit, number)
        case events.ContinueEdit():
            return _continued(state, edit, number)
    place = state.place(edit.step)
    step = state.steps[place]
    match edit:
        case events.WordsEdit():
            return state.replaced(place, _worded(step, edit, number))
        case events.DeleteStep():
            if len(state.steps) == 1:
                raise InputError("it is the only step: change its words instead")
            return state.replaced(place)
        case events.MoveEdit():
            return _moved(state, place, edit)
        case events.DrawEdit():
            return _drawn(state, place, edit, number)
        case events.ChooseAttempt():
            _check_picture(step, edit.attempt)
            return state.replaced(place, step.model_copy(update={"chosen": edit.attempt}))
        case events.JudgeEdit():
            return state.replaced(place, _judged(step, edit, state.basis(place)))
    assert_never(edit)


def _open_step(step: BoardStep, number: int) -> BoardStep:
    """The step, to be drawn from the start because of event `number`."""
    return step.model_copy(update={"rounds": (*step.rounds, number), "todo": "render", "variants_left": 0})


def _worded(step: BoardStep, edit: events.WordsEdit, number: int) -> BoardStep:
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


def _added(state: StudioState, edit: events.AddEdit, number: int) -> StudioState:
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


def _moved(state: StudioState, place: int, edit: events.MoveEdit) -> StudioState:
    step = state.steps[place]
    if edit.before == edit.step:
        raise InputError("a step cannot stand before itself")
    others = state.replaced(place)
    to = len(others.steps) if edit.before is None else others.place(edit.before)
    return state.model_copy(update={"steps": (*others.steps[:to], step, *others.steps[to:])})


def _drawn(state: StudioState, place: int, edit: events.DrawEdit, number: int) -> StudioState:
    step = state.steps[place]
    if edit.prompt is not None:
        words = step.step.model_copy(update={"prompt": edit.prompt})
        step = step.model_copy(update={"step": words, "edited": step.edited | {"prompt"}})
    if step.step.prompt is None:
        raise InputError(f"step {step.id} is in words alone: give it a prompt to draw it by")
    if state.started is None:  # what was left open stays so until somebody says to go on
        closed = tuple(s.model_copy(update={"todo": None, "variants_left": 0}) for s in state.steps)
        state = state.model_copy(update={"steps": closed})
    step = _open_step(step, number)
    if edit.variants:
        step = step.model_copy(update={"todo": "variants", "variants_left": edit.variants})
        return state.replaced(place, step)
    state = state.replaced(place, step)
    if not edit.rest:
        return state
    rest = tuple(s if s.step.prompt is None else _open_step(s, number) for s in state.steps[place + 1 :])
    return state.model_copy(update={"steps": (*state.steps[: place + 1], *rest)})


def _judged(step: BoardStep, edit: events.JudgeEdit, basis: Basis) -> BoardStep:
    _check_picture(step, edit.attempt)
    opinion = {"opinion": edit.accept, "opinion_basis": basis}
    judged = step.attempts[edit.attempt].model_copy(update=opinion)
    attempts = (*step.attempts[: edit.attempt], judged, *step.attempts[edit.attempt + 1 :])
    chosen = edit.attempt if edit.accept else step.chosen
    return step.model_copy(update={"attempts": attempts, "chosen": chosen})


def _check_picture(step: BoardStep, attempt: int) -> None:
    if attempt >= len(step.attempts) or step.attempts[attempt].picture is None:
        raise InputError(f"step {step.id} has no attempt {attempt} with a picture")
    if step.attempts[attempt].result is None:
        raise InputError(f"attempt {attempt} of step {step.id} is not judged yet: wait for the Critic")


def _continued(state: StudioState, edit: events.ContinueEdit, number: int) -> StudioState:
    if edit.done > len(state.steps):
        raise InputError(f"{edit.done} steps done, but the plan has {len(state.steps)}")
    done = [
        DoneStep(instruction=s.step.instruction, image=None if s.goal is None else stand_in(s.goal))
        for s in state.steps[: edit.done]
    ]
    scene = {"image": stand_in(edit.image), "done": (*state.task.done, *done)}
    task = state.task.model_copy(update=scene)
    return state.model_copy(update={"task": task, "steps": (), "failure": None, "plan_round": number})


RULES: Rules[events.BoardEvent, StudioState] = Rules(_person, _after, _skip)
"""Rules by which the lines of a storyboard's log come to its state."""
