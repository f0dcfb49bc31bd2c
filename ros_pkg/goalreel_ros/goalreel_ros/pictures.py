"""Camera messages to Images, and Images to messages. An unchanged picture is encoded once."""

import threading
from array import array
from collections.abc import Buffer, Callable, Iterable

import cv2
import numpy as np
from sensor_msgs.msg import CompressedImage
from sensor_msgs.msg import Image as RawImage
from std_msgs.msg import Header

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.pixels import decode_compressed, decode_raw
from goalreel.streaming.board import Board

NO_PICTURE = ("bayer", "16", "32", "64")
"""How the encodings begin that lose their meaning in a JPEG or PNG."""


def decode(message: RawImage | CompressedImage) -> Image:
    """Decode a camera's picture.

    Raises:
        ValueError: not a picture; one line that says what to do.
    """
    data = octets(message.data)
    if isinstance(message, RawImage):
        return decode_raw(message.encoding, message.height, message.width, message.step, data)
    encoding, transported, _ = message.format.partition(";")
    if "compressedDepth" in message.format or (transported and encoding.startswith(NO_PICTURE)):
        raise InputError(f"format {message.format!r} is no colour picture: choose the camera's colour topic")
    return decode_compressed(data)


def octets(data: object) -> Buffer:
    """Give what a `uint8[]` field holds as bytes, copied only where the field itself gives no access.

    Raises:
        InputError: it holds something else.
    """
    # Up to Kilted the field is an array.array. Since Lyrical it may be a `rosidl_buffer.Buffer`, when the
    # picture came in a vendor's memory (ros2/rosidl pull request 943, ros2/rosidl_python 250): its versions
    # have the buffer protocol, or `to_bytes` alone. Other bridges to GPU memory offer `__array__`.
    if isinstance(data, Buffer):
        return data
    to_bytes: Callable[[], bytes] | None = getattr(data, "to_bytes", None)
    if to_bytes is not None:
        return to_bytes()
    if hasattr(data, "__array__"):
        return np.ascontiguousarray(data, np.uint8)
    raise InputError(f"image data of type {type(data).__name__} cannot be read: send it as plain uint8[]")


def raw(image: Image, header: Header) -> RawImage:
    """As rgb8."""
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
    """Make what stands for "no picture" where consumers know pictures only, as in annotated datasets."""
    return Image(np.zeros((size[1], size[0], 3), np.uint8))


class Jpegs:
    """Encodes pictures, and remembers those of the present board. Any thread may call."""

    def __init__(self, quality: int) -> None:
        self._quality = quality
        self._lock = threading.Lock()
        self._known: dict[int, tuple[Image, array]] = {}

    def compressed(self, image: Image | None, header: Header) -> CompressedImage:
        """Make a JPEG message, without data where there is no image."""
        data = array("B") if image is None else self._encode(image)
        return CompressedImage(header=header, format="jpeg", data=data)

    def passing(self, image: Image, header: Header) -> CompressedImage:
        """As `compressed`, of a picture that does not come again."""
        with self._lock:
            quality = self._quality
        return CompressedImage(header=header, format="jpeg", data=_jpeg(image, quality))

    def set_quality(self, quality: int) -> None:
        """Set the JPEG quality, 1-100, of pictures from now on."""
        with self._lock:
            self._quality = quality
            self._known = {}

    def keep(self, board: Board) -> None:
        """Forget the pictures that are not on the board."""
        live = {id(image) for image in _images(board)}
        with self._lock:
            self._known = {k: v for k, v in self._known.items() if k in live}

    def _encode(self, image: Image) -> array:
        with self._lock:
            quality, known = self._quality, self._known.get(id(image))
        if known is not None:
            return known[1]
        encoded = _jpeg(image, quality)
        with self._lock:
            if quality == self._quality:
                # The image is kept with its bytes: its id is its own for as long as it lives.
                self._known[id(image)] = (image, encoded)
        return encoded


def _jpeg(image: Image, quality: int) -> array:
    ok, data = cv2.imencode(".jpg", image.pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not ok:
        raise ValueError(f"OpenCV could not encode {image} as JPEG")
    return array("B", data.tobytes())


def _images(board: Board) -> Iterable[Image]:
    if board.source is not None:
        yield board.source.image
    for panel in board.steps:
        if panel.attempt is not None and panel.attempt.image is not None:
            yield panel.attempt.image
