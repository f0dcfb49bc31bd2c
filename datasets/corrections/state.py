"""An episode under review: the record as a person has changed it. Pure."""

from typing import Literal, Self

from goalreel.boards.step import EditedBoard, EditedStep
from goalreel.boards.words import FRAME
from goalreel.datasets.corrections.events import BeginLog, Issue, Opinion
from goalreel.types import (
    Alignment,
    Attempt,
    MotionPhase,
    Segment,
    Step,
    StoryboardStep,
)

type ReviewPart = Literal["time", "words", "outcome", "goal"]


class ReviewStep(EditedStep[Attempt]):
    """A step as the person sees it; the `frame` of a picture is the record's reference."""

    segment: Segment | None
    alignment: Alignment | None = None
    edited: frozenset[ReviewPart] = frozenset()
    taken: frozenset[int] = frozenset()
    """The attempts that are frames which a person took."""
    issues: tuple[Issue, ...] = ()

    @property
    def doubts(self) -> tuple[str, ...]:
        """The reasons why its words may be untrue; none where a person wrote them."""
        return () if "words" in self.edited else self.step.doubts

    @property
    def goal(self) -> str | None:
        """Reference of its goal image."""
        image = None if self.chosen is None else self.attempts[self.chosen].image
        return image.frame if image else None

    @classmethod
    def of(cls, number: int, step: StoryboardStep) -> Self:
        """The step that a record has at this place."""
        return cls(
            id=str(number),
            step=step.step,
            segment=step.segment,
            attempts=step.attempts,
            chosen=step.chosen,
            alignment=step.alignment,
        )


class Review(EditedBoard[ReviewStep]):
    """An episode under review."""

    record: str
    recording: str | None
    length: int
    phases: tuple[MotionPhase, ...] = ()
    verdict: Opinion | None = None
    by: str | None = None
    """The person who gave the verdict."""
    issues: tuple[Issue, ...] = ()
    """Wrong with the whole episode."""
    corrected: bool = False
    """A person has changed more than their own opinion of it."""

    @staticmethod
    def of(base: BeginLog) -> "Review":
        """The record as nobody has changed it."""
        board = base.board
        return Review(
            record=base.record,
            recording=base.recording,
            length=base.length,
            task=board.task,
            steps=tuple(ReviewStep.of(i, step) for i, step in enumerate(board.steps)),
            failure=board.failure,
            phases=board.phases,
        )

    def with_instruction(self, text: str) -> "Review":
        """The same steps under another instruction; those that repeat it, and that nobody worded, follow."""
        old = self.task.instruction
        steps = tuple(
            step.model_copy(update={"step": _reworded(step.step, old, text)})
            if "words" not in step.edited
            else step
            for step in self.steps
        )
        task = self.task.model_copy(update={"instruction": text})
        return self.model_copy(update={"task": task, "steps": steps})

    @property
    def camera(self) -> str | None:
        """The camera whose frames become goal images; None where no frame of a recording is shown."""
        attempts = (attempt.image for step in self.steps for attempt in step.attempts)
        frames = (image.frame or "" for image in (self.task.image, *attempts) if image is not None)
        reference = next((frame for frame in frames if frame.startswith(FRAME)), None)
        return reference and reference.removeprefix(FRAME).rpartition("#")[0]


def _reworded(step: Step, old: str, new: str) -> Step:
    names = ("name", "instruction", "prompt", "auxiliary_text")
    return step.model_copy(update={name: new for name in names if getattr(step, name) == old})
