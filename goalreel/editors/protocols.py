"""The requests and replies of each kind of image server. Nothing is sent here."""

import base64
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any
from typing import Protocol as TypingProtocol

import cv2
import httpx2
import numpy as np

from goalreel.editors.sizes import Size
from goalreel.http_client import error_text
from goalreel.image import Image
from goalreel.types import Edit

SQUARE = 1024
"""The side in pixels of a picture that every server of fixed sizes takes."""


type Fetch = Callable[[str], Image]
"""Gets the picture at an address."""


class Protocol(TypingProtocol):
    """The HTTP protocol of one kind of image server, for RemoteEditor."""

    @property
    def url(self) -> str: ...
    @property
    def optional(self) -> tuple[str, ...]:
        """The fields of a request that a server may refuse."""
        ...

    def request(self, edit: Edit, refused: Collection[str] = ()) -> httpx2.Request:
        """Build the request that asks for `edit`, without the fields that were `refused`."""
        ...

    def image(self, edit: Edit, body: bytes, fetch: Fetch | None = None) -> Image:
        """Decode the picture in a reply of status 200, in the source's shape and the server's size.

        A picture that the server stores is got with `fetch`.

        Raises:
            ValueError: there is none.
        """
        ...


@dataclass(frozen=True)
class OpenAIImages:
    """An OpenAI-compatible API: `/images/edits` (multipart) and, without a picture, `/images/generations`."""

    url: str
    """Up to and with `/v1`."""
    model: str
    _: KW_ONLY
    fixed_sizes: bool = True
    """The server draws squares: a picture goes out as the middle of one, and is cut from the answer."""
    seeded: bool = False
    """Send `seed`, which OpenAI's own API lacks."""

    @property
    def optional(self) -> tuple[str, ...]:
        """The fields that some servers refuse."""
        return ("response_format", "size", "n", "seed")

    def request(self, edit: Edit, refused: Collection[str] = ()) -> httpx2.Request:
        """Build the HTTP request that asks for `edit`, without the fields that were `refused`."""
        fields = {"model": self.model, "prompt": edit.prompt, "n": "1"}
        # OpenAI's own models answer with b64_json anyway, and refuse to be told so.
        if "gpt-image" not in self.model:
            fields["response_format"] = "b64_json"
        if self.fixed_sizes:
            fields["size"] = f"{SQUARE}x{SQUARE}"
        if self.seeded:
            fields["seed"] = str(edit.seed)
        fields = {name: value for name, value in fields.items() if name not in refused}
        if edit.image is None:
            numbers = {k: int(fields[k]) for k in ("n", "seed") if k in fields}
            return httpx2.Request("POST", f"{self.url}/images/generations", json={**fields, **numbers})
        sent = to_square(edit.image) if self.fixed_sizes else edit.image
        files = {"image": ("source.png", sent.png(), "image/png")}
        return httpx2.Request("POST", f"{self.url}/images/edits", data=fields, files=files)

    def image(self, edit: Edit, body: bytes, fetch: Fetch | None = None) -> Image:
        """Decode the first picture of a reply's `data`, in the source's shape."""
        first = self._first(body)
        address = "" if first.get("b64_json") else str(first.get("url"))
        if fetch is not None and address.startswith(("http://", "https://")):
            picture = fetch(address)
        else:
            picture = _picture(first, "url" if address.startswith("data:") else "b64_json")
        if edit.image is None or not self.fixed_sizes:
            return picture
        return from_square(picture, edit.image.size)

    def _first(self, body: bytes) -> dict[str, Any]:
        reply = _object(body)
        data = reply.get("data")
        if reply.get("error") and not data:
            raise ValueError(error_text(body))
        first = data[0] if isinstance(data, list) and data else None
        return first if isinstance(first, dict) else {}


def goalreel_server(url: str) -> OpenAIImages:
    """Describe `goalreel serve` at `url`: the same API, seeded, in the size that its editor works in."""
    return OpenAIImages(f"{url}/v1", "editor", fixed_sizes=False, seeded=True)


@dataclass(frozen=True)
class InterleaveThinkerServer:
    """InterleaveThinker's edit server (its `inference/server/apis/klein_api.py`, read 2026-11).

    `POST /edit` takes JSON `{"image": base64 or null, "prompt", "seed"}` and answers
    `{"success", "edited_image": base64, "error", ...}`, refusals as `{"detail"}`; it always draws
    1024 x 1024.
    """

    url: str

    @property
    def optional(self) -> tuple[str, ...]:
        """No field: the server reads all three."""
        return ()

    def request(self, edit: Edit, refused: Collection[str] = ()) -> httpx2.Request:
        """Build the HTTP request that asks for `edit`; the server refuses no field."""
        image = None if edit.image is None else base64.b64encode(to_square(edit.image).png()).decode()
        fields = {"image": image, "prompt": edit.prompt, "seed": edit.seed}
        return httpx2.Request("POST", f"{self.url}/edit", json=fields)

    def image(self, edit: Edit, body: bytes, fetch: Fetch | None = None) -> Image:
        """Decode a reply's `edited_image`, in the source's shape."""
        reply = _object(body)
        if reply.get("success") is False:
            raise ValueError(str(reply.get("error") or "it says that it failed"))
        picture = _picture(reply, "edited_image")
        return picture if edit.image is None else from_square(picture, edit.image.size)


def to_square(image: Image) -> Image:
    """Put a picture in the middle of a square, its edges repeated outwards, so that nothing is stretched."""
    width, height = image.size
    side = max(width, height)
    left, top = (side - width) // 2, (side - height) // 2
    right, bottom = side - width - left, side - height - top
    square = cv2.copyMakeBorder(image.pixels, top, bottom, left, right, cv2.BORDER_REPLICATE)
    return Image(square.astype(np.uint8, copy=False))


def from_square(image: Image, size: Size) -> Image:
    """Cut the picture that had `size` (width, height) out of an edited square, at the square's scale.

    Of a server that drew no square, the middle square is taken: nothing is stretched.
    """
    side, drawn = max(size), min(image.size)
    x, y = ((length - drawn) // 2 for length in image.size)
    square = image.pixels[y : y + drawn, x : x + drawn]
    left, top, width, height = (
        round(length * drawn / side) for length in ((side - size[0]) // 2, (side - size[1]) // 2, *size)
    )
    return Image(square[top : top + height, left : left + width].copy())


def _object(body: bytes) -> dict[str, Any]:
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError) as e:
        raise ValueError("not JSON") from e
    if not isinstance(reply, dict):
        raise ValueError("not a JSON object")
    return reply


def _picture(reply: Mapping[str, object], field: str) -> Image:
    encoded = reply.get(field)
    if not isinstance(encoded, str):
        raise ValueError(f"no {field} in it")
    if encoded.startswith("data:"):
        encoded = encoded.partition(",")[2]
    return Image.decode(base64.b64decode(encoded.encode(), validate=True))
