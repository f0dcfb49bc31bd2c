"""Whole storyboards over HTTP: submit, watch, fetch, cancel.

Each is a job, whose requests join the server's batches. Those in progress and those stored have limits.
"""

import asyncio
import json
import logging
import uuid
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Request, Response
from fastapi import Path as PathParameter
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from goalreel.annotator.plan import make_task
from goalreel.claims import NOBODY, attributed
from goalreel.drivers import drive
from goalreel.errors import InputError
from goalreel.http.server import one_of_many
from goalreel.image import Image
from goalreel.loop import LoopArguments, OnRejected
from goalreel.serving.errors import EVENTS, HEADERS, Wording, responses
from goalreel.serving.images import decode_all, from_base64
from goalreel.serving.service import Here, ServedModels, Service
from goalreel.types import Answer, DoneStep, Failure, Plan, Task, Verdict
from goalreel.types import Request as ModelRequest

log = logging.getLogger(__name__)

type JobStatus = Literal["running", "done", "failed", "cancelled"]
HEARTBEAT_SECONDS = 15
RETRY_SECONDS = 10
MAX_PICTURES, MAX_DONE = 32, 100
"""In one request; the bounds on its bytes and pixels count all pictures together."""
JobId = Annotated[str, PathParameter(min_length=1, max_length=64, pattern=r"^[0-9A-Za-z-]+$")]


class Job:
    """One storyboard under way or finished. Used from the event loop only."""

    def __init__(self, service: Service, threads: ThreadPoolExecutor) -> None:
        self.id = uuid.uuid4().hex
        self.status: JobStatus = "running"
        self.body = b""
        """The finished storyboard as JSON."""
        self.worth: dict[str, Any] = {
            "complete": False,
            "degraded": "",
            "end_checked": NOBODY,
            "end_doubt": "",
        }
        """Fields of the finished storyboard."""
        self.owed = False
        """It finished while the server shut down, and nobody has fetched it yet."""
        self.running: asyncio.Task[None] | None = None
        self._steps = 0
        self._service = service
        self._events: list[bytes] = []
        self._changed = asyncio.Event()
        self._models = ServedModels(service, threads, self.id)

    async def run(self, task: Task, max_attempts: int, on_rejected: OnRejected) -> None:
        """Make the storyboard; `status` says how it ended.

        A storyboard that lost a model on the way is `failed`, and can be fetched all the same.
        """
        status: JobStatus = "failed"
        options: LoopArguments = {
            **self._models.loop,
            "max_attempts": max_attempts,
            "on_rejected": on_rejected,
        }
        try:
            board = await drive(task, self._models.ask, observe=self._observe, **options)
            board = attributed(board, self._models.makers)
            self.worth = {name: getattr(board, name) for name in self.worth}
            self.body = await asyncio.to_thread(lambda: board.model_dump_json().encode())
            status = "failed" if board.degraded else "done"
        except asyncio.CancelledError:
            status = "cancelled"
            raise
        finally:
            self._models.cancel()
            self.status = status
            self.owed = self._service.draining and self.body is not None
            self._tell("finished", {"status": status})

    @property
    def examination(self) -> dict[str, Any]:
        """The examination of the critic so far."""
        return self._models.examiner.examination.summary()

    async def follow(self, start: int) -> AsyncIterator[bytes]:
        """Server-sent events from number `start` on, until the job is finished."""
        while True:
            changed = self._changed
            for number in range(start, len(self._events)):
                yield b"id: %d\n%s" % (number + 1, self._events[number])
            start = max(start, len(self._events))
            if self.status != "running":
                return
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await changed.wait()
            except TimeoutError:
                yield b": still here\n\n"

    def _observe(self, request: ModelRequest, answer: Answer) -> None:
        place: dict[str, int] = {}  # none of the plan, and of the end
        if not isinstance(request, Task) and request.step != self._steps:
            place["step"] = request.step
        match answer:
            case Plan():
                self._steps = len(answer.steps)
                self._tell("planned", {"steps": [s.name for s in answer.steps]})
            case Image():
                self._tell("edited", place)
            case Verdict():
                names = {"success", "reasoning", "probability", "pictures_only"}
                self._tell("judged" if place else "end", place | answer.model_dump(include=names))
            case Failure():
                self._tell("failure", {**place, "stage": answer.stage, "message": answer.message})

    def _tell(self, event: str, data: Mapping[str, object]) -> None:
        self._events.append(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
        self._changed.set()
        self._changed = asyncio.Event()


class Jobs:
    """Starts, finds and deletes jobs. Used from the event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._settings = service.settings
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._threads = ThreadPoolExecutor(self._settings.max_running, thread_name_prefix="goalreel-agent")

    @property
    def busy(self) -> bool:
        """True if a client still waits for a job to finish, or may fetch one that has finished."""
        return any(job.status == "running" or job.owed for job in self._jobs.values())

    def counts(self) -> dict[str, int]:
        """The number of jobs by status, for every status."""
        counts = Counter(job.status for job in self._jobs.values())
        return {status: counts[status] for status in ("running", "done", "failed")}

    def check_room(self) -> None:
        """Check that another storyboard may start. Raises as `check_room`."""
        check_room(self._service, self.counts()["running"])

    def submit(self, task: Task, max_attempts: int, on_rejected: OnRejected) -> Job:
        """Start a storyboard. Raises as `check_room`."""
        self.check_room()
        job = Job(self._service, self._threads)
        self._jobs[job.id] = job
        job.running = asyncio.create_task(job.run(task, max_attempts, on_rejected), name=f"job-{job.id}")
        job.running.add_done_callback(partial(self._finished, job))
        return job

    def find(self, job_id: str) -> Job:
        """Find a job, which becomes the last to be deleted.

        Raises:
            HTTPException: 404, there is none of that id.
        """
        if job_id not in self._jobs:
            raise HTTPException(404, "no such storyboard: it was never here, was cancelled, or was forgotten")
        self._jobs.move_to_end(job_id)
        return self._jobs[job_id]

    def cancel(self, job_id: str) -> None:
        """Stop a job if it runs, and delete it. Raises as `find`."""
        job = self.find(job_id)
        del self._jobs[job_id]
        if job.running is not None:
            job.running.cancel()

    async def close(self) -> None:
        """Cancel every storyboard in progress, and release the threads."""
        running = [j.running for j in self._jobs.values() if j.running is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _finished(self, job: Job, task: asyncio.Task[None]) -> None:
        """Make a finished job the last to be deleted, and delete the oldest beyond the limits."""
        if not task.cancelled() and task.exception() is not None:
            log.error("%s failed", task.get_name(), exc_info=task.exception())
        if job.id in self._jobs:
            self._jobs.move_to_end(job.id)
        finished = deque(j for j in self._jobs.values() if j.status != "running")
        size = sum(len(j.body) for j in finished)
        limit, max_bytes = self._settings.max_stored, self._settings.max_stored_bytes
        while len(finished) > 1 and (len(finished) > limit or size > max_bytes):
            oldest = finished.popleft()
            size -= len(oldest.body)
            del self._jobs[oldest.id]


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


router = APIRouter(prefix="/v1/storyboards", tags=["storyboards"])


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


class JobState(BaseModel):
    """`storyboard` is the complete record, with its pictures inline as PNG, once `status` is done.

    It is there, too, where `status` is failed since there is no plan, or a model failed on the way, which
    `degraded` says. `complete`: every step has an accepted picture or is in words alone, and the end is not
    in doubt. `end_checked`: who compared the end with the whole instruction. `end_doubt`: why it is in doubt.
    `examination`: the Critic's answers to control questions so far, in all storyboards of this server.
    """

    id: str
    status: JobStatus
    complete: bool
    degraded: str
    end_checked: str
    end_doubt: str
    examination: dict[str, Any] | None
    storyboard: dict[str, Any] | None = None


@router.post("", status_code=202, responses=responses(404))
async def submit(body: Submission, request: Request, response: Response, service: Here) -> JobState:
    """Start one; fetch it under the id that comes back."""
    jobs = _jobs(request)
    jobs.check_room()
    task = await submitted_task(body, service.settings.max_pixels)
    job = jobs.submit(task, body.max_attempts or service.settings.loop.max_attempts, body.on_rejected)
    response.headers["Location"] = f"/v1/storyboards/{job.id}"
    return _state(job)


@router.get("/{job_id}", response_model=JobState, responses=responses(404))
async def fetch(job_id: JobId, request: Request) -> Response:
    """Report how it stands, and give the storyboard when it is done."""
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
    """Server-sent events: planned, edited, judged, failure, end, finished; those after Last-Event-ID."""
    job = _jobs(request).find(job_id)
    stream = one_of_many(job.follow(last_event_id))
    return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)


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
    """Report how a job stands, without the record."""
    return JobState(id=job.id, status=job.status, **job.worth, examination=job.examination)


def _jobs(request: Request) -> Jobs:
    return request.app.state.jobs
