"""A storyboard under way as the record that the rest of goalreel reads, with its claims. Pure."""

from collections.abc import Callable, Mapping

from goalreel.boards.step import judged_by_person, status_of
from goalreel.boards.words import stand_in
from goalreel.claims import NOBODY, PERSON, ClaimName, Claims
from goalreel.datasets.corpora.trajectories import CorrectionKind, HumanVerdict
from goalreel.files import digest
from goalreel.image import GetImage, Image
from goalreel.loop import end_question
from goalreel.studio.state import BoardStep, DrawnAttempt, StudioState
from goalreel.terms import Role
from goalreel.types import Attempt, DoneStep, EndCheck, Storyboard, StoryboardStep, Task, Verdict

ACCEPTED_BY_PERSON = "A person accepted it."
REFUSED_BY_PERSON = "A person refused it."


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
    board, judged = Storyboard(task=task, steps=steps), state.end
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
    numbers = _judged(step)
    attempts = tuple(_attempt(state, place, step.attempts[n], get_image) for n in numbers)
    goal = _goal(step, numbers)
    chosen = None if goal is None else numbers.index(goal)
    status = status_of(step.step, attempts, chosen)
    recorded = StoryboardStep(step=step.step, attempts=attempts, status=status, chosen=chosen)
    claims = _claims(state, place, None if goal is None else step.attempts[goal], recorded.claims)
    return recorded.model_copy(update={"claims": claims})


def persons_verdicts(state: StudioState) -> Mapping[tuple[int, int], HumanVerdict]:
    """Collect what a person said of attempts, by (step, attempt) of the record."""
    verdicts: dict[tuple[int, int], HumanVerdict] = {}
    for place, step in enumerate(state.steps):
        for number, judged in enumerate(_judged(step)):
            opinion = state.opinion(place, step.attempts[judged])
            if opinion is not None:
                kind: CorrectionKind = "chosen" if opinion else "wrong_picture"
                verdicts[place, number] = HumanVerdict(success=opinion, correction=kind)
    return verdicts


def _judged(step: BoardStep) -> list[int]:
    """The attempts that the record has."""
    if step.step.prompt is None:
        return []
    return [number for number, attempt in enumerate(step.attempts) if attempt.result is not None]


def _goal(step: BoardStep, numbers: list[int]) -> int | None:
    """The attempt that is the goal image; while the step is drawn for the first time, the best so far."""
    if step.chosen is not None:
        return step.chosen if step.chosen in numbers else None
    pictured = [n for n in numbers if step.attempts[n].picture is not None]
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
