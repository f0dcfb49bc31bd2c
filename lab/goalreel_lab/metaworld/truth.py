"""Ground truth of a recording: contacts, poses and success, frame by frame."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from goalreel.errors import DatasetError, first_line
from goalreel.files import read_file, write_bytes

FILE = Path("meta/metaworld.json")
_GAP, _BRIEF = 0.5, 0.25
"""Seconds: contact goes on over a shorter gap, and a shorter contact is a graze."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BodyTruth(_Frozen):
    """One body of the simulator in every frame."""

    movable: bool
    """It is free, or has a joint; else it stands."""
    touched: tuple[bool, ...]
    """By the hand or a finger."""
    held: tuple[bool, ...]
    """Between both fingers, from opposite sides."""
    met: tuple[bool, ...]
    """Touched by another body that the hand touches, such as a stick."""
    pose: tuple[tuple[float, ...], ...]
    """Position in metres or, of a hinge, radians; empty where it stands."""


class RecordingTruth(_Frozen):
    """One episode of a task."""

    task: str
    seed: int
    instruction: str
    ending: str
    hand: tuple[tuple[float, float, float], ...]
    """Its position in metres."""
    opening: tuple[float, ...]
    """Gripper: 1 is open."""
    success: tuple[bool, ...]
    """True if the task is done in this frame."""
    bodies: dict[str, BodyTruth]

    def __len__(self) -> int:
        return len(self.opening)


@dataclass(frozen=True, slots=True)
class Contact:
    """Frames [start, end) in which the hand touches an object."""

    object: str
    start: int
    end: int


class TaskTruth(_Frozen):
    """Episode i of the dataset is `episodes[i]`."""

    fps: float
    closed: Literal["low", "high"]
    """Which end of the recorded gripper's range is closed."""
    episodes: tuple[RecordingTruth, ...]


def contacts(episode: RecordingTruth, fps: float) -> list[Contact]:
    """List the contacts of the hand with what can move, in order; a graze is none."""
    spans = [
        Contact(name, start, end)
        for name, body in episode.bodies.items()
        if body.movable
        for start, end in _spans(body.touched, round(_GAP * fps))
        if end - start >= _BRIEF * fps
    ]
    return sorted(spans, key=lambda contact: (contact.start, contact.end))


def without_gaps(body: BodyTruth, fps: float) -> BodyTruth:
    """Let contact and hold go on over a short gap, as `contacts` does."""
    flags = {name: np.array(getattr(body, name)) for name in ("touched", "held")}
    for flag in flags.values():
        for start, end in _spans(flag, round(_GAP * fps)):
            flag[start:end] = True
    return body.model_copy(update={name: tuple(flag.tolist()) for name, flag in flags.items()})


def contact_cuts(contacts: Sequence[Contact], frames: int) -> list[int]:
    """List the frames at which contact begins or ends; the last retreat belongs to what it follows."""
    if not contacts:
        return []
    last = max(contact.start for contact in contacts)
    ends = {contact.end for contact in contacts if contact.end <= last}
    return sorted(cut for cut in {contact.start for contact in contacts} | ends if 0 < cut < frames)


def moved(body: BodyTruth, start: int, end: int) -> float:
    """Distance of a body, within the frames [start, end), from where it was at first."""
    if not body.movable:
        return 0.0
    poses: NDArray[np.float64] = np.array(body.pose[start:end])
    return float(np.linalg.norm(poses - poses[0], axis=1).max())


def _spans(touched: Sequence[bool] | NDArray[np.bool_], gap: int) -> list[tuple[int, int]]:
    """Spans of frames with contact, joined over short gaps."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(touched, int), [0]])))
    spans = [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
    for earlier, later in list(itertools.pairwise(spans))[::-1]:
        if later[0] - earlier[1] < gap:
            at = spans.index(earlier)
            spans[at : at + 2] = [(earlier[0], spans[at + 1][1])]
    return spans


def read_truth(root: Path) -> TaskTruth:
    """Read the truth of the recording at `root`.

    Raises:
        DatasetError: there is none, or it is damaged.
    """
    path = root / FILE
    try:
        return TaskTruth.model_validate_json(read_file(path))
    except OSError as e:
        raise DatasetError(f"{path}: cannot be read: {e.strerror}: record the task again") from e
    except ValidationError as e:
        raise DatasetError(f"{path}: damaged ({first_line(e)}): record the task again") from e


def write_truth(root: Path, truth: TaskTruth) -> None:
    """Write the truth beside the dataset at `root`."""
    write_bytes(root / FILE, truth.model_dump_json().encode() + b"\n")
