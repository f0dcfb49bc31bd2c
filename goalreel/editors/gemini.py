"""Gemini's image models: `generateContent` with pictures in line (Google's Gemini API, read 2026-11)."""

import base64
from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import httpx2

from goalreel.editors.canvas import from_canvas, nearest_aspect, on_canvas
from goalreel.editors.protocols import Fetch, Refusal, read_object, read_picture
from goalreel.editors.sizes import Size
from goalreel.http.client import Endpoint
from goalreel.http.errors import error_text
from goalreel.http.probe import probe_gemini
from goalreel.image import Image
from goalreel.types import Edit

ASPECTS: tuple[Size, ...] = (
    (1, 1), (2, 3), (3, 2), (3, 4), (4, 3), (4, 5), (5, 4), (9, 16), (16, 9), (21, 9)
)  # fmt: skip
"""The aspect ratios that all of its image models draw."""
_NATURAL_ENDS = ("", "STOP", "FINISH_REASON_UNSPECIFIED")
_REFUSALS = ("SAFETY", "PROHIBITED", "RECITATION", "BLOCKLIST", "SPII", "NO_IMAGE", "IMAGE_OTHER")
"""What a `finishReason` holds where the model will not draw this."""


@dataclass(frozen=True)
class GeminiImages:
    """`POST /models/MODEL:generateContent`: pictures, the one to edit last, and then the prompt.

    A picture goes out on a canvas of the aspect ratio that is asked for, and is cut from the answer.
    """

    url: str
    """Up to and with the version, such as `/v1beta`."""
    model: str
    _: KW_ONLY
    aspect: str | None = None
    """`WIDTH:HEIGHT`, or `auto`: the model chooses. None is the one of `ASPECTS` nearest to the picture."""
    size: str | None = None
    """1K, 2K or 4K, which some models draw."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More fields of each request, such as `{"safetySettings": [...]}`. Those of `generationConfig` are added
    to it."""

    @property
    def optional(self) -> tuple[str, ...]:
        """What some models refuse: the seed, and both names of the configuration of pictures."""
        return ("seed", "imageconfig", "aspect ratio")

    @property
    def references(self) -> bool:
        """The models take several pictures."""
        return True

    def probe(self, endpoint: Endpoint) -> str:
        """Read about the model."""
        return probe_gemini(endpoint, self.model)

    def request(self, edit: Edit, refused: Collection[str] = ()) -> httpx2.Request:
        """Build the HTTP request that asks for `edit`, without the fields that were `refused`."""
        aspect = self._aspect(edit)
        pictures = list(edit.references)
        if edit.image is not None:
            pictures.append(on_canvas(edit.image, aspect) if aspect else edit.image)
        data = [base64.b64encode(picture.png()).decode() for picture in pictures]
        parts: list[dict[str, Any]] = [{"inlineData": {"mimeType": "image/png", "data": d}} for d in data]
        image_config = {"aspectRatio": "{}:{}".format(*aspect)} if aspect else {}
        image_config |= {"imageSize": self.size} if self.size else {}
        config: dict[str, Any] = {"responseModalities": ["TEXT", "IMAGE"]}
        if image_config and not {"imageconfig", "aspect ratio"} & set(refused):
            config["imageConfig"] = image_config
        if "seed" not in refused:
            config["seed"] = edit.seed % 2**31
        content = {"role": "user", "parts": [*parts, {"text": edit.prompt}]}
        config |= self.extra.get("generationConfig", {})
        body = {**self.extra, "contents": [content], "generationConfig": config}
        model = self.model.removeprefix("models/")
        return httpx2.Request("POST", f"{self.url}/models/{model}:generateContent", json=body)

    def _aspect(self, edit: Edit) -> Size | None:
        """The aspect ratio to ask for; None where the model chooses."""
        if self.aspect == "auto" or (edit.image is None and not self.aspect):
            return None
        if self.aspect:
            width, _, height = self.aspect.partition(":")
            return int(width), int(height)
        return nearest_aspect(edit.image.size, ASPECTS) if edit.image else None

    def image(
        self, edit: Edit, body: bytes, fetch: Fetch | None = None, refused: Collection[str] = ()
    ) -> Image:
        """Decode the last picture of a reply, in the source's shape.

        Raises:
            Refusal: the model will not draw this, in its own words.
            ValueError: there is no picture.
        """
        picture = _picture(body)
        if edit.image is None:
            return picture
        return from_canvas(picture, edit.image.size, self._aspect(edit) or edit.image.size)


def _picture(body: bytes) -> Image:
    reply = read_object(body)
    if reply.get("error"):
        raise ValueError(error_text(body))
    if reason := _mapping(reply.get("promptFeedback")).get("blockReason"):
        raise Refusal(f"the prompt was refused: {reason}")
    candidates = reply.get("candidates")
    candidate = _mapping(candidates[0]) if isinstance(candidates, list) and candidates else {}
    parts = _mapping(candidate.get("content")).get("parts")
    # A model that thinks may draw drafts in its thoughts.
    texts = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    texts = [part for part in texts if not part.get("thought")]
    pictures = [
        data for part in texts if (data := _mapping(part.get("inlineData") or part.get("inline_data")))
    ]
    reason = str(candidate.get("finishReason") or "")
    if pictures and reason in _NATURAL_ENDS:
        return read_picture(pictures[-1], "data")
    messages = [candidate.get("finishMessage"), *(part.get("text") for part in texts)]
    text = " ".join(" ".join(map(str, filter(None, messages))).split())[:200]
    if any(word in reason for word in _REFUSALS):
        raise Refusal(f"the model refused to draw it: {': '.join(filter(None, (reason, text)))}")
    if text and reason in _NATURAL_ENDS:
        raise Refusal(f"the model drew nothing and said: {text}")
    what = "its picture did not end by itself" if pictures else "no picture in it"
    raise ValueError(f"{what}{f' ({reason})' if reason else ''}")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
