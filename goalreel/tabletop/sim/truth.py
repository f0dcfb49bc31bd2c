"""The ground truth that travels with a recording, in `meta/tabletop.json`."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from goalreel.errors import DatasetError, first_line
from goalreel.tabletop.sim.predicates import GoalKind

FILE = Path("meta/tabletop.json")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TrueSegment(_Frozen):
    """A sub-goal with its frames [start, end), counted within the episode, and whether it held at the end of
    them. `mission` counts the instruction's clauses: one clause ("sort the blocks") may have several
    sub-goals."""

    kind: GoalKind
    object: str
    target: str
    text: str
    start: Annotated[int, Field(ge=0)]
    end: int
    success: bool
    mission: int


class TrueEpisode(_Frozen):
    """`success`: at the episode's end every sub-goal holds. `missions`: kind of every clause."""

    seed: int
    split: str
    instruction: str
    missions: tuple[str, ...]
    segments: tuple[TrueSegment, ...]
    success: bool


class Truth(_Frozen):
    """Episode i of the dataset is `episodes[i]`; frame column `phase` indexes `phases`."""

    phases: tuple[str, ...]
    episodes: tuple[TrueEpisode, ...]


def read_truth(root: Path) -> Truth:
    """Read the ground truth of the recording at `root`.

    Raises:
        FileNotFoundError: the dataset is no tabletop recording.
        DatasetError: the file is damaged.
    """
    path = root / FILE
    if not path.exists():
        raise FileNotFoundError(f"{root} has no {FILE}: it was not written by `goalreel tabletop record`")
    try:
        return Truth.model_validate_json(path.read_bytes())
    except ValidationError as e:
        raise DatasetError(f"{path}: damaged ({first_line(e)}): record the dataset again") from e


def write_truth(root: Path, truth: Truth) -> None:
    (root / FILE).write_text(truth.model_dump_json(indent=1) + "\n")
