"""One storyboard as a job: its requests join the server's batches; clients can follow and cancel it."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from goalreel.claims import NOBODY, attributed
from goalreel.drivers import drive
from goalreel.image import Image
from goalreel.loop import OnUnverified
from goalreel.serving.served_models import ServedModels
from goalreel.serving.service import Service
from goalreel.types import Answer, Failure, Plan, Request, Task, Verdict

type JobStatus = Literal["running", "done", "failed", "cancelled"]
HEARTBEAT_SECONDS = 15


class Job:
    """One storyboard under way or finished. Used from the event loop only."""

    def __init__(self, service: Service, threads: ThreadPoolExecutor) -> None:
        self.id = uuid.uuid4().hex
        self.status: JobStatus = "running"
        self.body = b""
        """The finished storyboard as JSON."""
        self.complete, self.degraded, self.end_checked = False, "", NOBODY
        """As the finished storyboard's."""
        self.owed = False
        """It finished while the server shut down, and nobody has fetched it yet."""
        self.running: asyncio.Task[None] | None = None
        self._service = service
        self._events: list[bytes] = []
        self._changed = asyncio.Event()
        self._models = ServedModels(service, threads, self.id)

    async def run(self, task: Task, max_attempts: int, on_unverified: OnUnverified) -> None:
        """Make the storyboard; `status` says how it ended.

        A storyboard that lost a model on the way is `failed`, and can be fetched all the same.
        """
        status: JobStatus = "failed"
        options: dict[str, Any] = {
            **self._models.loop,
            "max_attempts": max_attempts,
            "on_unverified": on_unverified,
        }
        try:
            board = await drive(task, self._models.ask, observe=self._observe, **options)
            board = attributed(board, self._models.makers)
            self.complete, self.degraded = board.complete, board.degraded
            self.end_checked = board.end_checked
            self.body = await asyncio.to_thread(lambda: board.model_dump_json().encode())
            status = "failed" if self.degraded else "done"
        except asyncio.CancelledError:
            status = "cancelled"
            raise
        finally:
            self._models.cancel()
            self.status = status
            self.owed = self._service.draining and self.body is not None
            self._tell("finished", {"status": status})

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

    def _observe(self, request: Request, answer: Answer) -> None:
        place = {} if isinstance(request, Task) else {"step": request.step}
        match answer:
            case Plan():
                self._tell("planned", {"steps": [s.name for s in answer.steps]})
            case Image():
                self._tell("edited", place)
            case Verdict():
                names = {"success", "reasoning", "probability", "pictures_only"}
                verdict = answer.model_dump(include=names)
                self._tell("judged", place | verdict)
            case Failure():
                self._tell("failure", {**place, "stage": answer.stage, "message": answer.message})

    def _tell(self, event: str, data: Mapping[str, object]) -> None:
        self._events.append(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
        self._changed.set()
        self._changed = asyncio.Event()
