"""The ground truth that travels with a recording, in `meta/tabletop.json`, and the ids of its tasks."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from goalreel.errors import DatasetError, InputError, first_line
from goalreel.files import read_file
from goalreel.settings import Frozen
from goalreel.tabletop import scene, splits

FILE = Path("meta/tabletop.json")
_TASK = re.compile(r"tabletop-([0-9]+)(-[a-z]+-[a-z]+)?")
"""Ids of tasks: a seed, and in the laboratory a look and a camera."""


class TrueSegment(Frozen):
    """A sub-goal with its frames [start, end) of the episode, and whether it held at their end.

    `mission` counts the instruction's clauses: one ("sort the blocks") may have several sub-goals.
    """

    kind: scene.GoalKind
    object: str
    target: str
    text: str
    start: Annotated[int, Field(ge=0)]
    end: int
    success: bool
    mission: int


class TrueEpisode(Frozen):
    """`success`: at the episode's end every sub-goal holds. `missions`: kind of every clause."""

    seed: int
    split: str
    instruction: str
    missions: tuple[str, ...]
    segments: tuple[TrueSegment, ...]
    success: bool


class Truth(Frozen):
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
        return Truth.model_validate_json(read_file(path))
    except ValidationError as e:
        raise DatasetError(f"{path}: damaged ({first_line(e)}): record the dataset again") from e


def write_truth(root: Path, truth: Truth) -> None:
    (root / FILE).write_text(truth.model_dump_json(indent=1) + "\n")


def held_out_split(task_id: str) -> splits.Split | None:
    """Find the split of a held-out tabletop task; None for a training task and for every other task."""
    task = _TASK.fullmatch(task_id)
    try:
        split = splits.split_of(int(task[1])) if task else None
    except InputError:
        return None
    return None if split == "train" else split


def recording_task_ids(root: Path) -> dict[int, str]:
    """Map episode numbers to task ids for a recording of the tabletop; empty for any other dataset."""
    if not (root / FILE).is_file():
        return {}
    return {number: f"tabletop-{episode.seed}" for number, episode in enumerate(read_truth(root).episodes)}
