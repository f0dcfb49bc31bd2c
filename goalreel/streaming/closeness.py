"""The cheap visual test: how far the live view has come from where it was to where it should be."""

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.image import Image
from goalreel.planners.recorded.difference import differing

WIDTH = 160
"""Pictures are compared at this width at most, which also smooths the camera's noise away."""
LEVEL = 20
"""Grey levels (of 255) by which a pixel must differ to count."""

THIN = 3
"""What differs over fewer pixels does not count: edges that a drawn picture has a little elsewhere
(dev/LOG.md, 2026-11-26)."""

type Small = NDArray[np.int16]


def shrink(image: Image, size: tuple[int, int] | None = None) -> Small:
    """The picture for comparison, (h, w, 3), `size` = (w, h) or at most WIDTH wide."""
    if size is None:
        width = min(WIDTH, image.size[0])
        size = width, max(1, round(image.size[1] * width / image.size[0]))
    small = cv2.resize(image.pixels, size, interpolation=cv2.INTER_AREA)
    return cv2.GaussianBlur(small, (0, 0), 1.0).astype(np.int16)


def changed(before: Image, after: Image) -> float:
    """Share of the picture, 0-1, that differs, cleared of a global shift in brightness.

    Pictures of different size are compared at the size of `before`.
    """
    a = shrink(before)
    return _share(a, shrink(after, (a.shape[1], a.shape[0])))


def _share(a: Small, b: Small) -> float:
    """Share of the pixels, 0-1, in which two pictures of one size differ, thin differences left out."""
    differs = differing(a, b, LEVEL).astype(np.uint8)
    return float(cv2.morphologyEx(differs, cv2.MORPH_OPEN, np.ones((THIN, THIN), np.uint8)).mean())


class Closeness:
    """Where a live view lies between a start and a goal: 0 as at the start, 1 as the goal, negative away from
    both. NaN when start and goal look the same."""

    def __init__(self, start: Image, goal: Image) -> None:
        self._goal = shrink(goal)
        self._size = self._goal.shape[1], self._goal.shape[0]
        self._way = _share(self._goal, shrink(start, self._size))

    def of(self, live: Image) -> float:
        """Measure one live view."""
        if self._way == 0:
            return math.nan
        return 1 - _share(self._goal, shrink(live, self._size)) / self._way
