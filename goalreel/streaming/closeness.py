"""A cheap visual measure: how far the live view has come from its start towards the goal image."""

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.critics.difference import differing
from goalreel.image import Image

WIDTH = 160
"""Pictures are compared at this width at most, which also smooths camera noise."""
LEVEL = 20
"""Grey levels (of 255) by which a pixel must differ to count."""

THIN = 3
"""Differences fewer pixels wide do not count, such as edges that a drawn picture has slightly elsewhere
(dev/LOG.md, 2026-11-26)."""

type SmallPixels = NDArray[np.int16]


def shrink(image: Image, size: tuple[int, int] | None = None) -> SmallPixels:
    """Make the picture for comparison, (h, w, 3): of `size` (w, h), or at most WIDTH pixels wide."""
    if size is None:
        width = min(WIDTH, image.size[0])
        size = width, max(1, round(image.size[1] * width / image.size[0]))
    small = cv2.resize(image.pixels, size, interpolation=cv2.INTER_AREA)
    return cv2.GaussianBlur(small, (0, 0), 1.0).astype(np.int16)


def changed_share(first: Image, second: Image) -> float:
    """Measure the share of the picture, 0-1, that differs, apart from a global shift in brightness.

    Pictures of different sizes are compared at the size of `first`.
    """
    a = shrink(first)
    return _share(a, shrink(second, (a.shape[1], a.shape[0])))


def _share(a: SmallPixels, b: SmallPixels) -> float:
    """Share of the pixels, 0-1, in which two pictures of one size differ, without thin differences."""
    differs = differing(a, b, LEVEL).astype(np.uint8)
    return float(cv2.morphologyEx(differs, cv2.MORPH_OPEN, np.ones((THIN, THIN), np.uint8)).mean())


class Closeness:
    """Places a live view between a start (0) and a goal (1).

    Below 0 the view is farther from the goal than the start is. NaN where start and goal look the same.
    """

    def __init__(self, start: Image, goal: Image) -> None:
        self._goal = shrink(goal)
        self._size = self._goal.shape[1], self._goal.shape[0]
        self._distance = _share(self._goal, shrink(start, self._size))

    def measure(self, live: Image) -> float:
        """Measure one live view."""
        if self._distance == 0:
            return math.nan
        return 1 - _share(self._goal, shrink(live, self._size)) / self._distance
