"""The interface of a published benchmark: samples, questions to a judge, scores."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, overload

import numpy as np

from goalreel.annotator.statistics import Measurement
from goalreel.chat.conversation import Conversation
from goalreel.chat.dialects.interleavethinker import string_constants
from goalreel.errors import InputError
from goalreel.files import read_file
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
    """Instruction to the Planner, with an `<image>` mark for each of `images`."""
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
    """Answer of the models to a sample: interleaved text and pictures."""

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
    """Settings of the paper's judge."""

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


@dataclass(frozen=True)
class Clone:
    """Folder of the repository, None where the user has not said, and its address."""

    folder: Path | None
    url: str

    def file(self, name: str) -> Path:
        """Find a file.

        Raises:
            InputError: there is no clone, or it has no such file.
        """
        if self.folder is None:
            raise InputError(
                f"the judge's prompts are in {self.url}: clone it, and give its folder with --clone DIR"
            )
        path = self.folder / name
        if not path.is_file():
            raise InputError(f"{self.folder}: no {name}: give a whole clone of {self.url} with --clone DIR")
        return path

    def text(self, name: str) -> str:
        """Read a text file.

        Raises:
            InputError: there is no clone, or it has no such file, or that is not text.
        """
        path = self.file(name)
        try:
            return read_file(path).decode()
        except (OSError, UnicodeDecodeError) as e:
            raise InputError(f"{path}: cannot be read as text ({e})") from e

    def constants(self, name: str) -> "Constants":
        """Read the texts that a Python file gives names to.

        Raises:
            InputError: there is no clone, or it has no such file, or that is no Python source.
        """
        path = self.file(name)
        return Constants(path, string_constants(path))


@dataclass(frozen=True)
class Constants:
    """Texts by the names that a Python file gives them."""

    path: Path
    texts: Mapping[str, str]

    def filled(self, name: str, **values: str) -> str:
        """Take one text, with `{key}` replaced by each value; other braces stay.

        Raises:
            InputError: the file has no such text.
        """
        if name not in self.texts:
            raise InputError(f"{self.path}: has no text of the name {name}: a newer or older version?")
        if not values:
            return self.texts[name]
        marks = re.compile(r"\{(" + "|".join(values) + r")\}")
        return marks.sub(lambda mark: values[mark[1]], self.texts[name])


class Unread[T](Sequence[T]):
    """Items made anew each time they are asked for: the pictures of a benchmark fit into no memory."""

    def __init__(self, makers: Sequence[Callable[[], T]]) -> None:
        self._makers = makers

    def __len__(self) -> int:
        return len(self._makers)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        """Make one item, or several when these are asked for."""
        if isinstance(index, slice):
            return Unread(self._makers[index])
        return self._makers[index]()


def find_picture(name: object, folders: tuple[Path, ...]) -> Path | None:
    """Find the file that a row names, in the first of `folders` that has it; it cannot lead out of them."""
    if not isinstance(name, str) or not name:
        return None
    inside = PurePosixPath(name)
    if inside.is_absolute() or ".." in inside.parts:
        return None
    return next((folder / inside for folder in folders if (folder / inside).is_file()), None)


def fitted(image: Image, side: int) -> Image:
    """Shrink to at most `side` pixels in width and height, with the aspect kept; never enlarge."""
    longest = max(image.size)
    if longest <= side:
        return image
    width, height = (max(1, n * side // longest) for n in image.size)
    return image.resized((width, height))


def jpeg(image: Image) -> bytes:
    """Encode as JPEG, of quality 95."""
    import PIL.Image

    buffer = io.BytesIO()
    PIL.Image.fromarray(image.pixels).save(buffer, format="JPEG", quality=95)
    return buffer.getvalue()
