"""The size that a model works in, and a source's place in it: nothing is stretched or shifted."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import cv2
import numpy as np

from goalreel.image import Image

type Size = tuple[int, int]
"""(width, height) in pixels."""

LARGEST = 1024, 1024
"""The area of a model that names none: some pipelines of diffusers shrink what is larger, unasked."""
_WIDEST = 8
"""The aspect ratio of the thinnest canvas: FLUX.2-klein's pipeline takes none that is thinner."""


@dataclass(frozen=True)
class Placement:
    """A source's place in what a model draws: the middle of a canvas, with its edges repeated around it."""

    canvas: Size
    """The size that the model draws."""
    content: Size
    """The source's own part of the canvas."""

    @property
    def corner(self) -> tuple[int, int]:
        """The column and the row in the canvas where the content begins."""
        return (self.canvas[0] - self.content[0]) // 2, (self.canvas[1] - self.content[1]) // 2

    def place(self, source: Image) -> Image:
        """Resample a source to the content's size, and fill the canvas around it."""
        (width, height), (left, top) = self.content, self.corner
        right, bottom = self.canvas[0] - width - left, self.canvas[1] - height - top
        content = source.resized(self.content)
        if self.content == self.canvas:
            return content
        padded = cv2.copyMakeBorder(content.pixels, top, bottom, left, right, cv2.BORDER_REPLICATE)
        return Image(np.asarray(padded, np.uint8))

    def cut(self, drawn: Image) -> Image:
        """Take the content out of what the model drew, which is first brought to the canvas's size."""
        (width, height), (left, top) = self.content, self.corner
        return Image(drawn.resized(self.canvas).pixels[top : top + height, left : left + width].copy())


def placement(source: Size, size: Size | None, multiple: int, square: bool = False) -> Placement:
    """Choose the canvas in which a source of that size is largest, and its place there.

    The canvas has at most the area of `size`, its sides are multiples of `multiple`, and `square` makes it a
    square. Without a `size`, a source that fits into LARGEST keeps its own, on the next larger multiples. A
    content is its own, so that a picture which an editor made is edited again as it is.

    >>> placement((640, 480), (1024, 1024), 16)
    Placement(canvas=(1184, 880), content=(1173, 880))
    >>> placement((640, 480), (1024, 1024), 16, square=True)
    Placement(canvas=(1024, 1024), content=(1024, 768))
    """
    if size is None:
        across, down = (math.ceil(side / multiple) * multiple for side in source)
        own = (max(across, down),) * 2 if square else (across, down)
        if math.prod(own) <= math.prod(LARGEST) and max(own) <= _WIDEST * min(own):
            return Placement(own, source)

    def rank(canvas: Size) -> tuple[float, int]:
        return min(canvas[0] / source[0], canvas[1] / source[1]), -math.prod(canvas)

    canvas = max(_canvases(math.prod(size or LARGEST), multiple, square), key=rank)
    scale = rank(canvas)[0]
    width, height = (max(1, min(round(a * scale), b)) for a, b in zip(source, canvas, strict=True))
    return Placement(canvas, (width, height))


def _canvases(area: int, multiple: int, square: bool) -> Iterator[Size]:
    """The canvases of at most an area: by each shorter side, the longest."""
    side = max(multiple, math.isqrt(area) // multiple * multiple)
    if square:
        yield side, side
        return
    for short in range(multiple, side + 1, multiple):
        long = max(area // short // multiple * multiple, short)
        if long <= _WIDEST * short:
            yield from ((long, short), (short, long))


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
