"""Whole storyboards over HTTP: submit, watch, fetch, cancel."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi import Path as PathParameter
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from goalreel.annotator.task_input import make_task
from goalreel.errors import InputError
from goalreel.loop import OnUnverified
from goalreel.serving.errors import Wording, responses
from goalreel.serving.events import EVENTS, HEADERS
from goalreel.serving.job import Job, JobStatus
from goalreel.serving.jobs import Jobs
from goalreel.serving.pictures import decode_all, from_base64
from goalreel.serving.service import Here
from goalreel.types import DoneStep, Task

router = APIRouter(prefix="/v1/storyboards", tags=["storyboards"])

MAX_PICTURES, MAX_DONE = 32, 100
"""In one request; the bounds on its bytes and pixels count all pictures together."""
JobId = Annotated[str, PathParameter(min_length=1, max_length=64, pattern=r"^[0-9A-Za-z-]+$")]


class DoneBody(BaseModel):
    """A step that is behind us: what is true since then, and how that looks."""

    model_config = ConfigDict(extra="forbid")

    instruction: Wording
    image: str | None = None


class Submission(BaseModel):
    """What to make a storyboard of. Pictures are base64 or data URLs.

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
    on_unverified: OnUnverified = "continue"


class JobState(BaseModel):
    """`storyboard` is the complete record, with its pictures inline as PNG, once `status` is done.

    It is there, too, where `status` is failed since there is no plan, or a model failed on the way, which
    `degraded` says. `complete`: every step has an accepted picture or is in words alone. `end_checked`: who
    compared the end with the whole instruction.
    """

    id: str
    status: JobStatus
    complete: bool
    degraded: str
    end_checked: str
    storyboard: dict[str, Any] | None = None


@router.post("", status_code=202, responses=responses(404))
async def submit(body: Submission, request: Request, response: Response, service: Here) -> JobState:
    """Start one; fetch it under the id that comes back."""
    jobs = _jobs(request)
    jobs.check_room()
    task = await submitted_task(body, service.settings.max_pixels)
    job = jobs.submit(task, body.max_attempts or service.settings.loop.max_attempts, body.on_unverified)
    response.headers["Location"] = f"/v1/storyboards/{job.id}"
    return _state(job)


@router.get("/{job_id}", response_model=JobState, responses=responses(404))
async def fetch(job_id: JobId, request: Request) -> Response:
    """How it stands, and the storyboard when it is done."""
    job = _jobs(request).find(job_id)
    job.owed = False
    head = _state(job).model_dump_json(exclude={"storyboard"}).encode()
    # The record is JSON already, perhaps many megabytes of it: it is not read and written again.
    body = head[:-1] + b',"storyboard":' + (job.body or b"null") + b"}"
    return Response(body, media_type="application/json")


@router.get("/{job_id}/events", response_class=StreamingResponse, responses=responses(404) | EVENTS)
async def events(
    job_id: JobId, request: Request, last_event_id: Annotated[int, Header(ge=0, lt=2**31)] = 0
) -> StreamingResponse:
    """Server-sent events: planned, edited, judged, failure, finished; all, or those after Last-Event-ID."""
    job = _jobs(request).find(job_id)
    return StreamingResponse(job.follow(last_event_id), media_type="text/event-stream", headers=HEADERS)


@router.delete("/{job_id}", status_code=204, responses=responses(404))
async def cancel(job_id: JobId, request: Request) -> None:
    """Stop it if it runs, and forget it."""
    _jobs(request).cancel(job_id)


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


def _state(job: Job) -> JobState:
    """How a job stands, without the record."""
    return JobState(
        id=job.id,
        status=job.status,
        complete=job.complete,
        degraded=job.degraded,
        end_checked=job.end_checked,
    )


def _jobs(request: Request) -> Jobs:
    return request.app.state.jobs
