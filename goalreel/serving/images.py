"""Image editing as OpenAI's clients and as InterleaveThinker's training code ask for it.

Pictures are base64 or data URLs, weighed before they are decoded. Nothing is ever fetched.
"""

import asyncio
import base64
import binascii
import secrets
import time
import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypedDict

from fastapi import APIRouter, Form, Request, UploadFile
from pydantic import BaseModel, BeforeValidator, Field
from starlette.exceptions import HTTPException

from goalreel.errors import InputError
from goalreel.image import Image, open_picture
from goalreel.serving.errors import ModelOwn, Stream, Wording, responses, unanswered
from goalreel.serving.service import Here, Service, ask_while_connected
from goalreel.types import Edit, Failure

ANSWERS = responses(404, 424)
Seed = Annotated[int, Field(ge=0, lt=2**32)]


def from_base64(text: str) -> bytes:
    """The bytes of bare base64 or a `data:image/...;base64,` URL; HTTPException 400 for anything else."""
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


async def decode_all(pictures: Sequence[bytes], max_pixels: int) -> list[Image]:
    """Decode the pictures of one request, off the event loop.

    Raises:
        HTTPException: 413, together more than `max_pixels`; 400, too thin, not PNG, JPEG or WebP, or broken.
    """

    def decode() -> list[Image]:
        total = 0
        for data in pictures:
            with open_picture(data, ("PNG", "JPEG", "WEBP")) as picture:
                total += picture.width * picture.height
        if total > max_pixels:
            raise HTTPException(413, f"{total} pixels in one request; at most {max_pixels} are allowed")
        return [Image.decode(data) for data in pictures]

    try:
        return await asyncio.to_thread(decode)
    except InputError as e:
        raise HTTPException(413 if "too large" in str(e) else 400, str(e)) from e


router = APIRouter()


class ImageData(TypedDict):
    """One picture: its PNG as base64."""

    b64_json: str


class ImagesAnswer(TypedDict):
    """The one picture, and the seed that made it. Editors count no tokens, so there is no `usage`."""

    created: int
    data: list[ImageData]
    seed: int


class ImageOptions(BaseModel, extra="forbid", use_attribute_docstrings=True):
    """Wishes for a picture. The size is the served model's own, and the form is PNG."""

    prompt: Wording
    model: str | None = None
    n: Annotated[int, Field(ge=1, le=1)] | None = 1
    size: Literal["auto"] | None = None
    response_format: Literal["b64_json"] | None = None
    output_format: Literal["png"] | None = None
    background: Literal["auto", "opaque"] | None = None
    seed: Seed | None = None
    stream: Stream = False
    """Refused: a picture is sent when it is whole."""
    quality: ModelOwn = None
    style: ModelOwn = None
    moderation: ModelOwn = None
    input_fidelity: ModelOwn = None
    output_compression: ModelOwn = None
    user: ModelOwn = None


def _file(value: object) -> object:
    if isinstance(value, str):
        raise ValueError("should be a file, sent as multipart/form-data")
    return value


Upload = Annotated[UploadFile, BeforeValidator(_file)]


class EditForm(ImageOptions):
    """A picture, and what is to be other in it."""

    image: Upload | None = None
    image_list: Annotated[list[Upload], Field(alias="image[]")] = []
    """Another name for `image`, by which clients send a list."""
    mask: Upload | None = None
    """Refused: the editor changes what the prompt says."""


class InterleaveThinkerEdit(BaseModel, extra="ignore"):
    """A request of InterleaveThinker's training code. Sampling parameters are left to the served model."""

    image: str | None = None
    prompt: Wording
    seed: Seed | None = None


@router.post("/v1/images/edits", tags=["OpenAI-compatible"], responses=ANSWERS)
async def edits(
    request: Request, form: Annotated[EditForm, Form(media_type="multipart/form-data")], service: Here
) -> ImagesAnswer:
    """Edit an image; the answer has the size that the editor works in. `seed` is an extension.

    Of several images the first is edited, and the others are shown to an editor that takes several.
    """
    service.editor().check_room()
    sent = [*([form.image] if form.image else []), *form.image_list]
    if not sent or form.mask is not None:
        raise HTTPException(400, "send an image, and no mask")
    if len(sent) > 1 and not service.models.references:
        raise HTTPException(400, "the editor here takes one image at a time: send exactly one")
    sources = await decode_all([await file.read() for file in sent], service.settings.max_pixels)
    return await _answer(request, service, sources, form)


@router.post("/v1/images/generations", tags=["OpenAI-compatible"], responses=ANSWERS)
async def generations(request: Request, body: ImageOptions, service: Here) -> ImagesAnswer:
    """Make an image from text alone."""
    service.editor().check_room()
    return await _answer(request, service, (), body)


@router.post("/edit", tags=["InterleaveThinker"], responses=ANSWERS)
async def edit(request: Request, body: InterleaveThinkerEdit, service: Here) -> dict[str, Any]:
    """Edit an image, or make one: the protocol of InterleaveThinker's edit servers."""
    service.editor().check_room()
    started = time.monotonic()
    sent = [] if body.image is None else [from_base64(body.image)]
    sources = await decode_all(sent, service.settings.max_pixels)
    encoded, seed = await _edit(request, service, sources, body.prompt, body.seed)
    return {
        "success": True,
        "task_id": uuid.uuid4().hex,
        "edited_image": encoded,
        "seed": seed,
        "original_prompt": body.prompt,
        "processing_time": time.monotonic() - started,
        "error": None,
    }


async def _answer(
    request: Request, service: Service, sources: Sequence[Image], options: ImageOptions
) -> ImagesAnswer:
    encoded, seed = await _edit(request, service, sources, options.prompt, options.seed)
    return {"created": int(time.time()), "data": [{"b64_json": encoded}], "seed": seed}


async def _edit(
    request: Request, service: Service, sources: Sequence[Image], prompt: str, seed: int | None
) -> tuple[str, int]:
    """Give the picture, in base64, and its seed."""
    seed = secrets.randbelow(2**31) if seed is None else seed
    question = Edit(
        task_id=uuid.uuid4().hex,
        step=0,
        attempt=0,
        image=sources[0] if sources else None,
        prompt=prompt,
        seed=seed,
        references=tuple(sources[1:]),
    )
    answer = await ask_while_connected(request, service.editor(), question)
    if isinstance(answer, Failure):
        raise unanswered(f"the editor gave no image: {answer.message}", refused=answer.refused)
    return await asyncio.to_thread(to_base64, answer), seed
