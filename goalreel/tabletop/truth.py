"""The ground truth that travels with a recording, in `meta/tabletop.json`, and the ids of its tasks."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from goalreel.errors import DatasetError, InputError, first_line
from goalreel.files import read_file
from goalreel.settings import Frozen
from goalreel.tabletop.mjcf import FIXED
from goalreel.tabletop.scene import GoalKind
from goalreel.tabletop.splits import Split, split_of

FILE = Path("meta/tabletop.json")

type Style = Literal["plain", "varied", "unseen"]
"""`plain`: one shade a colour, white light. `varied`: what training shows beside it. `unseen`: what no
training shows."""


@dataclass(frozen=True)
class View:
    """View of an episode: its colours and light, and the fixed camera."""

    look: Style = "plain"
    camera: str = "front"


PLAIN = View()


class TrueSegment(Frozen):
    """A sub-goal with its frames [start, end) of the episode, and whether it held at their end.

    `mission` counts the instruction's clauses: one ("sort the blocks") may have several sub-goals.
    """

    kind: GoalKind
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


def task_id_of(seed: int, view: View = PLAIN) -> str:
    """Make the id of a tabletop task: `tabletop-SEED`, with `-LOOK-CAMERA` unless the view is plain."""
    return f"tabletop-{seed}" if view == PLAIN else f"tabletop-{seed}-{view.look}-{view.camera}"


def task_of(task_id: str) -> tuple[int, View]:
    """Read seed and view from the id of a tabletop task; raise an InputError if it is of another form."""
    name, *parts = task_id.split("-")
    if name != "tabletop" or len(parts) not in (1, 3) or not parts[0].isdecimal():
        raise InputError(f"{task_id!r} is no tabletop task: tabletop-SEED or tabletop-SEED-LOOK-CAMERA")
    look, camera = parts[1:] or (PLAIN.look, PLAIN.camera)
    if look not in ("plain", "varied", "unseen") or camera not in FIXED:
        raise InputError(f"{task_id!r}: no look {look!r}, or no camera {camera!r}")
    return int(parts[0]), View(look, camera)


def held_out_split(task_id: str) -> Split | None:
    """Find the split of a held-out tabletop task; None for a training task and for every other task."""
    try:
        split = split_of(task_of(task_id)[0])
    except InputError:
        return None
    return None if split == "train" else split


def recording_task_ids(root: Path) -> dict[int, str]:
    """Map episode numbers to task ids for a recording of the tabletop; empty for any other dataset."""
    if not (root / FILE).is_file():
        return {}
    return {number: task_id_of(episode.seed) for number, episode in enumerate(read_truth(root).episodes)}
