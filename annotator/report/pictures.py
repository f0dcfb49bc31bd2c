"""Pictures as the report carries them: JPEG, no larger than a screen needs."""

import base64
import io

import PIL.Image

from goalreel.image import Image

SHOWN = 768
"""Longest side, in pixels, of a picture in a page (also of the enlarged one)."""
THUMBNAIL = 256
"""Longest side, in pixels, of a picture in the list of episodes."""


def shrink(image: Image, side: int) -> PIL.Image.Image:
    """The picture with its longest side at most `side` pixels; a small one is left as it is."""
    picture = PIL.Image.fromarray(image.pixels)
    picture.thumbnail((side, side), PIL.Image.Resampling.LANCZOS, reducing_gap=3.0)
    return picture


def jpeg(image: Image, side: int) -> bytes:
    """Encode as JPEG. Small pictures get full colour resolution: there every pixel shows."""
    picture = shrink(image, side)
    data = io.BytesIO()
    small = max(picture.size) <= THUMBNAIL
    picture.save(data, "JPEG", quality=92 if small else 85, subsampling=0 if small else 2)
    return data.getvalue()


def data_uri(image: Image, side: int = SHOWN) -> str:
    """The picture inside the page itself."""
    return "data:image/jpeg;base64," + base64.b64encode(jpeg(image, side)).decode()
