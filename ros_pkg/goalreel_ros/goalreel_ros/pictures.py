# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""Converts camera messages to Images and Images to messages. An unchanged picture is encoded only once."""

from array import array

import numpy as np
from sensor_msgs.msg import CompressedImage, Image as RawImage
from std_msgs.msg import Header

from goalreel.image import Image, decode_compressed, decode_raw
from goalreel.streaming.board import Board


def decode(message: RawImage | CompressedImage) -> Image:
    """Decode a camera's picture.

    Raises:
        ValueError: it is no colour picture; one line that says what to do.
    """
    if isinstance(message, RawImage):
        return decode_raw(message.encoding, message.height, message.width, message.step, message.data)
    return decode_compressed(message.data, message.format)


def raw(image: Image, header: Header) -> RawImage:
    """Make a raw image message, encoded as rgb8."""
    width, height = image.size
    return RawImage(
        header=header,
        height=height,
        width=width,
        encoding="rgb8",
        step=3 * width,
        # An ndarray here would be copied element by element, 100 times slower.
        data=array("B", image.pixels.tobytes()),
    )


def black(size: tuple[int, int]) -> Image:
    """Make a black picture of `size` (width, height), which stands for "no picture", as in datasets."""
    return Image(np.zeros((size[1], size[0], 3), np.uint8))


class Jpegs:
    """Encodes pictures, and caches those of the present board. Safe from any thread."""

    def __init__(self, quality: int) -> None:
        self.quality = quality
        """JPEG quality, 1-100, of pictures from now on."""
        self._cache: dict[tuple[int, int], tuple[Image, array]] = {}

    def message(self, image: Image | None, header: Header) -> CompressedImage:
        """Make a JPEG message, without data where there is no image."""
        if image is None:
            return CompressedImage(header=header, format="jpeg")
        key = id(image), self.quality
        if (entry := self._cache.get(key)) is None:
            # The cache holds the image too: its id is unique only while it exists.
            entry = self._cache[key] = image, array("B", image.jpeg(key[1]))
        return CompressedImage(header=header, format="jpeg", data=entry[1])

    def message_once(self, image: Image, header: Header) -> CompressedImage:
        """Make a JPEG message of a picture that will not be used again, without caching it."""
        return CompressedImage(header=header, format="jpeg", data=array("B", image.jpeg(self.quality)))

    def drop_others(self, board: Board) -> None:
        """Drop the pictures that are not on the board from the cache."""
        attempts = (panel.attempt for panel in board.steps)
        images = [attempt.image for attempt in attempts if attempt is not None]
        images += [board.source.image] if board.source is not None else []
        live = {(id(image), self.quality) for image in images}
        self._cache = {key: entry for key, entry in tuple(self._cache.items()) if key in live}
