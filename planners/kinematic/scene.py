"""Things that move in the pictures of a still camera.

`see_touch` learns the look of the arm from the beginning, when it alone moves, and masks it out. A pixel
counts that shows one colour, then another to the end, whenever the arm does not hide it.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle
from goalreel.types import Recording

type FrameStack = NDArray[np.uint8]
"""(k, height, width, 3) RGB."""
type PixelMask = NDArray[np.bool_]

_RATE, _LONGEST = 10.0, 600  # pictures a second, and pictures at most
_WIDTH = 128  # pixels to which the longer side of a picture is reduced
_SETS_OUT = 0.25  # share of its extent that the arm moves, at first, without touching anything
_SOON = 6  # pictures that show the arm alone, at least
_REPEATED = 0.7  # share of new pictures below which a slower camera repeats the others
_LEVELS = 28  # levels (of 255) by which two colours of one pixel differ
_SAMPLES = 5  # pictures that give a pixel's first and its last colour; three must agree
_UNSTEADY = 0.2  # share of the pictures in which a pixel may have a third colour
_SMALLEST_CHANGE = 0.003  # share of the picture that changes, at least
_CAMERA_MOVED = 0.3  # share of the picture that changes at most, unless the camera has moved
_APART_S = 0.8  # seconds without a change that part two movements
_AT = 0.04  # share of the picture's longer side within which the arm is at what changes
_BINS = 16
_WAITS_S = 0.8  # seconds from which an arm waits for its hand
_SLIGHTLY = 14  # levels by which a pixel differs where fingers are before it or not
_AS_BEFORE = 0.8  # share of the greatest difference from which the fingers have not come to rest


def _differ(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The levels by which each pixel differs, in the channel of the greatest difference."""
    red, green, blue = cv2.split(cv2.absdiff(a, b))
    return cv2.max(cv2.max(red, green), blue).astype(np.uint8, copy=False)


def _largest(mask: PixelMask) -> PixelMask:
    """Keep the largest connected region of a mask, (h, w)."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    return labels == 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax()) if count > 1 else mask


def see_touch(recording: Recording, camera: str, motion: ArmMotion) -> int | None:
    """Find the frame at which a thing begins to move that the arm is at, by a camera that stands still.

    None where nothing is seen to, or the arm looks like what it moves; a DatasetError if nothing can be read.
    """
    step = max(1, round(motion.fps / _RATE), -(-len(motion) // _LONGEST))
    indices = np.arange(0, len(motion), step)
    if len(indices) <= _SOON:
        return None
    pictures = np.stack(list(_pictures(recording, camera, indices)))
    is_new = np.append(True, (pictures[1:] != pictures[:-1]).any(axis=(1, 2, 3)))
    if is_new.mean() < _REPEATED:
        pictures, indices = pictures[is_new], indices[is_new]
    away = motion.away(0, len(motion), 0) > _SETS_OUT * motion.extent
    soon = max(_SOON, int(np.searchsorted(indices, int(away.argmax()))))
    arm = _mask_arm(pictures, soon)
    changed, flips = _flips(pictures, arm)
    if changed.mean() > _CAMERA_MOVED:
        return None
    regions = cv2.morphologyEx(changed.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    count, labels = cv2.connectedComponents(regions, connectivity=8)
    starts = [s for label in range(1, count) for s in _touches(changed & (labels == label), flips, arm)]
    return int(indices[min(starts)]) if starts and min(starts) >= soon else None


def time_hand(motion: ArmMotion, recording: Recording, camera: str | None) -> ArmMotion:
    """Time the grasps of a hand of which only the command is known: the fingers may be slow to follow it.

    Contact is where the pictures show the fingers stop while the arm stands. Where they show nothing, and the
    arm waits for long, it is where the arm goes on. A picture that cannot be read is a DatasetError.
    """
    if not motion.commanded:
        return motion
    timed = [_time_cycle(cycle, motion, recording, camera) for cycle in motion.cycles]
    return replace(motion, cycles=tuple(c for c, _ in timed), waits_unseen=any(unseen for _, unseen in timed))


def _time_cycle(
    cycle: Cycle, motion: ArmMotion, recording: Recording, camera: str | None
) -> tuple[Cycle, bool]:
    """The cycle with its contact, and if that is a guess within seconds."""
    waits = motion.stays(cycle.contact, motion.release(cycle))
    wait_s = (waits - cycle.contact) / motion.fps
    if wait_s < _WAITS_S or motion.goes_on(cycle) is None:
        return cycle, False
    stop = _see_stop(recording, camera, motion, cycle.grasp, waits + 1) if camera else None
    is_unseen = stop is None and wait_s > 2 * _WAITS_S
    guess = waits if is_unseen else cycle.contact
    contact = max(cycle.contact, guess if stop is None else stop)
    if cycle.release is None or contact - cycle.contact < _WAITS_S * motion.fps:
        return replace(cycle, contact=contact), is_unseen
    free = max(motion.stays(cycle.release, len(motion)), cycle.release + 1)
    return replace(cycle, contact=contact, free=free), is_unseen


def _see_stop(recording: Recording, camera: str, motion: ArmMotion, start: int, end: int) -> int | None:
    """The last frame of [start, end) whose picture differs from that of the end as the first ones do.

    None where no picture differs, or so much of it as a camera that moves shows.
    """
    indices = np.arange(start, end, max(1, round(motion.fps / _RATE)))
    pictures = np.stack(list(_pictures(recording, camera, indices)))
    changed = np.array([(_differ(picture, pictures[-1]) > _SLIGHTLY).mean() for picture in pictures])
    if not _SMALLEST_CHANGE < changed.max() < _CAMERA_MOVED:
        return None
    return int(indices[np.flatnonzero(changed > _AS_BEFORE * changed.max())[-1]])


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
    middle = np.median(pictures, axis=0).astype(pictures.dtype)
    first = pictures[: soon + 1]
    moving = _widen(np.any([_differ(a, b) > _LEVELS for a, b in itertools.pairwise(first)], axis=0))
    arm, rest = np.zeros(_BINS**3), np.zeros(_BINS**3)
    for picture in first:
        arm += np.bincount(_code(picture[moving & (_differ(picture, middle) > _LEVELS)]), minlength=_BINS**3)
        rest += np.bincount(_code(picture[~moving]), minlength=_BINS**3)
    arm, rest = (_spread(counts) / max(counts.sum(), 1.0) for counts in (arm, rest))
    of_arm = arm > rest + 1e-4
    return np.stack([_widen(of_arm[_code(picture)]) for picture in pictures])


def _flips(pictures: FrameStack, arm: NDArray[np.bool_]) -> tuple[PixelMask, NDArray[np.int64]]:
    """Mark the pixels that change once and for good, (h, w), and the first picture with the last colour."""
    time = np.arange(len(pictures))[:, None, None]
    seen_first = np.argsort(arm, axis=0, kind="stable")[:_SAMPLES]
    seen_last = len(pictures) - 1 - np.argsort(arm[::-1], axis=0, kind="stable")[:_SAMPLES]
    first, last = (
        np.median(np.take_along_axis(pictures, chosen[..., None], axis=0), axis=0).astype(np.uint8)
        for chosen in (seen_first, seen_last)
    )
    is_first, is_last = (
        ~arm & np.stack([_differ(picture, colour) < _LEVELS for picture in pictures])
        for colour in (first, last)
    )
    until = np.where(is_first, time, -1).max(axis=0)
    since = np.where(is_last, time, len(pictures)).min(axis=0)
    is_steady = np.minimum(is_first.sum(axis=0), is_last.sum(axis=0)) >= 3
    is_steady &= (~arm & ~is_first & ~is_last).sum(axis=0) <= _UNSTEADY * (~arm).sum(axis=0)
    return is_steady & (_differ(first, last) > _LEVELS) & (until < since), since


def _touches(region: PixelMask, flips: NDArray[np.int64], arm: NDArray[np.bool_]) -> Iterator[int]:
    """The pictures at which the movements of one region begin, of those that begin at the arm."""
    times = np.sort(flips[region])
    for part in np.split(times, np.flatnonzero(np.diff(times) > _APART_S * _RATE) + 1):
        if len(part) < _SMALLEST_CHANGE * region.size:
            continue
        start = int(np.percentile(part, 5))
        near = 2 * max(1, round(_AT * max(region.shape))) + 1
        reach = cv2.dilate(_largest(arm[start]).astype(np.uint8), np.ones((near, near), np.uint8))
        if (region & (flips >= part[0]) & (flips <= start + 2) & (reach > 0)).any():
            yield start


def _widen(mask: PixelMask) -> PixelMask:
    return cv2.dilate(mask.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0


def _code(pixels: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Number the colours, coarsely."""
    return (pixels // (256 // _BINS)).astype(np.int64) @ np.array([_BINS**2, _BINS, 1])


def _spread(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Let each colour count a little for its neighbours."""
    cube = counts.reshape(_BINS, _BINS, _BINS)
    for _ in range(3):  # each axis in turn, and back to their order
        padded = np.pad(cube, [(1, 1), (0, 0), (0, 0)])
        cube = np.moveaxis(0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:], 0, -1)
    return cube.reshape(-1)
