"""Turns a JPEG of any shape into a picture of the configured shape."""

import cv2
import numpy as np
from numpy.typing import NDArray


def decode(data: bytes, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Decode to BGR (height, width, 3), where `size` = (width, height); black without data.

    Raises:
        RuntimeError: the data is no picture.
    """
    if not data:
        return np.zeros((size[1], size[0], 3), np.uint8)
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if picture is None:
        raise RuntimeError(f"failed to decode the goal image ({len(data)} bytes).")
    return fit(np.asarray(picture, np.uint8), size)


def fit(picture: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Scale to (width, height), with black borders where the shape differs.

    It gives the same bits as `goalreel.datasets.writing.video.fit`, so that a policy sees what it was trained
    on. goalreel need not be installed where the policy runs.
    """
    height, width = picture.shape[:2]
    if (width, height) == size:
        return picture
    scale = min(size[0] / width, size[1] / height)
    inner = max(round(width * scale), 1), max(round(height * scale), 1)
    x, y = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
    canvas = np.zeros((size[1], size[0], 3), np.uint8)
    interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    canvas[y : y + inner[1], x : x + inner[0]] = cv2.resize(picture, inner, interpolation=interpolation)
    return canvas
