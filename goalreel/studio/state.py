"""A storyboard under way as the lines of its log leave it, what each line makes of it, and its record. Pure.

The record is what the rest of goalreel reads, with its claims.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple, Self, assert_never

from goalreel.boards.step import (
    WORDS_CHANGED,
    ChooseAttempt,
    DeleteStep,
    Edited,
    EditedBoard,
    EditedStep,
    RedoChange,
    UndoChange,
    judged_by_person,
    status_of,
)
from goalreel.chat.conversation import MARK
from goalreel.claims import NOBODY, PERSON, ClaimName, Claims
from goalreel.errors import InputError
from goalreel.files import digest
from goalreel.image import GetImage, Image, stand_in
from goalreel.loop import end_question
from goalreel.planners.kinematic.naming import unmentioned
from goalreel.planners.rows import labelled_step, one_wording
from goalreel.studio import events
from goalreel.terms import OnRejected, Role
from goalreel.types import Attempt, DoneStep, EndCheck, Failure, Storyboard, StoryboardStep, Task, Verdict

type EditedPart = Literal["words", "prompt"]
SOURCE_CHANGED = "The picture that this one was drawn from is another one now."
ACCEPTED_BY_PERSON = "A person accepted it."
REFUSED_BY_PERSON = "A person refused it."
MAX_BOARD_STEPS = 200


class Basis(NamedTuple):
    """The words of a step and the picture before it, for which a picture is drawn or judged."""

    name: str
    instruction: str
    source: str | None
    """The name of the picture."""


class DrawnAttempt(Edited):
    """A picture of a step, or the attempt at one."""

    round: int
    """The number of the event that asked for it."""
    number: int
    """Within the round."""
    prompt: str
    seed: int
    basis: Basis
    """The words and the picture that it was drawn for."""
    raw: str | None
    """The picture as the Editor gave it."""
    models: Mapping[Role, str]
    """The models that drew and judged it."""
    result: Attempt | None = None
    """None while nobody has judged it."""
    opinion: bool | None = None
    """A person accepts, or refuses, it."""
    opinion_basis: Basis | None = None
    """The words and the picture that the person judged it for."""

    @property
    def picture(self) -> str | None:
        """The name of its picture."""
        if self.result is None:
            return self.raw
        return None if self.result.image is None else self.result.image.frame


class BoardStep(EditedStep[DrawnAttempt]):
    """A step of a storyboard under way."""

    planner: str | None
    """The model that wrote its words; None for a person."""
    rounds: tuple[int, ...]
    """The events that asked for pictures of it, the last one counts."""
    todo: bool = False
    """Its pictures are still to be drawn."""
    edited: frozenset[EditedPart] = frozenset()

    @property
    def round(self) -> int:
        """The event that asked for its pictures last."""
        return self.rounds[-1]

    @property
    def goal(self) -> str | None:
        """The name of its goal image."""
        return None if self.chosen is None or self.step.prompt is None else self.attempts[self.chosen].picture

    def place(self, round_number: int, attempt: int) -> int | None:
        """Find an attempt of a round among all attempts; the last one, if it was drawn anew."""
        places = [n for n, a in enumerate(self.attempts) if (a.round, a.number) == (round_number, attempt)]
        return places[-1] if places else None

    def opened(self, number: int) -> Self:
        """Have it drawn from the start, because of event `number`."""
        return self.updated(rounds=(*self.rounds, number), todo=True)

    def with_attempt(self, place: int, attempt: DrawnAttempt) -> Self:
        """Put an attempt in a place, or behind all."""
        return self.updated(attempts=(*self.attempts[:place], attempt, *self.attempts[place + 1 :]))

    def judged_picture(self, number: int) -> DrawnAttempt:
        """Find an attempt with a picture that was judged.

        Raises:
            InputError: there is none.
        """
        if number >= len(self.attempts) or self.attempts[number].picture is None:
            raise InputError(f"step {self.id} has no attempt {number} with a picture")
        if self.attempts[number].result is None:
            raise InputError(f"attempt {number} of step {self.id} is not judged yet: wait for the Critic")
        return self.attempts[number]


class StudioState(EditedBoard[BoardStep]):
    """A storyboard under way."""

    created: datetime
    max_attempts: int
    on_rejected: OnRejected
    plan_round: int
    """The event that asked for the plan."""
    status: events.BoardStatus = "running"
    models: Mapping[Role, str] = {}
    """The models of the last work."""
    end: events.EndJudged | None = None
    """The last answer about the whole task."""
    trouble: str = ""
    """The cause of the last end besides the models, in one line; empty: there is none."""

    @property
    def image(self) -> str | None:
        """The name of the scene's picture."""
        return None if self.task.image is None else self.task.image.frame

    @property
    def needs_plan(self) -> bool:
        """The Planner is still to be asked."""
        return not self.steps and self.failure is None

    def source(self, place: int) -> str | None:
        """The name of the picture that a step is drawn from."""
        goals = (step.goal for step in reversed(self.steps[:place]))
        return next((goal for goal in goals if goal is not None), self.image)

    def basis(self, place: int) -> Basis:
        """Its words and the picture before it, as they are now."""
        words = self.steps[place].step
        return Basis(words.name, words.instruction, self.source(place))

    def opinion(self, place: int, attempt: DrawnAttempt) -> bool | None:
        """A person's opinion of an attempt, for the words and the picture before it as they are now."""
        return attempt.opinion if attempt.opinion_basis == self.basis(place) else None

    def stale(self, place: int, attempt: DrawnAttempt) -> tuple[str, ...]:
        """List why an attempt is not of the words, or the picture before it, as they are now."""
        if self.opinion(place, attempt):
            return ()
        now = self.basis(place)
        words = () if attempt.basis[:2] == now[:2] else (WORDS_CHANGED,)
        return words if attempt.basis.source == now.source else (*words, SOURCE_CHANGED)

    def stale_goal(self, place: int) -> tuple[str, ...]:
        """List why the goal image of a step is stale; empty where it is not."""
        step = self.steps[place]
        if step.goal is None or step.chosen is None:
            return ()
        return self.stale(place, step.attempts[step.chosen])

    def next_open(self) -> int | None:
        """The first step that is still to be drawn."""
        return next((n for n, s in enumerate(self.steps) if s.todo and s.step.prompt is not None), None)


def after(state: StudioState | None, event: events.BoardEvent) -> StudioState:
    """Apply a line of a log; one about a step or a plan that is gone changes nothing.

    Raises:
        InputError: the change does not fit the storyboard.
        ValueError: the first line, and no other, says what is to be made.
    """
    what, number = event.what, event.number
    if isinstance(what, events.Submitted) != (state is None):
        raise ValueError("the first line, and no other, says what is to be made")
    if isinstance(what, events.Submitted):
        fields = {name: getattr(what, name) for name in ("task", "max_attempts", "on_rejected")}
        return StudioState(created=event.at, plan_round=number, **fields)
    assert state is not None
    match what:
        case events.WorkBegun():
            state = state.updated(status="running", models=what.models, trouble="")
            return _reopened(state, number) if what.reopen else state
        case events.WorkEnded():
            return state.updated(status=what.status, trouble=what.trouble)
        case events.PlanMade():
            return _planned(state, what, number) if what.round == state.plan_round else state
        case events.PlanFailed():
            waits = what.round == state.plan_round and not state.steps
            return state.updated(failure=what.failure) if waits else state
        case events.EndJudged():
            return state.updated(end=what)
        case events.PersonsChange(edit=edit):
            return _with_change(state, edit, number)
        case events.DrawnPicture() | events.AttemptEnded() | events.StepEnded():
            place = state.find(what.step)
            if place is None or what.round not in state.steps[place].rounds:
                return state
            return state.replaced(place, _worked(state, state.steps[place], what))
    assert_never(what)


def _planned(state: StudioState, plan: events.PlanMade, number: int) -> StudioState:
    steps = tuple(
        BoardStep(
            id=f"e{number}s{place}",
            step=step,
            planner=state.models.get("planner"),
            rounds=(number,),
            todo=step.prompt is not None,
        )
        for place, step in enumerate(plan.steps)
    )
    return state.updated(steps=steps, failure=None)


def _reopened(state: StudioState, number: int) -> StudioState:
    """Have what failed or is stale made again."""
    if state.end is not None and isinstance(state.end.answer, Failure):
        state = state.updated(end=None)
    if state.failure is not None:
        return state.updated(failure=None, plan_round=number)
    steps: list[BoardStep] = []
    is_behind = False  # of a step that is drawn anew, so that its own picture will be stale
    for place, step in enumerate(state.steps):
        drawn = step.step.prompt is not None and not step.todo
        if drawn and (step.goal is None or state.stale_goal(place) or is_behind):
            step = step.opened(number)
        is_behind = is_behind or step.todo
        steps.append(step)
    return state.updated(steps=tuple(steps))


def _worked(
    state: StudioState,
    step: BoardStep,
    what: events.DrawnPicture | events.AttemptEnded | events.StepEnded,
) -> BoardStep:
    if isinstance(what, events.StepEnded):
        if what.round != step.round:
            return step
        # A goal image from before stays where the new round came to nothing.
        place = None if what.attempt is None else step.place(what.round, what.attempt)
        return step.updated(todo=False, chosen=step.chosen if place is None else place)
    place = None
    if isinstance(what, events.DrawnPicture):
        told, raw, result = what, what.picture, None
    else:
        told, raw, result = what.result, None, what.result
        place = step.place(what.round, what.attempt)
    if place is not None and step.attempts[place].basis.source == what.source:
        return step.with_attempt(place, step.attempts[place].updated(result=result, models=state.models))
    attempt = DrawnAttempt(
        round=what.round,
        number=what.attempt,
        prompt=told.prompt,
        seed=told.seed,
        basis=Basis(what.name, what.instruction, what.source),
        raw=raw,
        models=state.models,
        result=result,
    )
    return step.with_attempt(len(step.attempts), attempt)


def _with_change(state: StudioState, edit: events.BoardEdit, number: int) -> StudioState:
    """The storyboard with a change made to it by event `number`."""
    match edit:
        case UndoChange() | RedoChange():
            return state
        case events.AddEdit():
            return _added(state, edit, number)
        case events.ContinueEdit():
            return _continued(state, edit, number)
        case events.TaskEdit(instruction=instruction):
            if instruction.count(MARK) != len(state.task.images):
                raise InputError(f"the instruction needs {len(state.task.images)} marks {MARK}, as before")
            again = {} if state.steps else {"failure": None, "plan_round": number}
            task = state.task.model_copy(update={"instruction": instruction})
            return state.updated(task=task, **again)
    place = state.place(edit.step)
    step = state.steps[place]
    match edit:
        case events.WordsEdit():
            return state.replaced(place, _worded(step, edit, number))
        case DeleteStep():
            if len(state.steps) == 1:
                raise InputError("it is the only step: change its words instead")
            return state.replaced(place)
        case events.MoveEdit(before=before):
            if before == edit.step:
                raise InputError("a step cannot stand before itself")
            return _inserted(state.replaced(place), before, step)
        case events.DrawEdit():
            return _drawn(state, place, edit, number)
        case ChooseAttempt(attempt=attempt):
            step.judged_picture(attempt)
            return state.replaced(place, step.updated(chosen=attempt))
        case events.JudgeEdit(attempt=attempt, accept=accept):
            judged = step.judged_picture(attempt).updated(opinion=accept, opinion_basis=state.basis(place))
            step = step.with_attempt(attempt, judged)
            return state.replaced(place, step.updated(chosen=attempt) if accept else step)
    assert_never(edit)


def _inserted(state: StudioState, before: str | None, step: BoardStep) -> StudioState:
    place = len(state.steps) if before is None else state.place(before)
    return state.updated(steps=(*state.steps[:place], step, *state.steps[place:]))


def _worded(step: BoardStep, edit: events.WordsEdit, number: int) -> BoardStep:
    texts: dict[str, Any] = edit.model_dump(exclude={"kind", "step"}, exclude_none=True)
    if not texts:
        raise InputError("the change has no words")
    parts: set[EditedPart] = {"prompt"} if "prompt" in texts else set()
    if texts.keys() - {"prompt"}:
        parts.add("words")
        texts = one_wording(step.step, texts, keep_prompt="prompt" in step.edited)
        step = step.worded(doubts=()).updated(planner=None)
    if step.todo:  # what is being drawn is of other words
        step = step.updated(rounds=(*step.rounds, number))
    return step.worded(**texts).updated(edited=step.edited | parts)


def _added(state: StudioState, edit: events.AddEdit, number: int) -> StudioState:
    if not state.steps:
        raise InputError("there is no plan yet to add a step to")
    if len(state.steps) >= MAX_BOARD_STEPS:
        raise InputError(f"a storyboard has at most {MAX_BOARD_STEPS} steps")
    given = edit.model_dump(include={"name", "instruction", "prompt"}, exclude_none=True)
    words = labelled_step(edit.name).model_copy(update=given)
    edited: frozenset[EditedPart] = frozenset({"words", "prompt"})
    added = BoardStep(id=f"e{number}", step=words, planner=None, rounds=(number,), todo=True, edited=edited)
    return _inserted(state, edit.before, added)


def _drawn(state: StudioState, place: int, edit: events.DrawEdit, number: int) -> StudioState:
    step = state.steps[place]
    if edit.prompt is not None:
        step = step.worded(prompt=edit.prompt).updated(edited=step.edited | {"prompt"})
    if step.step.prompt is None:
        raise InputError(f"step {step.id} is in words alone: give it a prompt to draw it by")
    others = state.steps
    if state.status != "running":  # what was left open stays so until somebody says to go on
        others = tuple(s.updated(todo=False) for s in others)
    rest = others[place + 1 :]
    if edit.rest:
        rest = tuple(s if s.step.prompt is None else s.opened(number) for s in rest)
    return state.updated(steps=(*others[:place], step.opened(number), *rest))


def _continued(state: StudioState, edit: events.ContinueEdit, number: int) -> StudioState:
    if edit.done > len(state.steps):
        raise InputError(f"{edit.done} steps done, but the plan has {len(state.steps)}")
    done = [
        DoneStep(instruction=s.step.instruction, image=None if s.goal is None else stand_in(s.goal))
        for s in state.steps[: edit.done]
    ]
    scene = {"image": stand_in(edit.image), "done": (*state.task.done, *done)}
    task = state.task.model_copy(update=scene)
    return state.updated(task=task, steps=(), failure=None, plan_round=number)


def with_pictures(task: Task, change: Callable[[Image], Image]) -> Task:
    """Put another picture in the place of each of a task's."""

    def changed(image: Image | None) -> Image | None:
        return None if image is None else change(image)

    done = tuple(DoneStep(instruction=d.instruction, image=changed(d.image)) for d in task.done)
    images = tuple(change(image) for image in task.images)
    return task.model_copy(update={"image": changed(task.image), "images": images, "done": done})


def storyboard_of(state: StudioState, get_image: GetImage = stand_in) -> Storyboard | None:
    """The record, its pictures by `get_image` of their names; None where there is neither plan nor failure.

    A picture that is stale is not accepted, whatever the Critic said of it. A person's word counts more than
    the Critic's, for the words and the picture before that it was said of. So with the end of the whole task.
    """
    if state.needs_plan:
        return None
    task = with_pictures(state.task, lambda image: get_image(image.frame or ""))
    if not state.steps:
        return Storyboard(task=task, failure=state.failure)
    steps = tuple(recorded_step(state, place, get_image) for place in range(len(state.steps)))
    missing = unmentioned(task.instruction, [step.step for step in state.steps], task.done)
    board, judged = Storyboard(task=task, steps=steps, missing=missing), state.end
    if judged is None or judged.answer is None or judged.key != end_key(state):
        return board
    return board.model_copy(update={"end": EndCheck(answer=judged.answer, by=judged.by)})


def end_key(state: StudioState) -> str | None:
    """Stand for the question about the whole task; None where it is not to be asked yet."""
    steps = [recorded_step(state, place) for place in range(len(state.steps))]
    question = end_question(state.task, steps)
    if question is None:
        return None
    return digest(question.instruction, question.image.frame or "", state.image or "")


def recorded_step(state: StudioState, place: int, get_image: GetImage = stand_in) -> StoryboardStep:
    """One step of the record."""
    step = state.steps[place]
    judged = [] if step.step.prompt is None else [n for n, a in enumerate(step.attempts) if a.result]
    attempts = tuple(_attempt(state, place, step.attempts[n], get_image) for n in judged)
    goal = _goal(step, judged)
    chosen = None if goal is None else judged.index(goal)
    status = status_of(step.step, attempts, chosen)
    recorded = StoryboardStep(step=step.step, attempts=attempts, status=status, chosen=chosen)
    claims = _claims(state, place, None if goal is None else step.attempts[goal], recorded.claims)
    return recorded.model_copy(update={"claims": claims})


def _goal(step: BoardStep, judged: list[int]) -> int | None:
    """The attempt that is the goal image; while the step is drawn for the first time, the best so far."""
    if step.chosen is not None:
        return step.chosen if step.chosen in judged else None
    pictured = [n for n in judged if step.attempts[n].picture is not None]
    accepted = [n for n in pictured if (result := step.attempts[n].result) is not None and result.accepted]
    return next(iter(accepted), pictured[-1] if pictured else None)


def _attempt(state: StudioState, place: int, drawn: DrawnAttempt, get_image: GetImage) -> Attempt:
    """Make the record's attempt, with a person's word over the Critic's."""
    attempt = drawn.result
    assert attempt is not None
    if attempt.image is None:
        return attempt
    attempt = attempt.model_copy(update={"image": get_image(attempt.image.frame or "")})
    opinion = state.opinion(place, drawn)
    if opinion is not None:
        return judged_by_person(attempt, opinion, ACCEPTED_BY_PERSON if opinion else REFUSED_BY_PERSON)
    if stale := state.stale(place, drawn):
        verdict = Verdict(success=False, reasoning=" ".join(stale), pictures_only=True)
        return attempt.model_copy(update={"verdict": verdict, "failure": None})
    return attempt


def _claims(state: StudioState, place: int, goal: DrawnAttempt | None, claims: Claims) -> Claims:
    """The claims, with the names of who made and who checked them."""
    step = state.steps[place]
    names: dict[Role, str] = {} if goal is None else {**goal.models}
    if step.planner is not None:
        names["planner"] = step.planner
    opinion = None if goal is None else state.opinion(place, goal)
    if opinion is not None:
        names["critic"] = PERSON
    claims = claims.named(names)
    looks = claims.looks
    if goal is not None and looks is not None and opinion is None and state.stale(place, goal):
        claims = claims.model_copy(update={"looks": looks.model_copy(update={"checked": NOBODY})})
    if looks is not None and opinion is False:
        refused = looks.model_copy(update={"checked": PERSON, "doubts": (REFUSED_BY_PERSON,)})
        claims = claims.model_copy(update={"looks": refused})
    new_claims: set[ClaimName] = {"what"} if step.planner is None else set()
    return claims.by_person(new_claims, {"looks"} if opinion else set())
