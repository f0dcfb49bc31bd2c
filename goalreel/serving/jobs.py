"""All storyboards of a server, with limits for those in progress and for those stored."""

import asyncio
import logging
from collections import Counter, OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from starlette.exceptions import HTTPException

from goalreel.loop import OnUnverified
from goalreel.serving.job import Job
from goalreel.serving.service import Service
from goalreel.types import Task

log = logging.getLogger(__name__)

RETRY_SECONDS = 10


class Jobs:
    """Starts, finds and deletes jobs. Used from the event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._settings = service.settings
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._threads = ThreadPoolExecutor(self._settings.max_running, thread_name_prefix="goalreel-agent")

    @property
    def busy(self) -> bool:
        """Whether a client still waits for a job to finish, or may fetch one that has finished."""
        return any(job.status == "running" or job.owed for job in self._jobs.values())

    def counts(self) -> dict[str, int]:
        """The number of jobs by status, for every status."""
        counts = Counter(job.status for job in self._jobs.values())
        return {status: counts[status] for status in ("running", "done", "failed")}

    def check_room(self) -> None:
        """Check that another storyboard may start.

        Raises:
            HTTPException: 404, a model is missing; 429, too many under way.
        """
        check_room(self._service, self.counts()["running"])

    def submit(self, task: Task, max_attempts: int, on_unverified: OnUnverified) -> Job:
        """Start a storyboard.

        Raises:
            HTTPException: as `check_room`.
        """
        self.check_room()
        job = Job(self._service, self._threads)
        self._jobs[job.id] = job
        job.running = asyncio.create_task(job.run(task, max_attempts, on_unverified), name=f"job-{job.id}")
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
        """Stop a job if it runs, and delete it.

        Raises:
            HTTPException: 404, there is none of that id.
        """
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
        finished = [j for j in self._jobs.values() if j.status != "running"]
        size = sum(len(j.body) for j in finished)
        for oldest in finished[:-1]:
            if len(finished) <= self._settings.max_stored and size <= self._settings.max_stored_bytes:
                break
            finished.remove(oldest)
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
