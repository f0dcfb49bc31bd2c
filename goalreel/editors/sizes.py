"""The working size of a model, and resampling to it."""

import math

import PIL.Image

from goalreel.image import Image

type Size = tuple[int, int]
"""(width, height) in pixels."""


def working_size(source: Size, size: Size | None, multiple: int) -> Size:
    """Return the size that has the source's aspect ratio and `size`'s area, each side rounded to `multiple`.

    A working size is its own, so that a picture which an editor made is edited again as it is.

    >>> working_size((640, 480), (1024, 1024), 16)
    (1184, 880)
    >>> working_size((1184, 880), (1024, 1024), 16)
    (1184, 880)
    """
    if size is not None and _is_working_size(source, size[0] * size[1], multiple):
        return source
    width, height = source
    scale = 1.0 if size is None else math.sqrt(size[0] * size[1] / (width * height))
    return _snap(width * scale, multiple), _snap(height * scale, multiple)


def _is_working_size(size: Size, area: int, multiple: int) -> bool:
    """Whether sides of exactly that area can be rounded to this size.

    A scale from the rounded sides would change a picture of unequal sides a little at every step.
    """
    if any(side % multiple for side in size):
        return False
    # Twice each side's bounds, in integers; the shortest side there is stands for all below it.
    smallest = math.prod(0 if side == multiple else 2 * side - multiple for side in size)
    largest = math.prod(2 * side + multiple for side in size)
    return smallest <= 4 * area <= largest


def _snap(length: float, multiple: int) -> int:
    return max(multiple, round(length / multiple) * multiple)


def to_pil(image: Image, size: Size) -> PIL.Image.Image:
    """Resample an image to `size` (width, height), as a PIL image."""
    return PIL.Image.fromarray(image.resized(size).pixels)
