"""Decode the bytes of a ROS camera message, live or from a bag, without ROS.

Encodings are those of `sensor_msgs/image_encodings.hpp` with 8 bits a channel, so byte order never matters.
"""

from collections.abc import Buffer

import numpy as np

from goalreel.errors import InputError
from goalreel.image import MAX_PIXELS, Image

CHANNELS = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "mono8": 1}
"""Encoding -> bytes a pixel."""


def decode_raw(encoding: str, height: int, width: int, step: int, data: Buffer) -> Image:
    """The picture of a `sensor_msgs/msg/Image`; it owns its pixels. `step` is the length of a row in bytes.

    Raises:
        InputError: an encoding that is no 8-bit colour or grey picture, more than MAX_PIXELS pixels, or
            fields that contradict one another; one line that says what to do.
    """
    if encoding not in CHANNELS:
        raise InputError(f"image encoding {encoding!r} {_advice(encoding)} ({', '.join(CHANNELS)})")
    if height < 1 or width < 1:
        raise InputError(f"an empty image of {width}x{height} pixels: check the camera driver")
    if height * width > MAX_PIXELS:
        raise InputError(f"an image of {width}x{height} pixels is too large: send a smaller one")
    channels, row = CHANNELS[encoding], width * CHANNELS[encoding]
    flat = np.frombuffer(data, np.uint8)
    if step < row or flat.size < step * height:
        raise InputError(
            f"step {step} and {flat.size} bytes do not hold {width}x{height} pixels of {encoding}: "
            "check the camera driver"
        )
    rows = flat[: step * height].reshape(height, step)[:, :row]
    return Image(_rgb(encoding, rows.reshape(height, width, channels)))


def decode_compressed(data: Buffer) -> Image:
    """The picture of a `sensor_msgs/msg/CompressedImage`: JPEG, PNG, WebP.

    Raises:
        InputError: empty, not readable, more than MAX_PIXELS pixels, or a depth map.
    """
    import io

    import PIL.Image

    data = bytes(data)
    if not data:
        raise InputError("an empty compressed image: check the camera driver")
    image = Image.decode(data)
    with PIL.Image.open(io.BytesIO(data)) as picture:
        if picture.mode.startswith(("I", "F")):
            raise InputError("a compressed depth map is no picture: choose the camera's colour topic")
    return image


def _rgb(encoding: str, pixels: np.ndarray) -> np.ndarray:
    import cv2

    if encoding == "rgb8":
        return pixels.copy()
    code = {
        "bgr8": cv2.COLOR_BGR2RGB,
        "rgba8": cv2.COLOR_RGBA2RGB,
        "bgra8": cv2.COLOR_BGRA2RGB,
        "mono8": cv2.COLOR_GRAY2RGB,
    }[encoding]
    return np.asarray(cv2.cvtColor(pixels, code), np.uint8)


def _advice(encoding: str) -> str:
    """Why an encoding is refused and what to choose instead."""
    if encoding.startswith("bayer"):
        return "is an undeveloped picture: run image_proc's debayer node and use its colour topic"
    if encoding.startswith(("16", "32", "64", "mono16")):
        return "is a depth map or has more than 8 bits a channel: choose the camera's colour topic"
    if encoding.startswith("8UC"):
        return "leaves the order of colours open: let the camera driver name one of those known"
    return "is not supported: convert it to one of those known"
