"""Plain names for the colours of pixels, by limits of hue, saturation and value."""

import cv2
import numpy as np
from numpy.typing import NDArray

UNSURE = 0
NAMES = ("", "black", "grey", "white", "brown", "pink", "red", "orange", "yellow", "green", "blue", "purple")
HUED = range(NAMES.index("brown"), len(NAMES))
"""Indices of the names that are no shade of grey."""

_HUES = (
    (12, "red"),
    (16, ""),
    (38, "orange"),
    (44, ""),
    (66, "yellow"),
    (78, ""),
    (160, "green"),
    (195, ""),
    (252, "blue"),
    (264, ""),
    (312, "purple"),
    (322, ""),
    (340, "pink"),
    (348, ""),
    (361, "red"),
)
"""Upper ends in degrees. The gaps without a name are where words overlap: turquoise, amber, crimson."""
_BLACK, _WHITE = 0.18, 0.8
"""Value (0-1) below which everything is black, and above which a pixel without a hue is white."""
_PALE = 0.25
"""Saturation (0-1) below which there is no hue."""
_VIVID = 0.5
"""Saturation below which red is pink, and a dark warm hue brown."""
_DIM = 0.5
"""Value below which orange is brown."""


def name_colours(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(h, w, 3) RGB to (h, w) indices into `NAMES`; UNSURE where two words fit as well.

    >>> [NAMES[i] for i in name_colours(np.array([[[220, 30, 25], [30, 70, 220], [128, 128, 130]]], "u1"))[0]]
    ['red', 'blue', 'grey']
    """
    hsv = cv2.cvtColor(picture.astype(np.float32) / 255, cv2.COLOR_RGB2HSV)
    hue, saturation, value = hsv[..., 0], hsv[..., 1], hsv[..., 2]
    ends = np.array([end for end, _ in _HUES])
    by_hue = np.array([NAMES.index(name) for _, name in _HUES], np.uint8)
    code = by_hue[np.searchsorted(ends, hue, side="right")]
    faint = saturation < _VIVID
    warm = (hue < 66) | (hue >= 340)
    code[faint & warm] = UNSURE
    code[faint & (hue >= 12) & (hue < 44) & (value < _WHITE)] = NAMES.index("brown")
    code[faint & ((hue < 12) | (hue >= 340)) & (value >= 0.7)] = NAMES.index("pink")
    code[~faint & (hue >= 12) & (hue < 38) & (value < _DIM)] = NAMES.index("brown")
    code[~faint & (hue >= 38) & (hue < 78) & (value < _DIM)] = UNSURE
    grey = np.where(value > _WHITE, NAMES.index("white"), NAMES.index("grey"))
    code = np.where(saturation < _PALE, grey, code)
    code = np.where((saturation >= 0.8 * _PALE) & (saturation < _PALE), UNSURE, code)
    return np.where(value < _BLACK, NAMES.index("black"), code).astype(np.uint8)
