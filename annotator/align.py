"""Where in a recorded episode each step of a predicted storyboard ends.

Planned steps come in order and cover the episode, so their ends are a monotonic path through the frames.
One dynamic programme finds the ends at which the recording looks most like the predicted goal images; the
kinematic boundaries (gripper events, stillness) are a prior that decides where pictures cannot.
"""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.types import Recording, Segment, Storyboard

SIDE = 48
"""Pictures are compared at this width and height."""
CHUNK = 64
PRIOR = 0.15
"""What ending on a kinematic boundary is worth, in units of the unlikeness between first frame and goal."""


def features(images: Sequence[Image]) -> NDArray[np.float32]:
    """Small, blurred, contrast-free pictures, (n, SIDE * SIDE * 3): what is where, not how it is lit."""
    import cv2

    small = np.stack(
        [cv2.resize(i.pixels, (SIDE, SIDE), interpolation=cv2.INTER_AREA) for i in images]
    ).astype(np.float32)
    blurred = np.stack([cv2.GaussianBlur(picture, (0, 0), 1.0) for picture in small])
    centred = blurred - blurred.mean(axis=(1, 2), keepdims=True)
    return centred.reshape(len(images), -1)


def ends(
    goals: Sequence[Image | None],
    seen: NDArray[np.float32],
    boundaries: Collection[int] = (),
    prior: float = PRIOR,
) -> list[int]:
    """The last frame of each step, ascending; the last step ends with the last frame.

    `goals[i]` is step i's predicted goal image, None where there is none (then only the prior speaks);
    `seen` are the `features` of all frames, (frames, n); `boundaries` are frame numbers at which a motion
    ended. Of equal choices the earlier wins.

    Raises:
        InputError: no steps, or fewer frames than steps.
    """
    if not goals or len(seen) < len(goals):
        raise InputError(f"{len(goals)} steps do not fit into {len(seen)} frames")
    cost = _costs(goals, seen)
    cost[:, [b for b in boundaries if 0 <= b < len(seen)]] -= prior
    return _cheapest(cost)


def _costs(goals: Sequence[Image | None], seen: NDArray[np.float32]) -> NDArray[np.float64]:
    """(steps, frames): 0 is alike, 1 as unlike as the first frame."""
    cost = np.zeros((len(goals), len(seen)))
    for row, goal in zip(cost, goals, strict=True):
        if goal is None:
            continue
        distance = np.linalg.norm(seen - features([goal]), axis=1)
        row[:] = distance / max(float(distance[0]), 1e-6)
    return cost


def _cheapest(cost: NDArray[np.float64]) -> list[int]:
    """Strictly ascending columns, one a row, the last one in the last column, of least total cost."""
    steps, frames = cost.shape
    total, came_from = cost[0].copy(), np.zeros((steps, frames), np.int64)
    for step in range(1, steps):
        best_before = np.minimum.accumulate(total)
        improved = np.r_[True, total[1:] < best_before[:-1]]
        where = np.maximum.accumulate(np.where(improved, np.arange(frames), 0))
        total = np.r_[np.inf, best_before[:-1]] + cost[step]
        came_from[step, 1:] = where[:-1]
    path = [frames - 1]
    for step in range(steps - 1, 0, -1):
        path.append(int(came_from[step, path[-1]]))
    return path[::-1]


def align(
    board: Storyboard, recording: Recording, camera: str, boundaries: Collection[int] = ()
) -> Storyboard:
    """The storyboard with a segment a step, together covering the recording.

    Raises:
        InputError: more steps than frames.
    """
    frames = range(len(recording.timestamps))
    # A few at a time: an episode's frames at full size do not fit into memory.
    seen = np.concatenate(
        [features(recording.frames(camera, frames[i : i + CHUNK])) for i in frames[::CHUNK]]
    )
    last = ends([s.goal_image for s in board.steps], seen, boundaries)
    starts = [0, *(end + 1 for end in last[:-1])]
    steps = tuple(
        step.model_copy(update={"segment": Segment(start=start, end=end + 1)})
        for step, start, end in zip(board.steps, starts, last, strict=True)
    )
    return board.model_copy(update={"steps": steps})
