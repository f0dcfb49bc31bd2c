"""What changes for good in the pictures of a still camera, with the arm masked out: a thing has moved.

The look of the arm is learned from the beginning, when the arm alone moves. A pixel counts that shows one
colour, then another to the end, whenever the arm does not hide it. An arm that passes leaves no such pixel.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.median_picture import median_picture
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.object_colour import FrameStack, PixelMask
from goalreel.planners.kinematic.touches import Touch
from goalreel.types import Recording

_RATE, _LONGEST = 10.0, 600
"""Pictures a second, and pictures at most."""
_WIDTH = 128
"""Pixels to which the longer side of a picture is reduced."""
_SETS_OUT = 0.25
"""Share of its extent that the arm moves, at first, without touching anything."""
_SOON = 6
"""Pictures that show the arm alone, at least."""
_LEVELS = 28
"""Levels (of 255) by which two colours of one pixel differ."""
_SAMPLES = 5
"""Pictures that give a pixel's first and its last colour; three must agree."""
_UNSTEADY = 0.2
"""Share of the pictures in which a pixel may have a third colour."""
_SMALLEST = 0.003
"""Share of the picture that changes, at least."""
_MOST = 0.3
"""If more than this share changes, the camera has moved."""
_APART_S = 0.8
"""Seconds without a change that part two movements."""
_AT = 0.04
"""Share of the picture's longer side within which the arm is at what changes."""
_BINS = 16


@dataclass(frozen=True, slots=True)
class SceneChange:
    """A thing that was moved in the frames [start, end), and how much of the picture shows that."""

    start: int
    end: int
    share: float
    at_arm: bool
    """Whether the arm was at it when it began to move."""


def find_changes(recording: Recording, camera: str, motion: ArmMotion) -> list[SceneChange]:
    """Find what the pictures of a camera that stands still show to have moved, in order.

    Empty where the arm does not move, or looks like what it moves.

    Raises:
        DatasetError: the pictures cannot be read.
    """
    indices = _sample(motion)
    if len(indices) <= _SOON:
        return []
    pictures = np.stack(list(_pictures(recording, camera, indices)))
    away = np.linalg.norm(motion.path - motion.path[0], axis=1) > _SETS_OUT * motion.extent
    soon = max(_SOON, int(np.searchsorted(indices, int(away.argmax()))))
    arm = _mask_arm(pictures, soon)
    changed, flips = _flips(pictures, arm)
    if changed.mean() > _MOST:
        return []
    regions = cv2.morphologyEx(changed.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    count, labels = cv2.connectedComponents(regions, connectivity=8)
    found: list[SceneChange] = []
    for label in range(1, count):
        found += _movements(changed & (labels == label), flips, arm, indices)
    return sorted(found, key=lambda change: change.start)


def see_touch(recording: Recording, camera: str, motion: ArmMotion) -> Touch | None:
    """The touch with which the first thing begins to move that the arm is at; None where none is seen.

    Raises:
        DatasetError: the pictures cannot be read.
    """
    starts = [change.start for change in find_changes(recording, camera, motion) if change.at_arm]
    return Touch(starts[0], len(motion)) if starts else None


def _sample(motion: ArmMotion) -> NDArray[np.int64]:
    step = max(1, round(motion.fps / _RATE), -(-len(motion) // _LONGEST))
    return np.arange(0, len(motion), step)


def _pictures(recording: Recording, camera: str, indices: NDArray[np.int64]) -> Iterator[NDArray[np.uint8]]:
    for batch in itertools.batched(indices.tolist(), 32):
        for image in recording.frames(camera, batch):
            height, width, _ = image.pixels.shape
            scale = min(1.0, _WIDTH / max(height, width))
            size = (max(1, round(width * scale)), max(1, round(height * scale)))
            small = cv2.resize(image.pixels, size, interpolation=cv2.INTER_AREA)
            yield np.asarray(cv2.GaussianBlur(small, (0, 0), 0.6), np.uint8)


def _mask_arm(pictures: FrameStack, soon: int) -> NDArray[np.bool_]:
    """Mark what has the colours of the arm, (n, h, w): of what moves in the first `soon` pictures."""
    middle = median_picture(pictures)
    first = pictures[: soon + 1]
    moving = np.any([_differ(a, b) for a, b in itertools.pairwise(first)], axis=0)
    moving = _widen(moving)
    arm, rest = np.zeros(_BINS**3), np.zeros(_BINS**3)
    for picture in first:
        arm += np.bincount(_code(picture[moving & _differ(picture, middle)]), minlength=_BINS**3)
        rest += np.bincount(_code(picture[~moving]), minlength=_BINS**3)
    arm, rest = (_spread(counts) / max(counts.sum(), 1.0) for counts in (arm, rest))
    of_arm = arm > rest + 1e-4
    return np.stack([_widen(of_arm[_code(picture)]) for picture in pictures])


def _flips(pictures: FrameStack, arm: NDArray[np.bool_]) -> tuple[PixelMask, NDArray[np.int64]]:
    """Mark the pixels that change once and for good, (h, w), and the first picture with the last colour."""
    values, time = pictures.astype(np.int16), np.arange(len(pictures))[:, None, None]
    seen_first = np.argsort(arm, axis=0, kind="stable")[:_SAMPLES]
    seen_last = len(pictures) - 1 - np.argsort(arm[::-1], axis=0, kind="stable")[:_SAMPLES]
    first, last = (
        median_picture(np.take_along_axis(values, chosen[..., None], axis=0))
        for chosen in (seen_first, seen_last)
    )
    is_first = ~arm & (_most(np.abs(values - first)) < _LEVELS)
    is_last = ~arm & (_most(np.abs(values - last)) < _LEVELS)
    until, since = (
        np.where(is_first, time, -1).max(axis=0),
        np.where(is_last, time, len(pictures)).min(axis=0),
    )
    is_steady = np.minimum(is_first.sum(axis=0), is_last.sum(axis=0)) >= 3
    others = (~arm & ~is_first & ~is_last).sum(axis=0)
    is_steady &= others <= _UNSTEADY * (~arm).sum(axis=0)
    return is_steady & (_most(np.abs(first - last)) > _LEVELS) & (until < since), since


def _movements(
    region: PixelMask, flips: NDArray[np.int64], arm: NDArray[np.bool_], indices: NDArray[np.int64]
) -> Iterator[SceneChange]:
    """The movements that one region of the picture shows, one after the other."""
    times = np.sort(flips[region])
    gap = _APART_S * _RATE
    for part in np.split(times, np.flatnonzero(np.diff(times) > gap) + 1):
        if len(part) < _SMALLEST * region.size:
            continue
        start, end = (int(np.percentile(part, share)) for share in (5, 95))
        near = max(1, round(_AT * max(region.shape)))
        began = region & (flips >= part[0]) & (flips <= start + 2)
        reach = cv2.dilate(
            _largest(arm[start]).astype(np.uint8), np.ones((2 * near + 1, 2 * near + 1), np.uint8)
        )
        yield SceneChange(
            int(indices[start]),
            int(indices[min(end + 1, len(indices) - 1)]),
            len(part) / region.size,
            bool((began & (reach > 0)).any()),
        )


def _differ(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> PixelMask:
    return _most(np.asarray(cv2.absdiff(a, b))) > _LEVELS


def _most[Level: np.generic](levels: NDArray[Level]) -> NDArray[Level]:
    """The highest of the three channels, (..., 3) -> (...): max(axis=-1) takes ten times as long."""
    red, green, blue = np.moveaxis(levels, -1, 0)
    return np.maximum(np.maximum(red, green), blue)


def _widen(mask: PixelMask) -> PixelMask:
    return cv2.dilate(mask.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0


def _code(pixels: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Number the colours, coarsely."""
    return (pixels // (256 // _BINS)).astype(np.int64) @ np.array([_BINS**2, _BINS, 1])


def _spread(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Let each colour count a little for its neighbours."""
    cube = counts.reshape(_BINS, _BINS, _BINS)
    for axis in range(3):
        padded = np.moveaxis(np.pad(cube, [(1, 1) if i == axis else (0, 0) for i in range(3)]), axis, 0)
        cube = np.moveaxis(0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:], 0, axis)
    return cube.reshape(-1)


def _largest(mask: PixelMask) -> PixelMask:
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    return labels == 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax()) if count > 1 else mask
