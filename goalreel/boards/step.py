"""A storyboard and its steps as people edit them, and the changes that they make on every page. Pure."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints

from goalreel.errors import InputError
from goalreel.settings import Frozen
from goalreel.terms import check_controls
from goalreel.types import Attempt, Failure, Status, Step, Task, Verdict


def one_line(text: str) -> str:
    """Replace line breaks, tabs and other white space of a person's words by single spaces.

    >>> one_line(" grasp\\nthe  cup ")
    'grasp the cup'

    Raises:
        ValueError: nothing is left, or the text holds another control character.
    """
    line = " ".join(text.split())
    if not line:
        raise ValueError("a text holds nothing but white space")
    return check_controls(line)


type StepId = Annotated[str, Field(pattern=r"^[a-z0-9]{1,16}$")]
type Words = Annotated[str, Field(min_length=1, max_length=2000, pattern=r"\S")]
type Phrase = Annotated[Words, AfterValidator(one_line)]
type Who = Annotated[str, StringConstraints(min_length=1, max_length=80), AfterValidator(one_line)]


WORDS_CHANGED = "The words were changed after this picture was made."


class DeleteStep(Frozen):
    """Remove a step."""

    kind: Literal["delete"] = "delete"
    step: StepId


class ChooseAttempt(Frozen):
    """Take an attempt's picture as the goal image; it stays as accepted as the Critic left it."""

    kind: Literal["choose"] = "choose"
    step: StepId
    attempt: Annotated[int, Field(ge=0, lt=2**31)]


class _Turn(Frozen):
    of: Annotated[int | None, Field(ge=1, lt=2**31, exclude_if=lambda of: of is None)] = None
    """The number of the change; None: whichever it is."""


class UndoChange(_Turn):
    """Take back one's own last change that stands."""

    kind: Literal["undo"] = "undo"


class RedoChange(_Turn):
    """Make one's own change again that was taken back last."""

    kind: Literal["redo"] = "redo"


class Edited(Frozen):
    """A thing that people edit: each change makes another one."""

    def updated(self, **fields: object) -> Self:
        """Set fields."""
        return self.model_copy(update=fields)


class EditedStep[A](Edited):
    """A step whose attempts are of the type `A`. Its pictures are stand-ins that name the stored ones."""

    id: str
    """No change of another step touches it."""
    step: Step
    attempts: tuple[A, ...] = ()
    chosen: int | None = None
    """The attempt whose picture is the goal image."""
    edited: frozenset[str] = frozenset()
    """The parts that a person has set."""

    def worded(self, **words: object) -> Self:
        """Set fields of its words."""
        return self.updated(step=self.step.model_copy(update=words))


class EditedBoard[S: EditedStep](Edited):
    """A storyboard whose steps are of the type `S`."""

    task: Task
    steps: tuple[S, ...] = ()
    failure: Failure | None = None

    def find(self, step: str) -> int | None:
        """Find the place of the step with an id."""
        return next((place for place, candidate in enumerate(self.steps) if candidate.id == step), None)

    def place(self, step: str) -> int:
        """Find the place of the step with an id.

        Raises:
            InputError: there is no such step.
        """
        place = self.find(step)
        if place is None:
            raise InputError(f"there is no step {step}: look at the storyboard as it is now")
        return place

    def replaced(self, place: int, *steps: S) -> Self:
        """Put other steps in a step's place."""
        return self.updated(steps=(*self.steps[:place], *steps, *self.steps[place + 1 :]))


def judged_by_person(attempt: Attempt, success: bool, reasoning: str) -> Attempt:
    """Put a person's word over the Critic's, where the two differ.

    Rules that only looked at pixels do not stand in for a person who compared picture and words.
    """
    verdict = attempt.verdict
    if verdict is not None and verdict.success == success and not (success and verdict.pictures_only):
        return attempt
    verdict = Verdict(success=success, reasoning=reasoning)
    return attempt.model_copy(update={"verdict": verdict, "failure": None})


def status_of(step: Step, attempts: tuple[Attempt, ...], chosen: int | None) -> Status:
    """Status of a step in the record; one that is not drawn yet is `skipped`."""
    if chosen is not None:
        return attempts[chosen].status
    if attempts:
        return "failed"
    return "text" if step.prompt is None else "skipped"
