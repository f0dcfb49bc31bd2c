"""What an episode's pictures show that its motion cannot: the colour of the thing that was moved.

The camera must stand still. A robot that is not black, grey or white may be taken for the thing.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.colours import HUED, NAMES, name_colours

type FrameStack = NDArray[np.uint8]
"""(k, height, width, 3) RGB."""
type PixelMask = NDArray[np.bool_]

_SAME = 30
"""Levels (of 255) by which a pixel may differ and still show the same thing: video noise and soft shadow."""
_CHANGED = 45
_MOST = 0.3
"""Share of the picture that may change before it is no longer one thing that moved."""
_SMALLEST = 12
"""Pixels below which a region's colour is not to be trusted."""
_SMALLEST_SHARE = 0.0005
"""The same as a share of the picture."""
_PLAIN = 0.5
"""Share of a thing that must be of one colour to be called by it."""
_SECTORS = 12
_NEAR, _BEYOND = 2.5, 4.0
"""How far from a place's middle its surroundings reach, and what lies beyond them, in edges of the thing."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One thing went from one place to another. Colours are words; "" where there is no sure one."""

    colour: str
    left: str
    """The colour that surrounds the place it left."""
    reached: str
    """The colour that surrounds the place it came to, before it did."""


def look(before: FrameStack, carry: FrameStack, after: FrameStack) -> Moved | None:
    """Find the thing that was moved, in pictures before its grasp, while it was held and after its release.

    None unless exactly one colour both vanished at the grasp and appeared at the release, and most of the
    thing has it. What moves within `before` or `after` (the arm) is left out, and so is whatever has no hue
    (most robots).
    """
    old, still_old = _settled(before)
    new, still_new = _settled(after)
    changed = still_old & still_new & (_differ(old, new) > _CHANGED)
    if changed.mean() > _MOST:
        return None
    as_new = sum((_differ(frame, new) < _SAME).astype(int) for frame in carry)
    as_old = sum((_differ(frame, old) < _SAME).astype(int) for frame in carry)
    was, now = name_colours(old), name_colours(new)
    vanished, appeared = changed & (as_new > as_old), changed & (as_old > as_new)
    found = []
    for code in HUED:
        gone = _largest(vanished & (was == code) & (now != code))
        came = _largest(appeared & (now == code) & (was != code))
        found.append((min(int(gone.sum()), int(came.sum())), code, gone, came))
    found.sort(key=lambda f: -f[0])
    (size, code, gone, came), (runner_up, *_) = found[0], found[1]
    if size < max(_SMALLEST, _SMALLEST_SHARE * gone.size) or runner_up > size / 3:
        return None
    if min(_share(gone, vanished & _hued(was)), _share(came, appeared & _hued(now))) < _PLAIN:
        return None
    return Moved(NAMES[code], surrounding(now, gone), surrounding(was, came))


def surrounding(colours: NDArray[np.uint8], place: PixelMask) -> str:
    """Name the one colour that goes nearly all around a place and ends there (a rim, a tray); "" without
    one. The table goes on further out; a neighbour is on one side only.

    In: `name_colours` of the empty place, (h, w), and where it is.
    """
    rows, columns = np.indices(place.shape)
    size = np.sqrt(place.sum())
    dy, dx = rows - rows[place].mean(), columns - columns[place].mean()
    away = np.hypot(dx, dy)
    sector = ((np.arctan2(dy, dx) / (2 * np.pi) + 0.5) * _SECTORS).astype(int) % _SECTORS
    near, beyond = (away < _NEAR * size) & ~place, (away >= _NEAR * size) & (away < _BEYOND * size)
    around = []
    for code in HUED:
        here, there = near & (colours == code), beyond & (colours == code)
        sides, further = len(np.unique(sector[here])), len(np.unique(sector[there]))
        if sides >= 0.75 * _SECTORS and further < 0.5 * _SECTORS:
            around.append((int(here.sum()), NAMES[code]))
    around.sort(reverse=True)
    if not around or (len(around) > 1 and around[1][0] > around[0][0] / 2):
        return ""
    return around[0][1]


def sample(start: int, end: int, count: int) -> list[int]:
    """At most `count` frames of [start, end), evenly spread, the first and the last among them."""
    return sorted({round(i) for i in np.linspace(start, end - 1, min(count, end - start))})


def _settled(pictures: FrameStack) -> tuple[NDArray[np.uint8], PixelMask]:
    """Return the median picture, and where more than half of the pictures agree with it."""
    middle = np.median(pictures, axis=0).astype(np.uint8)
    agree = np.mean([_differ(p, middle) < _SAME for p in pictures], axis=0)
    return middle, agree > 0.5


def _differ(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """By how many levels each pixel differs, in the channel where it differs most."""
    red, green, blue = cv2.split(cv2.absdiff(a, b))
    return cv2.max(cv2.max(red, green), blue).astype(np.uint8, copy=False)


def _hued(colours: NDArray[np.uint8]) -> PixelMask:
    """Where there is a hue, with a sure name or without."""
    return ~np.isin(colours, [NAMES.index(name) for name in ("black", "grey", "white")])


def _largest(mask: PixelMask) -> PixelMask:
    """Keep the largest connected region of a mask, (h, w)."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    if count < 2:
        return mask
    return labels == 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax())


def _share(part: PixelMask, whole: PixelMask) -> float:
    """Return the share, 0-1, that a connected region takes of the region of `whole` it lies in."""
    _, labels = cv2.connectedComponents(whole.astype(np.uint8), connectivity=8)
    return float(part.sum() / (labels == labels[part][0]).sum())
