"""Pictures on a canvas of another aspect ratio, and cut out of one again: nothing is ever stretched."""

import math
from collections.abc import Iterable

from goalreel.editors.sizes import Placement, Size
from goalreel.image import Image


def nearest_aspect(size: Size, aspects: Iterable[Size]) -> Size:
    """Return the one of `aspects` (width and height, to no scale) that is nearest to the shape of `size`.

    >>> nearest_aspect((640, 480), [(1024, 1024), (1536, 1024), (1024, 1536)])
    (1536, 1024)
    """
    return min(aspects, key=lambda aspect: abs(math.log(size[0] * aspect[1] / (size[1] * aspect[0]))))


def canvas_size(size: Size, aspect: Size) -> Size:
    """Return the smallest size of that aspect ratio that holds `size`.

    >>> canvas_size((640, 480), (1536, 1024))
    (720, 480)
    """
    (width, height), (across, down) = size, aspect
    if width * down >= height * across:
        return width, round(width * down / across)
    return round(height * across / down), height


def on_canvas(image: Image, aspect: Size) -> Image:
    """Put a picture in the middle of a canvas of that aspect ratio; its edges are repeated outwards."""
    return Placement(canvas_size(image.size, aspect), image.size).place(image)


def from_canvas(picture: Image, size: Size, aspect: Size) -> Image:
    """Cut the picture that had `size` out of an edited canvas of that aspect ratio, at the canvas's scale.

    Where the answer has another aspect ratio, its middle part counts as the canvas.
    """
    canvas = canvas_size(size, aspect)
    scales = [drawn / side for drawn, side in zip(picture.size, canvas, strict=True)]
    if picture.size[0] * aspect[1] != picture.size[1] * aspect[0]:
        scales = [min(scales)] * 2
    starts, lengths = [], []
    for drawn, side, length, scale in zip(picture.size, canvas, size, scales, strict=True):
        cut = max(1, round(length * scale))
        start = round((drawn - side * scale) / 2 + (side - length) // 2 * scale)
        starts.append(min(start, drawn - cut))
        lengths.append(cut)
    (left, top), (width, height) = starts, lengths
    return Image(picture.pixels[top : top + height, left : left + width].copy())
