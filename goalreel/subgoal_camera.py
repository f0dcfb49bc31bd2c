"""The picture of the sub-goal camera: one function, so that a robot shows what its policy was trained on.

Some policies cannot tell one camera from another: lerobot's ACT does not mark the tokens of an image with
their camera. To such a policy a plain live view and a plain goal image are an unordered pair: it cannot know
which of them is now. The forms other than `plain` mark the goal image in its pixels.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from goalreel.errors import InputError
from goalreel.terms import DEFAULT_FORM as DEFAULT_FORM, LIVE_FORMS as LIVE_FORMS, SubGoalForm as SubGoalForm

NO_CHANGE = 128

_COLOURS = np.array([[255, 0, 255], [0, 255, 0]], np.uint8)
_THICK, _DASH, _TILE = 2, 16, 64
"""Pixels. A tile is two of ResNet's tokens: the middle would know nothing of a line around the edge."""


def in_form(
    form: SubGoalForm, goal: NDArray[np.uint8], live: NDArray[np.uint8] | None = None
) -> NDArray[np.uint8]:
    """Show a goal image in a form: RGB, uint8, (height, width, 3) as `goal`, which is left as it is.

    - `plain`: the goal image.
    - `bordered`: lines of magenta and green dashes painted over its edge and, from the upper left corner,
      every 64 pixels; 2 pixels thick, 16 long.
    - `difference`: 128 + (goal - live) / 2, rounded down: 128 is no change, brighter is to become brighter.
    - `beside`: `live` on the left and `goal` on the right, each squeezed to half the width, because some
      policies want all cameras of one size.

    >>> goal, live = np.uint8([[[255, 9, 0]]]), np.uint8([[[0, 9, 255]]])
    >>> in_form("difference", goal, live).tolist()
    [[[255, 128, 0]]]

    Raises:
        InputError: a form of LIVE_FORMS needs `live`, and it is missing or has another shape than `goal`.
    """
    if form == "plain":
        return goal
    if form == "bordered":
        lines, colours = _border(*goal.shape[:2])
        bordered = goal.copy()
        bordered[lines] = colours
        return bordered
    if live is None or live.shape != goal.shape:
        shape = None if live is None else live.shape
        raise InputError(f"the form {form!r} needs a live frame of the shape {goal.shape}, got {shape}")
    if form == "difference":
        return (NO_CHANGE + (goal.astype(np.int16) - live) // 2).astype(np.uint8)
    import cv2

    height, width = goal.shape[:2]
    halves = ((live, width // 2), (goal, width - width // 2))
    squeezed = [cv2.resize(p, (w, height), interpolation=cv2.INTER_AREA) for p, w in halves]
    return np.asarray(np.hstack(squeezed), np.uint8)


@lru_cache(maxsize=4)
def _border(height: int, width: int) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """The pixels of the lines, (height, width), and the colour of each, (pixels, 3)."""
    y, x = np.ogrid[:height, :width]
    edge = (y >= height - _THICK) | (x >= width - _THICK)
    lines = edge | (y % _TILE < _THICK) | (x % _TILE < _THICK)
    return lines, _COLOURS[(y // _DASH + x // _DASH) % 2][lines]


def fit(picture: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Scale to (width, height), with black borders where the shape differs."""
    import cv2

    height, width = picture.shape[:2]
    if (width, height) == size:
        return picture
    scale = min(size[0] / width, size[1] / height)
    inner = (max(round(width * scale), 1), max(round(height * scale), 1))
    canvas = np.zeros((size[1], size[0], 3), np.uint8)
    x, y = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    canvas[y : y + inner[1], x : x + inner[0]] = cv2.resize(picture, inner, interpolation=how)
    return canvas
