"""The size a model works at, and pictures brought to a size."""

import math

import numpy as np
import PIL.Image

from goalreel.image import Image

type Size = tuple[int, int]
"""(width, height) in pixels."""


def working_size(source: Size, size: Size | None, multiple: int) -> Size:
    """Return the size that has the source's aspect ratio and `size`'s area, each side rounded to `multiple`.

    >>> working_size((640, 480), (1024, 1024), 16)
    (1184, 880)
    """
    width, height = source
    scale = 1.0 if size is None else math.sqrt(size[0] * size[1] / (width * height))
    return _snap(width * scale, multiple), _snap(height * scale, multiple)


def _snap(length: float, multiple: int) -> int:
    return max(multiple, round(length / multiple) * multiple)


def to_pil(image: Image, size: Size) -> PIL.Image.Image:
    """Resample an image to `size` (width, height), as a PIL image."""
    picture = PIL.Image.fromarray(image.pixels)
    return picture if picture.size == size else picture.resize(size, PIL.Image.Resampling.LANCZOS)


def resize(image: Image, size: Size) -> Image:
    """Resample an image to `size` (width, height); the same object comes back where nothing changes."""
    return image if image.size == size else Image(np.array(to_pil(image, size)))
