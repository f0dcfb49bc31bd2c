"""A storyboard and its steps as people edit them: the one model under all pages. Pure."""

from typing import Self

from goalreel.errors import InputError
from goalreel.settings import Frozen
from goalreel.types import Attempt, Failure, Status, Step, Task, Verdict


class EditedStep[A](Frozen):
    """A step whose attempts are of the type `A`. Its pictures are stand-ins that name the stored ones."""

    id: str
    """No change of another step touches it."""
    step: Step
    attempts: tuple[A, ...] = ()
    chosen: int | None = None
    """The attempt whose picture is the goal image."""
    edited: frozenset[str] = frozenset()
    """The parts that a person has set."""


class EditedBoard[S: EditedStep](Frozen):
    """A storyboard whose steps are of the type `S`."""

    task: Task
    steps: tuple[S, ...] = ()
    failure: Failure | None = None

    def place(self, step: str) -> int:
        """Find the place of the step with an id.

        Raises:
            InputError: there is no such step.
        """
        for number, candidate in enumerate(self.steps):
            if candidate.id == step:
                return number
        raise InputError(f"there is no step {step}: look at the storyboard as it is now")

    def replaced(self, number: int, *steps: S) -> Self:
        """Put other steps in a step's place."""
        return self.model_copy(update={"steps": (*self.steps[:number], *steps, *self.steps[number + 1 :])})


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
