"""From the lines of a log to the storyboard. Pure."""

from collections.abc import Callable, Sequence
from typing import assert_never

from goalreel.errors import InputError
from goalreel.studio import events
from goalreel.studio.changes import open_step, with_change
from goalreel.studio.edits import RedoEdit, UndoEdit
from goalreel.studio.state import BoardStep, DrawnAttempt, StudioState


class BoardReplay:
    """What the events of a log, which begins with a `Submitted`, come to."""

    def __init__(self, lines: Sequence[events.BoardEvent]) -> None:
        """Replay events.

        Raises:
            InputError, ValueError: they do not fit one another.
        """
        self.events = list(lines)
        self.done: list[int] = []
        """The numbers of the changes that stand."""
        self.undone: list[int] = []
        """The numbers of the changes that were taken back, and can be made again."""
        for event in self.events:
            self.done, self.undone = self._account(event)
        self.state = _fold(self.events, self.done)

    def add(self, event: events.BoardEvent, save: Callable[[], None]) -> None:
        """Add an event, and save it when it is known to fit.

        Raises:
            InputError: a change does not fit, or there is nothing to undo or redo.
            DatasetError: `save` could not.
        """
        done, undone = self._account(event)
        match event.what:
            case events.PersonsChange(edit=UndoEdit() | RedoEdit()):
                state = _fold([*self.events, event], done)
            case _:
                state = _after(self.state, event)
        save()
        self.events.append(event)
        self.state, self.done, self.undone = state, done, undone

    def _account(self, event: events.BoardEvent) -> tuple[list[int], list[int]]:
        """What stands, and what can be made again, after an event.

        Raises:
            InputError: there is nothing to undo or redo.
        """
        match event.what:
            case events.PersonsChange(edit=UndoEdit()):
                if not self.done:
                    raise InputError("there is nothing to undo")
                return self.done[:-1], [*self.undone, self.done[-1]]
            case events.PersonsChange(edit=RedoEdit()):
                if not self.undone:
                    raise InputError("there is nothing to redo")
                return [*self.done, self.undone[-1]], self.undone[:-1]
            case events.PersonsChange():
                return [*self.done, event.number], []
        return self.done, self.undone


def _fold(lines: Sequence[events.BoardEvent], done: Sequence[int]) -> StudioState:
    first = lines[0] if lines else None
    if first is None or not isinstance(first.what, events.Submitted):
        raise ValueError("the first line says nothing of a task")
    standing = set(done)
    state = _begin(first, first.what)
    for event in lines[1:]:
        is_change = isinstance(event.what, events.PersonsChange)
        if is_change and event.number not in standing:
            state = state.model_copy(update={"number": event.number, "updated": event.at})
        else:
            state = _after(state, event)
    return state


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


def _after(state: StudioState, event: events.BoardEvent) -> StudioState:
    """The storyboard after an event; one about a step or a plan that was taken back changes nothing."""
    changed = _changed(state, event)
    return changed.model_copy(update={"number": event.number, "updated": event.at})


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
            if isinstance(edit, UndoEdit | RedoEdit):
                return state
            return with_change(state, edit, event.number)
        case events.DrawnPicture() | events.AttemptEnded() | events.StepEnded():
            place = next((n for n, s in enumerate(state.steps) if s.id == what.step), None)
            if place is None or what.round not in state.steps[place].rounds:
                return state
            return state.with_step(place, _worked(state, state.steps[place], what))
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
            step = open_step(step, number)
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
            drawn = DrawnAttempt(
                round=what.round,
                number=what.attempt,
                prompt=what.prompt,
                seed=what.seed,
                source=what.source,
                raw=what.picture,
                name=what.name,
                instruction=what.instruction,
                models=state.models,
            )
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


def _ended(state: StudioState, step: BoardStep, ended: events.AttemptEnded) -> BoardStep:
    place = step.place(ended.round, ended.attempt)
    if place is None or step.attempts[place].source != ended.source:
        place = len(step.attempts)
        attempt = DrawnAttempt(
            round=ended.round,
            number=ended.attempt,
            prompt=ended.result.prompt,
            seed=ended.result.seed,
            source=ended.source,
            raw=None,
            name=ended.name,
            instruction=ended.instruction,
            models=state.models,
        )
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
