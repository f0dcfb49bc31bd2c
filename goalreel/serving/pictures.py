"""Pictures in requests: base64 or data URLs, weighed before they are decoded. Nothing is ever fetched."""

import asyncio
import base64
import binascii
import io
import struct
from collections.abc import Sequence

from starlette.exceptions import HTTPException

from goalreel.errors import InputError
from goalreel.image import Image, check_picture_size

FORMATS = ("PNG", "JPEG", "WEBP")


async def decode_all(pictures: Sequence[bytes], max_pixels: int) -> list[Image]:
    """Decode the pictures of one request, off the event loop.

    Raises:
        HTTPException: 413, together more than `max_pixels`; 400, too thin, not PNG, JPEG or WebP, or broken.
    """
    return await asyncio.to_thread(_decode_all, pictures, max_pixels)


def from_base64(text: str) -> bytes:
    """The bytes of a bare base64 string or a `data:image/...;base64,` URL.

    Raises:
        HTTPException: 400, anything else, above all a URL that would have to be fetched.
    """
    if text.startswith("data:"):
        head, comma, text = text.partition(",")
        if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
            raise HTTPException(400, "a data URL of an image reads data:image/png;base64,...")
    elif "://" in text[:64]:
        raise HTTPException(400, "this server fetches nothing: send the image as a data URL")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as e:
        raise HTTPException(400, "the image is not valid base64") from e


def to_base64(image: Image) -> str:
    """Encode a picture as base64 of its PNG."""
    return base64.b64encode(image.png()).decode()


def _decode_all(pictures: Sequence[bytes], max_pixels: int) -> list[Image]:
    try:
        total = sum(_pixels(data) for data in pictures)
        if total > max_pixels:
            raise HTTPException(413, f"{total} pixels in one request; at most {max_pixels} are allowed")
        return [Image.decode(data) for data in pictures]
    except (ValueError, OSError, SyntaxError, EOFError, struct.error, IndexError, OverflowError) as e:
        # Pillow's parsers raise any of these on a hostile file.
        raise HTTPException(400, "not a readable PNG, JPEG or WebP image") from e


def _pixels(data: bytes) -> int:
    """Width times height, from the header alone; its shape is checked, too."""
    import PIL.Image

    try:
        with PIL.Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            check_picture_size(*picture.size)
            return picture.width * picture.height
    except InputError as e:
        raise HTTPException(400, str(e)) from e
    except PIL.Image.DecompressionBombError as e:
        raise HTTPException(413, "the image has far too many pixels") from e
