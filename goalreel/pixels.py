"""Decode the bytes of a ROS camera message, live or from a bag, without ROS.

Encodings are those of `sensor_msgs/image_encodings.hpp` with 8 bits a channel, so byte order never matters;
`nv12` is what drivers call it that are older than the list.
"""

from collections.abc import Buffer

import numpy as np

from goalreel.errors import InputError
from goalreel.image import Image, check_picture_size

CHANNELS = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "mono8": 1}
"""Encoding -> bytes a pixel."""
YUV = {"uyvy": 2, "yuv422": 2, "yuyv": 2, "yuv422_yuy2": 2, "nv12": 1, "nv21": 1}
"""Encoding with brightness apart from colour -> bytes a pixel of a row; `yuv422` is `uyvy`.

Behind the rows of `nv12` and `nv21` are half as many rows of colour.
"""
ENCODINGS = (*CHANNELS, *YUV)
NON_COLOUR_PREFIXES = ("bayer", "16", "32", "64")
"""Prefixes of encodings that lose their meaning in a JPEG or PNG."""


def decode_raw(encoding: str, height: int, width: int, step: int, data: Buffer) -> Image:
    """The picture of a `sensor_msgs/msg/Image`; it owns its pixels. `step` is the length of a row in bytes.

    Raises:
        InputError: an encoding that is no 8-bit colour or grey picture, a size that `check_picture_size`
            refuses, or fields that contradict one another; one line that says what to do.
    """
    if encoding not in ENCODINGS:
        raise InputError(f"image encoding {encoding!r} {_advice(encoding)} ({', '.join(ENCODINGS)})")
    if height < 1 or width < 1:
        raise InputError(f"an empty image of {width}x{height} pixels: check the camera driver")
    check_picture_size(width, height)
    planar = encoding.startswith("nv")
    channels = YUV.get(encoding) or CHANNELS[encoding]
    row, rows = width * channels, height + height // 2 if planar else height
    flat = np.frombuffer(data, np.uint8)
    odd = encoding in YUV and (width % 2 or (planar and height % 2))
    if odd or step < row or flat.size < step * rows:
        raise InputError(
            f"step {step} and {flat.size} bytes do not hold {width}x{height} pixels of {encoding}: "
            "check the camera driver"
        )
    pixels = flat[: step * rows].reshape(rows, step)[:, :row]
    return Image(_rgb(encoding, pixels.reshape(rows, width, channels)))


def decode_compressed(data: Buffer, form: str = "") -> Image:
    """The picture of a `sensor_msgs/msg/CompressedImage`: JPEG, PNG, WebP. `form` is its field `format`.

    Raises:
        InputError: empty, not readable, a size that `check_picture_size` refuses, or a depth map; what `form`
            says that is no colour picture.
    """
    import io

    import PIL.Image

    encoding, transported, _ = form.partition(";")
    if "compressedDepth" in form or (transported and encoding.startswith(NON_COLOUR_PREFIXES)):
        raise InputError(f"format {form!r} is no colour picture: choose the camera's colour topic")
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
        "uyvy": cv2.COLOR_YUV2RGB_UYVY,
        "yuv422": cv2.COLOR_YUV2RGB_UYVY,
        "yuyv": cv2.COLOR_YUV2RGB_YUY2,
        "yuv422_yuy2": cv2.COLOR_YUV2RGB_YUY2,
        "nv12": cv2.COLOR_YUV2RGB_NV12,
        "nv21": cv2.COLOR_YUV2RGB_NV21,
    }[encoding]
    return np.asarray(cv2.cvtColor(pixels, code), np.uint8)


def _advice(encoding: str) -> str:
    """Why an encoding is refused and what to choose instead."""
    if encoding.startswith("bayer"):
        return "is an undeveloped picture: run image_proc's debayer node and use its colour topic"
    if encoding.startswith(("16", "32", "64")) or encoding.endswith("16"):
        return "is a depth map or has more than 8 bits a channel: choose the camera's colour topic"
    if encoding.startswith("8UC"):
        return "leaves the order of colours open: let the camera driver name one of those known"
    return "is not supported: convert it to one of those known"
