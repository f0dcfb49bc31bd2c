"""A picture, and its two forms on disk: PNG bytes, or the name of a frame of a recording."""

import base64
import struct
from collections.abc import Buffer, Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import GetCoreSchemaHandler, SerializationInfo, ValidationInfo
from pydantic_core import core_schema

from goalreel.errors import InputError, first_line
from goalreel.files import read_file

if TYPE_CHECKING:
    import PIL.Image

FRAME = "frame:"
"""A reference to a frame of the recording begins so: `frame:CAMERA#INDEX`."""

SMALLEST, STRETCHED = 8, 2
"""A drawn picture has at least 1/SMALLEST of the sides that were asked for, and not STRETCHED times their
aspect ratio. Models choose their size: a square for 16:9 and 512 pixels for 4K may be."""
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "PPM", "TIFF", "AVIF", "JPEG2000", "TGA")
"""Pillow's names of the formats that are read. An EPS would run a program; an icon holds another picture."""
_DATA_URI = "data:image/png;base64,"
MAX_PIXELS = 64_000_000
MAX_ASPECT = 16
"""The largest ratio of a picture's longer side to its shorter one."""
_TOO_MANY = "an image of so many pixels is too large: send a smaller one"
_AT_ONCE = 4_000_000
"""Pixels of a large picture; those are decoded one at a time, for one takes hundreds of megabytes."""
_LARGE = Lock()

ENCODINGS = {
    "rgb8": (3, ""),
    "bgr8": (3, "BGR2RGB"),
    "rgba8": (4, "RGBA2RGB"),
    "bgra8": (4, "BGRA2RGB"),
    "mono8": (1, "GRAY2RGB"),
    "uyvy": (2, "YUV2RGB_UYVY"),
    "yuv422": (2, "YUV2RGB_UYVY"),
    "yuyv": (2, "YUV2RGB_YUY2"),
    "yuv422_yuy2": (2, "YUV2RGB_YUY2"),
    "nv12": (1, "YUV2RGB_NV12"),
    "nv21": (1, "YUV2RGB_NV21"),
}
"""Encoding -> bytes a pixel of a row, and OpenCV's name of its conversion.

Behind the rows of `nv12` and `nv21` are half as many rows of colour.
"""


def check_picture_size(width: int, height: int) -> None:
    """Refuse the size of a picture that is too large or too thin for a model.

    Raises:
        InputError: it has more than MAX_PIXELS pixels, or one side is over MAX_ASPECT times the other.
    """
    told = f"an image of {width}x{height} pixels is too"
    if width * height > MAX_PIXELS:
        raise InputError(f"{told} large: send a smaller one")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise InputError(f"{told} thin: crop it until one side is at most {MAX_ASPECT} times the other")


def misshapen(size: tuple[int, int], asked: tuple[int, int]) -> str | None:
    """Say that a drawn picture of a `size` is none of the `asked` one; None where it may be.

    >>> misshapen((1024, 1024), (1280, 720))
    >>> misshapen((2, 2), (1024, 1024))
    'its picture of 2 x 2 pixels is none for 1024 x 1024'
    """
    across, down = (a / b for a, b in zip(size, asked, strict=True))
    if min(across, down) * SMALLEST >= 1 and max(across, down) < STRETCHED * min(across, down):
        return None
    return f"its picture of {size[0]} x {size[1]} pixels is none for {asked[0]} x {asked[1]}"


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """An RGB picture: uint8, (height, width, 3). The array becomes read-only.

    `frame` names the recorded frame that the picture shows, as `CAMERA#INDEX` (index within the episode).
    It decides how the picture is stored. Two pictures are equal if their pixels are.

    Examples:
        >>> Image(np.zeros((2, 3, 3), np.uint8)).size
        (3, 2)

    Raises:
        ValueError: the array is not (height, width, 3) uint8, or is empty.
    """

    pixels: NDArray[np.uint8]
    frame: str | None = None

    def __post_init__(self) -> None:
        a = self.pixels
        if a.dtype != np.uint8 or a.ndim != 3 or a.shape[2] != 3 or a.size == 0:
            raise ValueError(f"an image is (height, width, 3) uint8, got {a.shape} {a.dtype}")
        a.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Image) and np.array_equal(self.pixels, other.pixels)

    def __hash__(self) -> int:
        return hash((self.pixels.shape, self.pixels.tobytes()))

    def __repr__(self) -> str:
        return f"Image({self.size[0]}x{self.size[1]}{', ' + self.frame if self.frame else ''})"

    @property
    def recorded(self) -> bool:
        """True if the picture is a frame of a recording."""
        return self.frame is not None and "#" in self.frame

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels."""
        return self.pixels.shape[1], self.pixels.shape[0]

    def resized(self, size: tuple[int, int]) -> "Image":
        """Resample to `size`, (width, height) in pixels; the same object if it has that size."""
        import PIL.Image

        if self.size == size:
            return self
        picture = PIL.Image.fromarray(self.pixels).resize(size, PIL.Image.Resampling.LANCZOS)
        return Image(np.array(picture))

    def within(self, longest: int) -> "Image":
        """Scale down so that the longer side has at most `longest` pixels; the same object if it has."""
        import cv2

        width, height = self.size
        scale = longest / max(width, height)
        if scale >= 1:
            return self
        size = max(1, round(width * scale)), max(1, round(height * scale))
        return Image(np.asarray(cv2.resize(self.pixels, size, interpolation=cv2.INTER_AREA), np.uint8))

    def png(self) -> bytes:
        """Encode as PNG, without loss."""
        return self._encoded(".png")

    def jpeg(self, quality: int) -> bytes:
        """Encode as JPEG, with loss; `quality` is 1 to 100."""
        import cv2

        return self._encoded(".jpg", cv2.IMWRITE_JPEG_QUALITY, quality)

    def _encoded(self, suffix: str, *parameters: int) -> bytes:
        import cv2

        ok, data = cv2.imencode(suffix, self.pixels[:, :, ::-1], parameters)
        if not ok:
            raise ValueError(f"OpenCV could not encode {self} as {suffix}")
        return data.tobytes()

    @classmethod
    def of(cls, picture: "PictureLike") -> "Image":
        """Convert a picture: an Image, the path of a file, a NumPy array or a Pillow image.

        An array has the shape (height, width, 3), in uint8 RGB, and is copied. Files and Pillow images may
        have any mode; they are converted to 8-bit RGB and turned upright.

        Raises:
            InputError: the file cannot be read or is no picture, the array has another shape or type, or the
                picture is too large or too thin (see `check_picture_size`).
            TypeError: `picture` is of none of these types.
        """
        if isinstance(picture, Image):
            return picture
        if isinstance(picture, np.ndarray):
            try:
                image = cls(picture.copy())
            except ValueError as e:
                raise InputError(str(e)) from e
            check_picture_size(*image.size)
            return image
        if isinstance(picture, str | PathLike):
            try:
                return cls.decode(read_file(Path(picture)))
            except OSError as e:
                raise InputError(f"{picture}: cannot be read ({e.strerror})") from e
            except InputError as e:
                raise InputError(f"{picture}: {e}") from e
        import PIL.Image

        if isinstance(picture, PIL.Image.Image):
            with _damage_is_told():
                if picture.format in ("EPS", "ICNS", "ICO"):
                    raise PIL.UnidentifiedImageError
                _check_memory(picture)
                return cls(_pixels(picture))
        kind = f"{type(picture).__module__}.{type(picture).__qualname__}".removeprefix("builtins.")
        raise TypeError(f"a picture is a path, a NumPy array, a PIL image or a goalreel.Image, not {kind}")

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a picture of one of `FORMATS` as 8-bit RGB, turned upright.

        Raises:
            InputError: it is no image, or is too large or too thin (see `check_picture_size`).
        """
        with open_picture(data) as picture:
            return cls(_pixels(picture))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type, handler: GetCoreSchemaHandler) -> Any:
        return core_schema.with_info_plain_validator_function(
            _from_json,
            json_schema_input_schema=core_schema.str_schema(),  # a file beside it, or a data: URI
            serialization=core_schema.plain_serializer_function_ser_schema(
                _to_json, info_arg=True, when_used="json"
            ),
        )


type PictureLike = Image | str | PathLike[str] | NDArray[np.uint8] | "PIL.Image.Image"
"""Pictures that `Image.of` takes."""


@contextmanager
def open_picture(data: bytes, formats: tuple[str, ...] = FORMATS) -> Iterator["PIL.Image.Image"]:
    """Open a picture of one of Pillow's `formats` by its header, to look at it.

    Raises:
        InputError: it is damaged in whatever way, too large or too thin, then or while it is looked at.
    """
    import io

    import PIL.Image

    with _damage_is_told(), PIL.Image.open(io.BytesIO(data), formats=formats) as picture:
        _check_memory(picture)
        yield picture


@contextmanager
def _damage_is_told() -> Iterator[None]:
    """Call all that Pillow raises damage."""
    import PIL.Image

    try:
        yield
    except InputError:
        raise
    except PIL.Image.DecompressionBombError as e:
        raise InputError(_TOO_MANY) from e
    except PIL.UnidentifiedImageError as e:  # its message is the address of a buffer
        raise InputError(f"not a readable image: send one of {', '.join(FORMATS)}") from e
    except Exception as e:
        raise InputError(f"not a readable image: {first_line(e)}") from e


def _check_memory(picture: "PIL.Image.Image") -> None:
    """Refuse a picture that is too large before it is decoded."""
    check_picture_size(*picture.size)
    depth = 2 if any("16" in str(tile[3]) for tile in getattr(picture, "tile", None) or ()) else 1
    if picture.width * picture.height * len(picture.getbands()) * depth > 4 * MAX_PIXELS:
        raise InputError(_TOO_MANY)


def _pixels(picture: "PIL.Image.Image") -> NDArray[np.uint8]:
    """RGB, uint8, (height, width, 3), upright. Large pictures are decoded one at a time, and by strips."""
    with _LARGE if picture.width * picture.height > _AT_ONCE else nullcontext():
        picture.load()  # before which EXIF may be unread
        width, height = picture.size
        pixels = np.empty((height, width, 3), np.uint8)
        strip = max(1, _AT_ONCE // (4 * width))
        for top in range(0, height, strip):
            bottom = min(height, top + strip)
            pixels[top:bottom] = _eight_bits(picture.crop((0, top, width, bottom)))
        return _upright(pixels, picture)


def _eight_bits(picture: "PIL.Image.Image") -> NDArray[np.uint8]:
    """RGB, what is transparent on white; of 16 bits of grey the upper 8, and of a float 0 to 1.

    Pillow does so with 16 bits of colour, but it would clip the grey and show what transparency hides.
    """
    import PIL.Image

    if picture.has_transparency_data:
        rgba = picture.convert("RGBA")
        white = PIL.Image.new("RGBA", rgba.size, "white")
        return np.array(PIL.Image.alpha_composite(white, rgba).convert("RGB"))
    if picture.mode == "F":
        grey = (np.nan_to_num(np.array(picture)).clip(0, 1) * 255).round().astype(np.uint8)
    elif picture.mode.startswith("I"):
        grey = (np.array(picture).clip(0, 0xFFFF) >> 8).astype(np.uint8)
    else:
        return np.array(picture.convert("RGB"))
    return np.repeat(grey[:, :, None], 3, axis=2)


def _upright(pixels: NDArray[np.uint8], picture: "PIL.Image.Image") -> NDArray[np.uint8]:
    """Turn pixels as EXIF says. Pillow's own `exif_transpose` fails where any other tag is damaged."""
    try:
        orientation = picture.getexif().get(0x0112)  # Pillow has applied and removed that of a TIFF
    except (struct.error, KeyError, SyntaxError, TypeError, ValueError, ZeroDivisionError):
        return pixels  # what Pillow forgives in a JPEG, too
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)


type GetImage = Callable[[str], Image]


def _to_json(image: Image, info: SerializationInfo) -> str:
    put: Callable[[Image], str] | None = (info.context or {}).get("put_image")
    return put(image) if put else _DATA_URI + base64.b64encode(image.png()).decode()


def _from_json(value: object, info: ValidationInfo) -> Image:
    if isinstance(value, Image):
        return value
    if not isinstance(value, str):
        raise ValueError(f"expected an image, got {type(value).__name__}")
    if value.startswith(_DATA_URI):
        return Image.decode(base64.b64decode(value.removeprefix(_DATA_URI), validate=True))
    get: GetImage | None = (info.context or {}).get("get_image")
    if get is None:
        raise ValueError(f"image {value!r} is stored elsewhere: load it through its storyboard's folder")
    return get(value)


def stand_in(reference: str) -> Image:
    """Make a picture that only says which one it is."""
    return Image(np.zeros((1, 1, 3), np.uint8), frame=reference)


def recorded_frame(reference: str | None) -> tuple[str, int] | None:
    """Read camera and index of a reference to a frame of the recording; None of any other reference."""
    if reference is None or not reference.startswith(FRAME):
        return None
    camera, _, index = reference.removeprefix(FRAME).rpartition("#")
    return (camera, int(index)) if index.isdecimal() else None


def reference_of(image: Image) -> str:
    """Name the picture that a stand-in stands for.

    Raises:
        ValueError: it stands for none.
    """
    if image.frame is None:
        raise ValueError("a picture that is not stored")
    return image.frame


def decode_raw(encoding: str, height: int, width: int, step: int, data: Buffer) -> Image:
    """The picture of a `sensor_msgs/msg/Image`; it owns its pixels. `step` is the length of a row in bytes.

    Raises:
        InputError: an encoding that is no 8-bit colour or grey picture, a size that `check_picture_size`
            refuses, or fields that contradict one another.
    """
    if encoding not in ENCODINGS:
        raise InputError(
            f"image encoding {encoding!r} is no colour or grey of 8 bits ({', '.join(ENCODINGS)}): "
            "choose the camera's colour topic, behind image_proc's debayer node if it is a bayer one"
        )
    if height < 1 or width < 1:
        raise InputError(f"an empty image of {width}x{height} pixels: check the camera driver")
    check_picture_size(width, height)
    channels, conversion = ENCODINGS[encoding]
    planar = encoding.startswith("nv")
    row, rows = width * channels, height + height // 2 if planar else height
    flat = np.frombuffer(data, np.uint8)
    odd = "YUV" in conversion and (width % 2 or (planar and height % 2))
    if odd or step < row or flat.size < step * rows:
        raise InputError(
            f"step {step} and {flat.size} bytes do not hold {width}x{height} pixels of {encoding}: "
            "check the camera driver"
        )
    pixels = flat[: step * rows].reshape(rows, step)[:, :row].reshape(rows, width, channels)
    if not conversion:
        return Image(pixels.copy())
    import cv2

    return Image(np.asarray(cv2.cvtColor(pixels, getattr(cv2, f"COLOR_{conversion}")), np.uint8))


def decode_compressed(data: Buffer, form: str = "") -> Image:
    """The picture of a `sensor_msgs/msg/CompressedImage`: JPEG, PNG, WebP. `form` is its field `format`.

    Raises:
        InputError: empty, not readable, a size that `check_picture_size` refuses, or a depth map; what `form`
            says that is no colour picture.
    """
    encoding, transported, _ = form.partition(";")
    lost = transported and encoding.startswith(("bayer", "16", "32", "64"))  # in a JPEG or PNG
    if "compressedDepth" in form or lost:
        raise InputError(f"format {form!r} is no colour picture: choose the camera's colour topic")
    if not (data := bytes(data)):
        raise InputError("an empty compressed image: check the camera driver")
    with open_picture(data) as picture:
        if picture.mode.startswith(("I", "F")):
            raise InputError("a compressed depth map is no picture: choose the camera's colour topic")
        return Image(_pixels(picture))
