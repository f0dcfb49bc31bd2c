"""The requests and replies of each kind of image server. Nothing is sent here."""

import base64
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any
from typing import Protocol as TypingProtocol

import httpx2

from goalreel.editors.canvas import from_canvas, nearest_aspect, on_canvas
from goalreel.editors.sizes import Size
from goalreel.http.client import Endpoint
from goalreel.http.errors import error_text
from goalreel.http.probe import probe_address, probe_openai
from goalreel.image import Image
from goalreel.json_object import RepeatedKeyError, make_dict
from goalreel.types import Edit

SIZES: tuple[Size, ...] = ((1024, 1024), (1536, 1024), (1024, 1536))
"""What OpenAI's models draw, the square first, which every server takes."""


type Fetch = Callable[[str], Image]
"""Gets the picture at an address."""


class Refusal(ValueError):
    """The model is well, and will not draw this; the message is its own words."""


class Protocol(TypingProtocol):
    """The HTTP protocol of one kind of image server, for RemoteEditor."""

    @property
    def url(self) -> str: ...
    @property
    def optional(self) -> tuple[str, ...]:
        """The fields of a request that a server may refuse."""
        ...

    @property
    def references(self) -> bool:
        """Whether a request takes more pictures beside the one to edit."""
        ...

    def probe(self, endpoint: Endpoint) -> str:
        """Ask the server whether it is there, takes the key and has the model."""
        ...

    def request(self, edit: Edit, refused: Collection[str] = ()) -> httpx2.Request:
        """Build the request that asks for `edit`, without the fields that were `refused`."""
        ...

    def image(
        self, edit: Edit, body: bytes, fetch: Fetch | None = None, refused: Collection[str] = ()
    ) -> Image:
        """Decode the picture in a reply of status 200, in the source's shape and the server's size.

        A picture that the server stores is got with `fetch`. `refused` is as in the request.

        Raises:
            Refusal: the model will not draw it.
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
    """The server draws certain sizes: a picture goes out on a canvas, and is cut from the answer."""
    size: str | None = None
    """`WIDTHxHEIGHT`, or `auto`: the server chooses. None is the one of `SIZES` nearest to the picture."""
    seeded: bool = False
    """Send `seed`, which OpenAI's own API lacks."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More fields of each request, such as `{"quality": "low"}`."""

    @property
    def optional(self) -> tuple[str, ...]:
        """The fields that some servers refuse."""
        return ("response_format", "size", "n", "seed")

    @property
    def references(self) -> bool:
        """Whether the model takes several pictures."""
        return self.model != "dall-e-2"

    def probe(self, endpoint: Endpoint) -> str:
        """Read the server's list of models."""
        return probe_openai(replace(endpoint, address=self.url), self.model, "/images/edits")

    def request(self, edit: Edit, refused: Collection[str] = ()) -> httpx2.Request:
        """Build the HTTP request that asks for `edit`, without the fields that were `refused`."""
        fields = {"model": self.model, "prompt": edit.prompt, "n": "1"}
        # OpenAI's own models answer with b64_json anyway, and refuse to be told so.
        if "gpt-image" not in self.model:
            fields["response_format"] = "b64_json"
        size = self._size(edit, refused)
        if self.fixed_sizes:
            fields["size"] = "{}x{}".format(*size) if size else "auto"
        if self.seeded:
            fields["seed"] = str(edit.seed)
        fields = {name: value for name, value in fields.items() if name not in refused}
        if edit.image is None:
            numbers = {k: int(fields[k]) for k in ("n", "seed") if k in fields}
            whole = {**fields, **numbers, **self.extra}
            return httpx2.Request("POST", f"{self.url}/images/generations", json=whole)
        more = {k: v if isinstance(v, str) else json.dumps(v) for k, v in self.extra.items()}
        sent = on_canvas(edit.image, size) if size else edit.image
        name = "image[]" if edit.references else "image"
        pictures = enumerate((sent, *edit.references))
        files = [(name, (f"picture{n}.png", picture.png(), "image/png")) for n, picture in pictures]
        return httpx2.Request("POST", f"{self.url}/images/edits", data={**fields, **more}, files=files)

    def _size(self, edit: Edit, refused: Collection[str]) -> Size | None:
        """The size to ask for, in whose shape the picture goes out; None where the server chooses."""
        if not self.fixed_sizes or self.size == "auto":
            return None
        if self.size:
            width, _, height = self.size.partition("x")
            return int(width), int(height)
        if edit.image is None or "size" in refused or self.model == "dall-e-2":
            return SIZES[0]
        return nearest_aspect(edit.image.size, SIZES)

    def image(
        self, edit: Edit, body: bytes, fetch: Fetch | None = None, refused: Collection[str] = ()
    ) -> Image:
        """Decode the first picture of a reply's `data`, in the source's shape."""
        first = self._first(body)
        address = "" if first.get("b64_json") else str(first.get("url"))
        if fetch is not None and address.startswith(("http://", "https://")):
            picture = fetch(address)
        else:
            picture = read_picture(first, "url" if address.startswith("data:") else "b64_json")
        if edit.image is None or not self.fixed_sizes:
            return picture
        size = edit.image.size
        return from_canvas(picture, size, self._size(edit, refused) or size)

    def _first(self, body: bytes) -> dict[str, Any]:
        reply = read_object(body)
        data = reply.get("data")
        if reply.get("error"):
            raise ValueError(error_text(body))
        first = data[0] if isinstance(data, list) and data else None
        if not isinstance(first, dict):
            return {}
        if first.get("error"):
            raise ValueError(error_text(json.dumps(first).encode()))
        return first


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

    @property
    def references(self) -> bool:
        """The server takes one picture."""
        return False

    def probe(self, endpoint: Endpoint) -> str:
        """Ask for anything: the server lists no models."""
        return probe_address(endpoint)

    def request(self, edit: Edit, refused: Collection[str] = ()) -> httpx2.Request:
        """Build the HTTP request that asks for `edit`; the server refuses no field."""
        image = (
            None if edit.image is None else base64.b64encode(on_canvas(edit.image, SIZES[0]).png()).decode()
        )
        fields = {"image": image, "prompt": edit.prompt, "seed": edit.seed}
        return httpx2.Request("POST", f"{self.url}/edit", json=fields)

    def image(
        self, edit: Edit, body: bytes, fetch: Fetch | None = None, refused: Collection[str] = ()
    ) -> Image:
        """Decode a reply's `edited_image`, in the source's shape."""
        reply = read_object(body)
        if reply.get("success", True) is not True or reply.get("error"):
            raise ValueError(str(reply.get("error") or "it does not say that it succeeded"))
        picture = read_picture(reply, "edited_image")
        return picture if edit.image is None else from_canvas(picture, edit.image.size, SIZES[0])


def read_object(body: bytes) -> dict[str, Any]:
    """Read a reply that is one JSON object.

    Raises:
        ValueError: it is not.
    """
    try:
        reply = json.loads(body, object_pairs_hook=make_dict)
    except RepeatedKeyError as e:
        raise ValueError(f"it has the key {str(e)[:40]!r} twice in one object") from e
    except (ValueError, RecursionError) as e:
        raise ValueError("not JSON") from e
    if not isinstance(reply, dict):
        raise ValueError("not a JSON object")
    return reply


def read_picture(reply: Mapping[str, object], field: str) -> Image:
    """Decode the picture in a field, in base64 or as a data URL.

    Raises:
        ValueError: there is none.
    """
    encoded = reply.get(field)
    if not isinstance(encoded, str):
        raise ValueError(f"no {field} in it")
    if encoded.startswith("data:"):
        encoded = encoded.partition(",")[2]
    # Some servers break lines, use the alphabet of addresses, or leave the padding out.
    text = re.sub(r"[\s=]", "", encoded).replace("-", "+").replace("_", "/")
    return Image.decode(base64.b64decode(text.encode() + b"=" * (-len(text) % 4), validate=True))
