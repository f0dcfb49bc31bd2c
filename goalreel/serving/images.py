"""Image editing as OpenAI's clients and as InterleaveThinker's training code ask for it."""

import asyncio
import secrets
import time
import uuid
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, File, Form, Request, UploadFile
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from goalreel.image import Image
from goalreel.serving.errors import Wording, responses, unanswered
from goalreel.serving.pictures import decode_all, from_base64, to_base64
from goalreel.serving.service import Here, Service, ask_while_connected
from goalreel.types import Edit, Failure

router = APIRouter()

Seed = Annotated[int, Field(ge=0, lt=2**32)]


class ImageData(BaseModel):
    """One picture: its PNG as base64."""

    b64_json: str


class ImagesAnswer(BaseModel):
    """The one picture, and the seed that made it."""

    created: int
    data: list[ImageData]
    seed: int


class GenerationBody(BaseModel):
    """Text to image. The size is the served model's own."""

    model_config = ConfigDict(extra="ignore")

    prompt: Wording
    model: str | None = None
    n: Literal[1] | None = 1
    size: Literal["auto"] | None = None
    response_format: Literal["b64_json"] | None = None
    seed: Seed | None = None


class InterleaveThinkerEdit(BaseModel):
    """What InterleaveThinker's training code asks. Sampling parameters are left to the served model."""

    model_config = ConfigDict(extra="ignore")

    image: str | None = None
    prompt: Wording
    seed: Seed | None = None


class InterleaveThinkerAnswer(BaseModel):
    """What InterleaveThinker's training code reads, without an echo of the original image."""

    success: bool = True
    task_id: str
    edited_image: str
    seed: int
    original_prompt: str
    processing_time: float
    error: str | None = None


@router.post("/v1/images/edits", tags=["OpenAI-compatible"], responses=responses(404, 424))
async def edits(
    request: Request,
    service: Here,
    prompt: Annotated[Wording, Form()],
    image: Annotated[UploadFile | None, File()] = None,
    image_list: Annotated[list[UploadFile] | None, File(alias="image[]")] = None,
    mask: Annotated[UploadFile | None, File()] = None,
    n: Annotated[int, Form(ge=1, le=1)] = 1,
    size: Annotated[Literal["auto"] | None, Form()] = None,
    response_format: Annotated[Literal["b64_json"] | None, Form()] = None,
    seed: Annotated[Seed | None, Form()] = None,
) -> ImagesAnswer:
    """Edit an image; the answer has the size that the editor works in. `seed` is an extension.

    Of several images the first is edited, and the others are shown to an editor that takes several.
    """
    service.editor().check_room()
    sent = [*([image] if image else []), *(image_list or [])]
    if not sent or mask is not None:
        raise HTTPException(400, "send an image, and no mask")
    if len(sent) > 1 and not service.models.references:
        raise HTTPException(400, "the editor here takes one image at a time: send exactly one")
    sources = await decode_all([await file.read() for file in sent], service.settings.max_pixels)
    return await _answer(request, service, sources, prompt, seed)


@router.post("/v1/images/generations", tags=["OpenAI-compatible"], responses=responses(404, 424))
async def generations(request: Request, body: GenerationBody, service: Here) -> ImagesAnswer:
    """Make an image from text alone."""
    service.editor().check_room()
    return await _answer(request, service, (), body.prompt, body.seed)


@router.post("/edit", tags=["InterleaveThinker"], responses=responses(404, 424))
async def edit(request: Request, body: InterleaveThinkerEdit, service: Here) -> InterleaveThinkerAnswer:
    """Edit an image, or make one: the protocol of InterleaveThinker's edit servers."""
    service.editor().check_room()
    started = time.monotonic()
    sent = [] if body.image is None else [from_base64(body.image)]
    sources = await decode_all(sent, service.settings.max_pixels)
    picture, seed = await _edit(request, service, sources, body.prompt, body.seed)
    return InterleaveThinkerAnswer(
        task_id=uuid.uuid4().hex,
        edited_image=await asyncio.to_thread(to_base64, picture),
        seed=seed,
        original_prompt=body.prompt,
        processing_time=time.monotonic() - started,
    )


async def _answer(
    request: Request, service: Service, sources: Sequence[Image], prompt: str, seed: int | None
) -> ImagesAnswer:
    picture, seed = await _edit(request, service, sources, prompt, seed)
    data = [ImageData(b64_json=await asyncio.to_thread(to_base64, picture))]
    return ImagesAnswer(created=int(time.time()), data=data, seed=seed)


async def _edit(
    request: Request, service: Service, sources: Sequence[Image], prompt: str, seed: int | None
) -> tuple[Image, int]:
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
    return answer, seed
