"""Requests for whole storyboards over HTTP, which `goalreel.studio` makes and keeps."""

from typing import Annotated, Literal

from fastapi import Path as PathParameter
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from goalreel.annotator.plan import make_task
from goalreel.errors import InputError
from goalreel.loop import OnRejected
from goalreel.serving.errors import Wording
from goalreel.serving.images import decode_all, from_base64
from goalreel.serving.service import Service
from goalreel.types import DoneStep, Task

type JobStatus = Literal["running", "done", "failed", "cancelled"]
HEARTBEAT_SECONDS = 15
RETRY_SECONDS = 10
MAX_PICTURES, MAX_DONE = 32, 100
"""In one request; the bounds on its bytes and pixels count all pictures together."""
JobId = Annotated[str, PathParameter(min_length=1, max_length=64, pattern=r"^[0-9A-Za-z-]+$")]


def check_room(service: Service, running: int) -> None:
    """Check that another storyboard may start beside those that are `running`.

    Raises:
        HTTPException: 404, a model is missing; 429, too many under way.
    """
    for role in ("planner", "critic", "editor"):
        if role not in service.batchers:
            raise HTTPException(404, f"storyboards need all three models, and this server has no {role}")
    if running >= service.settings.max_running:
        message = f"too many storyboards under way: try again in {RETRY_SECONDS} s"
        raise HTTPException(429, message, {"Retry-After": str(RETRY_SECONDS)})


class DoneBody(BaseModel):
    """A step that is behind us: what is true since then, and how that looks."""

    model_config = ConfigDict(extra="forbid")

    instruction: Wording
    image: str | None = None


class Submission(BaseModel):
    """The task of a storyboard. Pictures are base64 or data URLs.

    `image` is the scene as it is now, and without it the last picture there is; none: from text alone.
    `images` belong to the `<image>` marks of the instruction, in order. `done`: the plan goes on after these.
    """

    model_config = ConfigDict(extra="forbid")

    instruction: Wording
    image: str | None = None
    images: Annotated[list[str], Field(max_length=MAX_PICTURES)] = []
    done: Annotated[list[DoneBody], Field(max_length=MAX_DONE)] = []
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    max_attempts: Annotated[int, Field(ge=1, le=10)] | None = None
    on_rejected: OnRejected = "continue"


async def submitted_task(body: Submission, max_pixels: int) -> Task:
    """Read the task; the limit of pixels is for all its pictures together.

    Raises:
        HTTPException: 400 or 413, as `decode_all`; 400, pictures and marks differ in number.
    """
    pictures = [body.image, *body.images, *(step.image for step in body.done)]
    decoded = iter(await decode_all([from_base64(text) for text in pictures if text is not None], max_pixels))
    image, *others = [None if text is None else next(decoded) for text in pictures]
    images = [picture for picture in others[: len(body.images)] if picture is not None]
    done_pictures = zip(body.done, others[len(body.images) :], strict=True)
    done = [DoneStep(instruction=step.instruction, image=picture) for step, picture in done_pictures]
    try:
        return make_task(body.instruction, image, images=images, done=done, seed=body.seed)
    except InputError as e:
        raise HTTPException(400, str(e)) from e
