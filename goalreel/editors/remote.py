"""Editors behind HTTP: OpenAI-compatible servers, Gemini, goalreel's own and InterleaveThinker's."""

import asyncio
import base64
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import httpx2

from goalreel.chat.json_reply import RepeatedKeyError, make_dict
from goalreel.editors.sizes import Size, from_canvas, nearest_aspect, on_canvas
from goalreel.errors import InputError
from goalreel.http.client import (
    REFUSED,
    HttpClient,
    HttpError,
    Reply,
    error_text,
    refusal_words,
    refused_field,
    run,
)
from goalreel.http.endpoint import SERVER_KEYS, Endpoint, gemini_endpoint, openai_endpoint, split_model
from goalreel.http.probe import probe_address, probe_gemini, probe_openai
from goalreel.image import Image, misshapen
from goalreel.types import Edit, Failure

SIZES: tuple[Size, ...] = ((1024, 1024), (1536, 1024), (1024, 1536))
"""The sizes that OpenAI's models draw, the square first, which every server takes."""
ASPECTS: tuple[Size, ...] = (
    (1, 1), (2, 3), (3, 2), (3, 4), (4, 3), (4, 5), (5, 4), (9, 16), (16, 9), (21, 9)
)  # fmt: skip
"""The aspect ratios that all of Gemini's image models draw."""
_NATURAL_ENDS = ("", "STOP", "FINISH_REASON_UNSPECIFIED")
_REFUSALS = ("SAFETY", "PROHIBITED", "RECITATION", "BLOCKLIST", "SPII", "NO_IMAGE", "IMAGE_OTHER")
"""Parts of a `finishReason` of Gemini where the model will not draw this."""


class Refusal(ValueError):
    """The model is well, and will not draw this; the message is its own words."""


type ImageRequest = tuple[str, Mapping[str, Any]]
"""A request: its route, and httpx's arguments for its content."""


class ImageFormat:
    """The HTTP protocol of one kind of image server, for RemoteEditor."""

    optional: tuple[str, ...] = ()
    """The fields of a request that a server may refuse."""
    references: bool = False
    """A request takes more pictures beside the one to edit."""

    def probe(self, endpoint: Endpoint) -> str:
        """Ask the server whether it is there, takes the key and has the model."""
        return probe_address(endpoint)

    def request(self, edit: Edit, refused: Collection[str]) -> ImageRequest:
        """Build the request that asks for `edit`, without the fields that were `refused`."""
        raise NotImplementedError

    def picture(self, body: bytes) -> Image:
        """Read the picture in a reply of status 200.

        Raises:
            Refusal: the model will not draw it.
            ValueError: there is none.
        """
        raise NotImplementedError

    def canvas(self, edit: Edit, refused: Collection[str]) -> Size | None:
        """Return the shape of the canvas on which a picture goes out and comes back, to no scale.

        None: it goes out as it is, and the answer is as the server chooses.
        """
        return None

    def fitted(self, picture: Image, edit: Edit, refused: Collection[str]) -> Image:
        """Cut the source's part out of the answer.

        Raises:
            ValueError: it was drawn from text, and has nothing of the shape that was asked for.
        """
        canvas = self.canvas(edit, refused)
        if canvas is None:
            return picture
        if edit.image is not None:
            return from_canvas(picture, edit.image.size, canvas)
        if problem := misshapen(picture.size, canvas):
            raise ValueError(problem)
        return picture


@dataclass(frozen=True)
class OpenAIImages(ImageFormat):
    """An OpenAI-compatible API: `/images/edits` (multipart) and, without a picture, `/images/generations`.

    A server draws certain sizes: a picture goes out on a canvas, and is cut from the answer.
    """

    model: str
    _: KW_ONLY
    is_own: bool = False
    """The server is goalreel's: it takes any size, and a seed."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More fields of each request, such as `{"quality": "low"}`."""

    optional = ("response_format", "size", "n", "seed")
    references = True

    def probe(self, endpoint: Endpoint) -> str:
        return probe_openai(endpoint, self.model, "/images/edits")

    def request(self, edit: Edit, refused: Collection[str]) -> ImageRequest:
        fields = {"model": self.model, "prompt": edit.prompt, "n": "1"}
        # OpenAI's own models answer with b64_json anyway, and refuse to be told so.
        if "gpt-image" not in self.model:
            fields["response_format"] = "b64_json"
        canvas = self.canvas(edit, refused)
        fields |= {"size": "{}x{}".format(*canvas)} if canvas else {"seed": str(edit.seed)}
        fields = {name: value for name, value in fields.items() if name not in refused}
        if edit.image is None:
            numbers = {name: int(fields[name]) for name in ("n", "seed") if name in fields}
            return "/images/generations", {"json": {**fields, **numbers, **self.extra}}
        source = on_canvas(edit.image, canvas) if canvas else edit.image
        name = "image[]" if edit.references else "image"
        pictures = [picture.png() for picture in (source, *edit.references)]
        files = [(name, (f"{i}.png", png, "image/png")) for i, png in enumerate(pictures)]
        texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in self.extra.items()}
        return "/images/edits", {"data": {**fields, **texts}, "files": files}

    def canvas(self, edit: Edit, refused: Collection[str]) -> Size | None:
        if self.is_own:
            return None
        if edit.image is None or "size" in refused:
            return SIZES[0]
        return nearest_aspect(edit.image.size, SIZES)

    def picture(self, body: bytes) -> Image:
        """Read the first picture of a reply's `data`; none is fetched from an address."""
        data = _read_object(body).get("data")
        first = _mapping(data[0]) if isinstance(data, list) and data else {}
        if first.get("error"):
            raise ValueError(error_text(json.dumps(first).encode()))
        is_data = str(first.get("url")).startswith("data:") and not first.get("b64_json")
        return _read_picture(first, "url" if is_data else "b64_json")


class InterleaveThinkerImages(ImageFormat):
    """InterleaveThinker's edit server (its `inference/server/apis/klein_api.py`, read 2026-11).

    `POST /edit` takes JSON `{"image": base64 or null, "prompt", "seed"}`, draws 1024 x 1024 and answers
    `{"success", "edited_image": base64, "error", ...}`, refusals as `{"detail"}`.
    """

    def request(self, edit: Edit, refused: Collection[str]) -> ImageRequest:
        image = None if edit.image is None else _base64(on_canvas(edit.image, SIZES[0]))
        return "/edit", {"json": {"image": image, "prompt": edit.prompt, "seed": edit.seed}}

    def canvas(self, edit: Edit, refused: Collection[str]) -> Size | None:
        return None if edit.image is None else SIZES[0]

    def picture(self, body: bytes) -> Image:
        reply = _read_object(body)
        if reply.get("success", True) is not True:
            raise ValueError("it does not say that it succeeded")
        return _read_picture(reply, "edited_image")


@dataclass(frozen=True)
class GeminiImages(ImageFormat):
    """Gemini's `POST /models/MODEL:generateContent` (read 2026-11): the picture to edit comes last."""

    model: str
    _: KW_ONLY
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More fields of each request, such as `{"safetySettings": [...]}`, and of its `generationConfig`."""

    optional = ("seed", "imageconfig", "aspect ratio")
    references = True

    def probe(self, endpoint: Endpoint) -> str:
        return probe_gemini(endpoint, self.model)

    def request(self, edit: Edit, refused: Collection[str]) -> ImageRequest:
        pictures, config = list(edit.references), dict[str, Any](responseModalities=["TEXT", "IMAGE"])
        if edit.image is not None:
            aspect = nearest_aspect(edit.image.size, ASPECTS)
            pictures.append(on_canvas(edit.image, aspect))
            if not {"imageconfig", "aspect ratio"} & set(refused):
                config["imageConfig"] = {"aspectRatio": "{}:{}".format(*aspect)}
        parts: list[dict[str, Any]] = [
            {"inlineData": {"mimeType": "image/png", "data": _base64(picture)}} for picture in pictures
        ]
        if "seed" not in refused:
            config["seed"] = edit.seed % 2**31
        content = {"role": "user", "parts": [*parts, {"text": edit.prompt}]}
        config |= self.extra.get("generationConfig", {})
        body = {**self.extra, "contents": [content], "generationConfig": config}
        return f"/models/{self.model.removeprefix('models/')}:generateContent", {"json": body}

    def canvas(self, edit: Edit, refused: Collection[str]) -> Size | None:
        return nearest_aspect(edit.image.size, ASPECTS) if edit.image else None

    def picture(self, body: bytes) -> Image:
        """Read the last picture of a reply, without drafts among the thoughts."""
        reply = _read_object(body)
        if reason := _mapping(reply.get("promptFeedback")).get("blockReason"):
            raise Refusal(f"the prompt was refused: {reason}")
        candidates = reply.get("candidates")
        candidate = _mapping(candidates[0]) if isinstance(candidates, list) and candidates else {}
        parts = _mapping(candidate.get("content")).get("parts")
        parts = [_mapping(part) for part in parts] if isinstance(parts, list) else []
        parts = [part for part in parts if not part.get("thought")]
        pictures = [p for part in parts if (p := _mapping(part.get("inlineData") or part.get("inline_data")))]
        reason = str(candidate.get("finishReason") or "")
        if pictures and reason in _NATURAL_ENDS:
            return _read_picture(pictures[-1], "data")
        messages = [candidate.get("finishMessage"), *(part.get("text") for part in parts)]
        text = " ".join(" ".join(map(str, filter(None, messages))).split())[:200]
        if any(word in reason for word in _REFUSALS):
            raise Refusal(f"the model refused to draw it: {': '.join(filter(None, (reason, text)))}")
        if text and reason in _NATURAL_ENDS:
            raise Refusal(f"the model drew nothing and said: {text}")
        what = "its picture did not end by itself" if pictures else "no picture in it"
        raise ValueError(f"{what}{f' ({reason})' if reason else ''}")


def _base64(image: Image) -> str:
    return base64.b64encode(image.png()).decode()


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _read_object(body: bytes) -> dict[str, Any]:
    """Read a reply that is one JSON object and tells no error."""
    try:
        reply = json.loads(body, object_pairs_hook=make_dict)
    except RepeatedKeyError as e:
        raise ValueError(f"it has the key {str(e)[:40]!r} twice") from e
    except (ValueError, RecursionError) as e:
        raise ValueError("not JSON") from e
    if not isinstance(reply, dict):
        raise ValueError("not a JSON object")
    if reply.get("error"):
        raise ValueError(error_text(body))
    return reply


def _read_picture(reply: Mapping[str, object], field: str) -> Image:
    """Decode the picture in a field, in base64 or as a data URL."""
    encoded = reply.get(field)
    if not isinstance(encoded, str):
        raise ValueError(f"no {field} in it")
    if encoded.startswith("data:"):
        encoded = encoded.partition(",")[2]
    # Some servers break lines, use the alphabet of addresses, or leave the padding out.
    text = re.sub(r"[\s=]", "", encoded).replace("-", "+").replace("_", "/")
    return Image.decode(base64.b64decode(text.encode() + b"=" * (-len(text) % 4), validate=True))


class RemoteEditor:
    """Sends edits concurrently, over all calls at most `concurrency`; one bad edit costs only itself.

    An optional field that a server refuses (`ImageFormat.optional`) is not sent again. A late reply is not
    asked for again: it may have cost money. The pictures follow no redirect to another server. `timeout_s` is
    for one try, from sending to the last byte.
    """

    def __init__(
        self,
        form: ImageFormat,
        endpoint: Endpoint,
        *,
        concurrency: int = 8,
        retries: int = 4,
        timeout_s: float = 300.0,
    ) -> None:
        self._format = form
        self._client = HttpClient(
            endpoint, timeout_s=timeout_s, retries=retries, retry_late=False, leave=False
        )
        self._refused: set[str] = set()
        self._free = asyncio.Semaphore(concurrency)

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        """Answer i is the picture of edit i in the server's working size, or a Failure."""
        return run(self._edit_all(edits))

    def probe(self) -> str:
        """Ask the server for the model, as `goalreel.http.probe.probe_openai`."""
        return self._format.probe(self._client.endpoint)

    async def _edit_all(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._edit(edit)) for edit in edits]
        return [task.result() for task in tasks]

    async def _edit(self, edit: Edit) -> Image | Failure:
        if edit.references and not self._format.references:
            return self._failure(f"{self._client.endpoint.shown} takes one picture an edit", refused=True)
        async with self._free:
            try:
                reply, refused = await self._ask(edit)
                picture = await asyncio.to_thread(self._format.picture, reply.body)
                if _is_blank(picture) and (edit.image is None or not _is_blank(edit.image)):
                    return self._failure("its picture has one colour alone: try another seed or prompt")
                return await asyncio.to_thread(self._format.fitted, picture, edit, refused)
            except HttpError as e:
                google_key = e.reply is not None and b"API_KEY_INVALID" in e.reply.body  # a 400
                return self._failure(self._client.explain(e), refused=e.status in REFUSED and not google_key)
            except Refusal as e:
                return self._failure(str(e), refused=True)
            except ValueError as e:
                return self._failure(f"the server's reply is unusable: {e}")

    def _failure(self, message: str, refused: bool = False) -> Failure:
        hidden = self._client.endpoint.hide_key(message.splitlines()[0])
        return Failure(stage="edit", message=hidden, refused=refused)

    async def _ask(self, edit: Edit) -> tuple[Reply, Collection[str]]:
        """Return the reply to `edit`, and the fields that the server refuses."""
        refused = set(self._refused)

        def build() -> httpx2.Request:
            route, content = self._format.request(edit, refused)
            return self._client.request("POST", route, **content)

        def find(reply: Reply) -> str | None:
            sent = [name for name in self._format.optional if name not in refused]
            return refused_field(refusal_words(reply.body), sent)

        reply = await self._client.send_accepted(build, refused, find)
        self._refused |= refused
        return reply, refused


def _is_blank(image: Image) -> bool:
    """Return whether all pixels have one colour: so many servers answer what their filter stopped."""
    return bool((image.pixels == image.pixels[0, 0]).all())


def remote_editor(
    kind: str, rest: str, *, extra: Mapping[str, Any] | None = None, **options: Any
) -> RemoteEditor:
    """Make the editor that `KIND:REST` names.

    `openai` and `gemini` are followed by MODEL@URL (MODEL alone is the service's own), `server` and
    `interleavethinker` by URL. The key comes from the environment: as `openai_endpoint` and `gemini_endpoint`
    say; GOALREEL_TOKEN, then GOALREEL_API_KEY for `server`; GOALREEL_API_KEY for `interleavethinker`.
    `extra` is as for `OpenAIChat`; `server` and `interleavethinker` have no more fields. The `options` are
    those of `RemoteEditor`.

    Raises:
        InputError: no such kind, no address, or no key where one is needed or one that no header can carry.
    """
    model, url = split_model(rest)
    address = rest.rstrip("/")
    form: ImageFormat
    match kind:
        case "openai" | "gemini" if not model:
            raise InputError(f"an editor is named {kind}:MODEL@URL, or {kind}:MODEL for the service's own")
        case "openai":
            form, endpoint = OpenAIImages(model, extra=extra or {}), openai_endpoint(url, extra)
        case "gemini":
            form, endpoint = GeminiImages(model, extra=extra or {}), gemini_endpoint(url, extra)
        case "server":
            form, endpoint = OpenAIImages("editor", is_own=True), Endpoint(f"{address}/v1", SERVER_KEYS)
        case "interleavethinker":
            form, endpoint = InterleaveThinkerImages(), Endpoint(address, ("GOALREEL_API_KEY",))
        case _:
            raise InputError(
                f"no remote editor of kind {kind!r}: use "
                "openai:MODEL@URL, gemini:MODEL@URL, server:URL or interleavethinker:URL"
            )
    return RemoteEditor(form, endpoint, **options)
