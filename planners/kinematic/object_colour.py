"""Find the colour of the object that was moved, in the pictures of an episode.

The camera must stand still. A robot that is not black, grey or white may be taken for the object.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.colours import HUED, NAMES, UNSURE, name_colours
from goalreel.planners.kinematic.median_picture import median_picture

type FrameStack = NDArray[np.uint8]
"""(k, height, width, 3) RGB."""
type PixelMask = NDArray[np.bool_]

_SAME = 30
"""Levels (of 255) by which pixels of the same object may differ: video noise and soft shadow."""
_CHANGED = 45
_MOST = 0.3
"""If more than this share of the picture changes, not one object has moved."""
_SMALLEST = 12
"""A smaller region, in pixels, has no reliable colour."""
_SMALLEST_SHARE = 0.0005
"""The same as a share of the picture."""
_PLAIN = 0.5
"""An object is named by a colour that covers at least this share of it."""
_ABOUT = 3.0
"""How many times a thing may be larger or smaller than another of about its size."""
_SECTORS = 12
_NEAR, _BEYOND = 2.5, 4.0
"""The radius of a place's surroundings, and of the area beyond them, in edges of the object."""


@dataclass(frozen=True, slots=True)
class ObjectMove:
    """One object moved from one place to another. Colours are words; "" where none is sure."""

    colour: str
    source_colour: str
    """The colour around the place that it left."""
    target_colour: str
    """The colour around the place that it reached, before it did."""
    others: frozenset[str] = frozenset()
    """Colours of things of about its size that stay where they are."""


def find_moved_object(start: FrameStack, carry: FrameStack, end: FrameStack) -> ObjectMove | None:
    """Find the object that was moved, in pictures before its grasp, before its release and after it.

    None unless exactly one colour both vanished at the grasp and appeared at the release, and most of the
    object has it. Whatever moves within `start` or `end` (the arm) is ignored, and so is whatever has no
    hue (most robots).
    """
    old, still_old = _median(start)
    new, still_new = _median(end)
    changed = still_old & still_new & (_differ(old, new) > _CHANGED)
    if changed.mean() > _MOST:
        return None
    as_new = sum((_differ(frame, new) < _SAME).astype(int) for frame in carry)
    as_old = sum((_differ(frame, old) < _SAME).astype(int) for frame in carry)
    old_names, new_names = name_colours(old), name_colours(new)
    vanished, appeared = changed & (as_new > as_old), changed & (as_old > as_new)
    regions = []
    for code in HUED:
        origin = _largest(vanished & (old_names == code) & (new_names != code))
        target = _largest(appeared & (new_names == code) & (old_names != code))
        regions.append((min(int(origin.sum()), int(target.sum())), code, origin, target))
    regions.sort(key=lambda f: -f[0])
    (size, code, origin, target), (runner_up, *_) = regions[0], regions[1]
    if size < max(_SMALLEST, _SMALLEST_SHARE * origin.size) or runner_up > size / 3:
        return None
    if min(_share(origin, vanished & _hued(old_names)), _share(target, appeared & _hued(new_names))) < _PLAIN:
        return None
    same = np.where(still_old & still_new & ~changed & (old_names == new_names), old_names, UNSURE)
    others = frozenset(NAMES[other] for other in HUED if _has_thing(same == other, int(origin.sum())))
    return ObjectMove(NAMES[code], surrounding(new_names, origin), surrounding(old_names, target), others)


def surrounding(colours: NDArray[np.uint8], place: PixelMask) -> str:
    """Name the one colour that surrounds a place nearly completely (a rim, a tray); "" without one.

    A table continues further out, and a neighbour is on one side only: neither counts.

    Args:
        colours: the `name_colours` of the picture with the place empty, (h, w).
        place: the pixels of the place, (h, w).
    """
    rows, columns = np.indices(place.shape)
    size = np.sqrt(place.sum())
    dy, dx = rows - rows[place].mean(), columns - columns[place].mean()
    distance = np.hypot(dx, dy)
    sector = ((np.arctan2(dy, dx) / (2 * np.pi) + 0.5) * _SECTORS).astype(int) % _SECTORS
    near, beyond = (
        (distance < _NEAR * size) & ~place,
        (distance >= _NEAR * size) & (distance < _BEYOND * size),
    )
    around = []
    for code in HUED:
        inside, outside = near & (colours == code), beyond & (colours == code)
        sides, further = len(np.unique(sector[inside])), len(np.unique(sector[outside]))
        if sides >= 0.75 * _SECTORS and further < 0.5 * _SECTORS:
            around.append((int(inside.sum()), NAMES[code]))
    around.sort(reverse=True)
    if not around or (len(around) > 1 and around[1][0] > around[0][0] / 2):
        return ""
    return around[0][1]


def sample(start: int, end: int, count: int) -> list[int]:
    """At most `count` frames of [start, end), evenly spread, with the first and the last."""
    return sorted({round(i) for i in np.linspace(start, end - 1, min(count, end - start))})


def _median(pictures: FrameStack) -> tuple[NDArray[np.uint8], PixelMask]:
    """Return the median picture, and where more than half of the pictures agree with it."""
    middle = median_picture(pictures)
    agree = np.mean([_differ(p, middle) < _SAME for p in pictures], axis=0)
    return middle, agree > 0.5


def _differ(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The levels by which each pixel differs, in the channel of the greatest difference."""
    red, green, blue = cv2.split(cv2.absdiff(a, b))
    return cv2.max(cv2.max(red, green), blue).astype(np.uint8, copy=False)


def _hued(colours: NDArray[np.uint8]) -> PixelMask:
    """The pixels with a hue, whether its name is sure or not."""
    return ~np.isin(colours, [NAMES.index(name) for name in ("black", "grey", "white")])


def _largest(mask: PixelMask) -> PixelMask:
    """Keep the largest connected region of a mask, (h, w)."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    if count < 2:
        return mask
    return labels == 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax())


def _has_thing(mask: PixelMask, size: int) -> bool:
    """Whether a mask, (h, w), has a connected region of about `size` pixels."""
    _, _, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    sizes = stats[1:, cv2.CC_STAT_AREA]
    return bool(((sizes > size / _ABOUT) & (sizes < size * _ABOUT)).any())


def _share(part: PixelMask, whole: PixelMask) -> float:
    """Return the share, 0-1, of a connected region in the region of `whole` that contains it."""
    _, labels = cv2.connectedComponents(whole.astype(np.uint8), connectivity=8)
    return float(part.sum() / (labels == labels[part][0]).sum())
