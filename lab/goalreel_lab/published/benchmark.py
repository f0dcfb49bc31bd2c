"""The interface of a published benchmark: samples, questions to a judge, scores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from goalreel.annotator.statistics import Measurement
from goalreel.chat.conversation import Conversation
from goalreel.image import Image
from goalreel.types import DoneStep, Storyboard, Task

_PIXEL = Image(np.zeros((1, 1, 3), np.uint8))


@dataclass(frozen=True)
class Sample:
    """One row of a benchmark."""

    id: str
    """Unique in the benchmark, and fit for a file's name."""
    group: str
    """The column of the paper's table that it counts in."""
    instruction: str
    """What the Planner is asked, with an `<image>` mark for each of `images`."""
    images: Sequence[Image] = ()
    """May read them when they are asked for, as `done` may."""
    done: Sequence[DoneStep] = ()
    """The steps that the answer goes on after."""
    row: Mapping[str, Any] = field(default_factory=dict)
    """The row as published, for export and judging."""

    def task(self, seed: int) -> Task:
        """Make the task of a storyboard; the first step is edited from the last picture given, if any."""
        images, done = tuple(self.images), tuple(self.done)  # read once
        pictures = [*images, *(step.image for step in done if step.image is not None)]
        return Task(
            id=self.id,
            instruction=self.instruction,
            image=pictures[-1] if pictures else None,
            images=images,
            done=done,
            seed=seed,
        )


@dataclass(frozen=True)
class AnswerPart:
    """One step of an answer: its text (auxiliary text, else instruction) and its picture."""

    text: str
    image: Image | None


@dataclass(frozen=True)
class BenchAnswer:
    """What the models made of a sample: interleaved text and pictures."""

    parts: tuple[AnswerPart, ...]

    @classmethod
    def of(cls, board: Storyboard) -> "BenchAnswer":
        """Take the answer that a storyboard is; empty where there is no plan."""
        return cls(
            tuple(
                AnswerPart(step.step.auxiliary_text or step.step.instruction, step.goal_image)
                for step in board.steps
            )
        )

    def light(self) -> "BenchAnswer":
        """Replace every picture by one pixel: scores may count them, but all of them fill no memory."""
        return BenchAnswer(tuple(AnswerPart(p.text, _PIXEL if p.image else None) for p in self.parts))

    @property
    def text(self) -> str:
        """Join all texts, one a line."""
        return "\n".join(part.text for part in self.parts)

    @property
    def images(self) -> tuple[Image, ...]:
        """List all pictures, in order."""
        return tuple(part.image for part in self.parts if part.image is not None)


@dataclass(frozen=True)
class Inquiry:
    """One question to the judge. `read` makes the mark of a reply, of plain JSON, or None where it cannot."""

    name: str
    """Which mark it gives; unique within the sample."""
    conversation: Conversation
    read: Callable[[str], Any]


@dataclass(frozen=True)
class Marked:
    """A sample with its answer and the judge's marks; a mark is None where the judge gave none.

    The harness hands over answers that are `light()`.
    """

    sample: Sample
    answer: BenchAnswer
    marks: Mapping[str, Any]


@dataclass(frozen=True)
class JudgeFacts:
    """How the paper's judge was asked."""

    model: str
    temperature: float
    max_tokens: int
    official_prompts: bool = True
    """Asked in the benchmark's own words; False where they are ours."""


class Benchmark(Protocol):
    """One benchmark, as published."""

    @property
    def name(self) -> str: ...
    @property
    def judge(self) -> JudgeFacts: ...

    def samples(self, data: Path) -> list[Sample]:
        """Read the data that the user downloaded into `data`.

        Raises:
            goalreel.errors.InputError: it is not there, or not in the published shape; says where it is to be
                had and into which shape.
        """
        ...

    def export(self, answered: Sequence[tuple[Sample, BenchAnswer]], out: Path) -> None:
        """Write the answers in the form that the benchmark's own script judges."""
        ...

    def inquiries(self, sample: Sample, answer: BenchAnswer, marks: Mapping[str, Any]) -> list[Inquiry]:
        """Make the next questions to the judge, given the marks so far; none when all is asked.

        Raises:
            goalreel.errors.InputError: the judge's prompts are in a clone of the benchmark that is not there.
        """
        ...

    def scores(self, marked: Sequence[Marked]) -> dict[str, Measurement]:
        """Measures by the names that the paper's tables have for them (see `paper.yaml`).

        A sample that was not judged is left out of a mean, and counted as `unjudged`; it is never a zero.
        """
        ...
