"""Converts camera messages to Images and Images to messages. An unchanged picture is encoded only once."""

import threading
from array import array
from collections.abc import Iterable

import numpy as np
from sensor_msgs.msg import CompressedImage
from sensor_msgs.msg import Image as RawImage
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
        self._quality = quality
        self._lock = threading.Lock()
        self._cache: dict[int, tuple[Image, array]] = {}

    def message(self, image: Image | None, header: Header) -> CompressedImage:
        """Make a JPEG message, without data where there is no image."""
        data = array("B") if image is None else self._encode(image)
        return CompressedImage(header=header, format="jpeg", data=data)

    def message_once(self, image: Image, header: Header) -> CompressedImage:
        """Make a JPEG message of a picture that will not be used again, without caching it."""
        with self._lock:
            quality = self._quality
        return CompressedImage(header=header, format="jpeg", data=array("B", image.jpeg(quality)))

    def set_quality(self, quality: int) -> None:
        """Set the JPEG quality, 1-100, of pictures from now on."""
        with self._lock:
            self._quality = quality
            self._cache = {}

    def drop_others(self, board: Board) -> None:
        """Drop the pictures that are not on the board from the cache."""
        live = {id(image) for image in _images(board)}
        with self._lock:
            self._cache = {k: v for k, v in self._cache.items() if k in live}

    def _encode(self, image: Image) -> array:
        with self._lock:
            quality, entry = self._quality, self._cache.get(id(image))
        if entry is not None:
            return entry[1]
        encoded = array("B", image.jpeg(quality))
        with self._lock:
            if quality == self._quality:
                # The cache holds the image too: its id is unique only while it exists.
                self._cache[id(image)] = (image, encoded)
        return encoded


def _images(board: Board) -> Iterable[Image]:
    if board.source is not None:
        yield board.source.image
    for panel in board.steps:
        if panel.attempt is not None and panel.attempt.image is not None:
            yield panel.attempt.image
