"""Text and images in reading order: each `<image>` mark in a text is the place of one image.

A mark counts only in text that asks for images. All other text, of a model or of a person, passes through
`plain` first, so that no back end can mistake a mark in it for a picture.
"""

import math
from collections.abc import Sequence

from goalreel.chat.conversation import MessagePart
from goalreel.image import Image

MARK = "<image>"
MANY = 5
MAX_PIXELS = 384 * 384
"""The area that each of `MANY` pictures has at most (the `max_pixels` of InterleaveThinker's code)."""


def interleave(text: str, images: Sequence[Image]) -> tuple[MessagePart, ...]:
    """Put images at the marks of `text`, in order; from `MANY` on, each has `MAX_PIXELS` at most.

    >>> interleave("Tie it.", ())
    ('Tie it.',)

    Raises:
        ValueError: the number of images differs from the number of marks.
    """
    texts = text.split(MARK)
    if len(texts) - 1 != len(images):
        raise ValueError(f"{len(images)} image(s) for {len(texts) - 1} {MARK} mark(s): give one image a mark")
    if len(images) >= MANY:
        images = [shrink(image, MAX_PIXELS) for image in images]
    parts: list[MessagePart] = [texts[0]]
    for image, following in zip(images, texts[1:], strict=True):
        parts += [image, following]
    return tuple(p for p in parts if not isinstance(p, str) or p.strip())


def plain(text: str) -> str:
    """Make the image marks of a text harmless."""
    return text.replace(MARK, "[image]")


def shrink(image: Image, pixels: int) -> Image:
    """Bring an image to an area of at most `pixels`, its aspect ratio kept; never enlarge it."""
    import cv2

    width, height = image.size
    if width * height <= pixels:
        return image
    size = max(1, math.isqrt(pixels * width // height)), max(1, math.isqrt(pixels * height // width))
    return Image(cv2.resize(image.pixels, size, interpolation=cv2.INTER_AREA).astype("uint8"))
