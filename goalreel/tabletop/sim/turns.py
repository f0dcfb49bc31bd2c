"""Reads how the blocks in a picture are turned: the cube whose outline covers the block's colour best."""

import math
from itertools import product

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.tabletop.sim.cameras import FIXED, PinholeCamera
from goalreel.tabletop.sim.readback import segment
from goalreel.tabletop.sim.scene import HALF, SceneLayout, colour, is_bowl

TURNS = np.radians(np.arange(-45, 45, 3))
"""A cube looks the same again after a quarter turn."""

_CUBE = HALF * np.array(list(product((-1, 1), repeat=3)))


def read_turns(picture: NDArray[np.uint8], layout: SceneLayout, camera: str = "front") -> dict[str, float]:
    """Map each block of a layout that `read_back` found to its turn about z in [-pi/4, pi/4) rad.

    From the front camera at 256 px half of the answers are within 3 degrees and all within 13; at 128 px
    within 6 and 28 (`tests/tabletop/test_turns.py`).
    """
    return {name: turn for name, (turn, _) in fit_cubes(picture, layout, camera).items()}


def fit_cubes(
    picture: NDArray[np.uint8], layout: SceneLayout, camera: str = "front"
) -> dict[str, tuple[float, float]]:
    """Map each block to its turn, as `read_turns`, and to how well a cube's outline covers its colour.

    The second number is their intersection over union, 0-1. It is low where the block is hidden or no cube.
    """
    masks = segment(picture)
    blocks = [name for name in layout if not is_bowl(name)]
    return {name: _turn(masks[colour(name)], layout[name], FIXED[camera]) for name in blocks}


def _turn(mask: NDArray[np.bool_], at: NDArray[np.float64], camera: PinholeCamera) -> tuple[float, float]:
    def overlap(turn: float) -> float:
        drawn = outline(at, turn, camera, len(mask))
        # A bowl of the block's colour may stand elsewhere in the picture.
        near = cv2.dilate(drawn, np.ones((9, 9), np.uint8)).astype(bool) & mask
        return float((near & (drawn > 0)).sum() / (near | (drawn > 0)).sum())

    best = max(TURNS, key=overlap)
    return float(best), overlap(best)


def outline(at: NDArray[np.float64], turn: float, camera: PinholeCamera, size: int) -> NDArray[np.uint8]:
    """Fill a turned cube's outline with 1, (size, size); `at` is its centre (3,) in m."""
    c, s = math.cos(turn), math.sin(turn)
    corners = at + _CUBE @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
    # Four fractional bits; OpenCV puts pixel centres, the camera pixel corners, on whole numbers.
    pixels = np.round(16 * (camera.project(corners, size) - 0.5)).astype(np.int32)
    image = np.zeros((size, size), np.uint8)
    cv2.fillConvexPoly(image, cv2.convexHull(pixels), 1, shift=4)
    return image
