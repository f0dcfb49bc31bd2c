"""Demonstrations by Meta-World's experts, and goal images of object positions that no policy has seen.

A file for each task: it is there when the task is done, and then it stays.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from goalreel.errors import InputError
from goalreel.files import write_bytes
from goalreel_lab.metaworld.sim import Action, SimulatedMoment, Workbench

SIZE = 96
"""Pixels of a picture's side."""
POSITIONS, UNSEEN_FIRST = 50, 25
"""Object positions of a task, and the first that is only tested on; those before are demonstrated."""
CHUNK = 10
"""Frames of actions that a policy predicts."""
THINGS = 4
"""Things of a frame: the hand, the task's first and second thing, its goal."""
NOISE = 0.3
"""Spread of what is added to the expert's three directions, in shares of its greatest step. The expert's own
answer is what is learnt, so a policy sees how to come back from small mistakes (as in DART, 1703.09327)."""
_TRIES = (NOISE, NOISE, 0.0)


@dataclass(frozen=True)
class TaskDemos:
    """F frames of a task's episodes."""

    pictures: NDArray[np.uint8]
    """(F, SIZE, SIZE, 3) RGB."""
    states: NDArray[np.float32]
    """(F, 4): where the hand is (m), and how far the gripper is open."""
    actions: NDArray[np.float32]
    """(F, 4): what the expert wants to do."""
    things: NDArray[np.float32]
    """(F, THINGS, 3): where things are (m); zeros where a task has no second one."""
    episodes: NDArray[np.int64]
    """(F,): of which episode, from 0 on."""

    @property
    def last(self) -> NDArray[np.int64]:
        """Give for each frame the last one of its episode, whose picture is the hindsight goal."""
        ends = np.flatnonzero(np.diff(self.episodes, append=-1))
        return ends[np.searchsorted(ends, np.arange(len(self.episodes)))]

    def chunks(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Give each frame's next CHUNK actions (F, CHUNK, 4), and which lie behind the episode's end."""
        ahead = np.arange(len(self.episodes))[:, None] + np.arange(CHUNK)
        last = self.last[:, None]
        return self.actions[np.minimum(ahead, last)], ahead > last


@dataclass(frozen=True)
class TaskGoals:
    """Object positions of a task that are only tested on, as the expert left them."""

    pictures: NDArray[np.uint8]
    """(P, SIZE, SIZE, 3) RGB: the last frame of the expert's episode."""
    positions: NDArray[np.int64]
    """(P,): which of the task's positions."""


def record_demos(path: Path, task: str, episodes: int) -> None:
    """Record the first positions that the expert solves with a shaken hand, or else without.

    Raises:
        InputError: it solves too few of them.
    """
    bench = Workbench(task, SIZE)
    parts: list[TaskDemos] = []
    for position in range(UNSEEN_FIRST):
        if len(parts) < episodes and (frames := _perform(bench, position)):
            parts.append(_episode(frames, len(parts)))
    if len(parts) < episodes:
        raise InputError(
            f"{task}: the expert solves {len(parts)} of {UNSEEN_FIRST} positions: --episodes less"
        )
    _write(path, {f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(TaskDemos)})


def record_goals(path: Path, task: str, positions: int) -> None:
    """Record the last picture of the expert's episode at positions that are only tested on.

    A position that the expert does not solve is left out: there is no goal image.
    """
    bench = Workbench(task, SIZE)
    goals = [(position, bench.run(position, "stay")) for position in positions_to_test(positions)]
    solved = [(position, frames[-1].picture) for position, frames in goals if frames]
    if not solved:
        raise InputError(f"{task}: the expert solves no position: is this metaworld 3.0.0 with mujoco 3.8.1?")
    numbers, pictures = zip(*solved, strict=True)
    _write(path, {"pictures": np.stack(pictures), "positions": np.array(numbers)})


def positions_to_test(positions: int) -> Sequence[int]:
    """Name the first positions that no policy is trained on."""
    return range(UNSEEN_FIRST, UNSEEN_FIRST + positions)


def read_demos(path: Path) -> TaskDemos:
    """Read what `record_demos` wrote."""
    with np.load(path) as arrays:
        return TaskDemos(**{f.name: arrays[f.name] for f in fields(TaskDemos)})


def read_goals(path: Path) -> TaskGoals:
    """Read what `record_goals` wrote."""
    with np.load(path) as arrays:
        return TaskGoals(arrays["pictures"], arrays["positions"])


def _perform(bench: Workbench, position: int) -> list[SimulatedMoment] | None:
    """Record the expert with a shaken hand, or, where it fails so, without."""
    for number, noise in enumerate(_TRIES):
        shake = partial(_shake, np.random.default_rng([position, number]), noise)
        frames = bench.run(position, "stay", shake)
        if frames and (frames[-1].success or not noise):
            return frames
    return None


def _shake(rng: np.random.Generator, noise: float, action: Action) -> Action:
    return action + noise * np.append(rng.normal(size=3), 0.0)


def _episode(frames: Sequence[SimulatedMoment], number: int) -> TaskDemos:
    observations = np.stack([frame.observation for frame in frames]).astype(np.float32)
    return TaskDemos(
        pictures=np.stack([frame.picture for frame in frames]),
        states=observations[:, :4],
        actions=np.stack([frame.action for frame in frames]).astype(np.float32),
        things=np.stack([observations[:, at : at + 3] for at in (0, 4, 11, 36)], 1),
        episodes=np.full(len(frames), number),
    )


def _write(path: Path, arrays: dict[str, NDArray[np.generic]]) -> None:
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)  # pyrefly: ignore[bad-argument-type]  (numpy's stub)
    write_bytes(path, packed.getvalue())
