"""One storyboard as a job: its requests join the server's batches; clients can follow and cancel it."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal

from goalreel.async_driver import drive
from goalreel.batch import as_failure
from goalreel.claims import attributed, makers
from goalreel.errors import BackendError
from goalreel.image import Image
from goalreel.loop import LoopArguments, OnUnverified
from goalreel.models.names import ModelName
from goalreel.planners.agents.critic import ChatCritic
from goalreel.planners.agents.planner import ChatPlanner
from goalreel.planners.chat.conversation import ChatRequest, Conversation, NoReply, Reply, TokenReply
from goalreel.serving.service import ChatBatcher, Service
from goalreel.types import Answer, Candidate, Edit, Failure, Plan, Request, Task, Verdict, stage_of

type JobStatus = Literal["running", "done", "failed", "cancelled"]
HEARTBEAT_SECONDS = 15


class QueuedChat:
    """A TokenChat for a job's agents that sends conversations to the server's batches. It blocks its thread.

    The queue's limit does not apply: a job has one request at a time, and the number of jobs is limited.
    """

    def __init__(self, batcher: ChatBatcher, client: str) -> None:
        self._batcher = batcher
        self._client = client
        self._waiting: list[Future[TokenReply | NoReply]] = []
        self._cancelled = False

    def complete(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> list[Reply]:
        """Wait for every answer.

        Raises:
            BackendError: the model cannot be called.
            concurrent.futures.CancelledError: the job was cancelled.
        """
        replies = self._ask([ChatRequest(c, schema) for c in conversations])
        return [reply.text if isinstance(reply, TokenReply) else reply for reply in replies]

    def complete_tokens(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> list[TokenReply | NoReply]:
        """Wait for every answer; it has tokens where the model gives them.

        Raises:
            BackendError, concurrent.futures.CancelledError: as `complete`.
        """
        return self._ask([ChatRequest(c, schema, tokens=True) for c in conversations])

    def _ask(self, requests: Sequence[ChatRequest]) -> list[TokenReply | NoReply]:
        self._waiting = [
            self._batcher.put(request, client=self._client, bounded=False) for request in requests
        ]
        if self._cancelled:
            self.cancel()
        return [future.result() for future in self._waiting]

    def cancel(self) -> None:
        """Take back what waits, and whatever comes later."""
        self._cancelled = True
        for future in self._waiting:
            future.cancel()


class Job:
    """One storyboard under way or finished. Used from the event loop only."""

    def __init__(self, service: Service, threads: ThreadPoolExecutor) -> None:
        self.id = uuid.uuid4().hex
        self.status: JobStatus = "running"
        self.body = b""
        """The finished storyboard as JSON."""
        self.owed = False
        """It finished while the server shut down, and nobody has fetched it yet."""
        self.running: asyncio.Task[None] | None = None
        self._service = service
        self._events: list[bytes] = []
        self._changed = asyncio.Event()
        self._threads = threads
        chats = [QueuedChat(service.chat(role), self.id) for role in ("planner", "critic")]
        self._chats = chats
        models, loop = service.models, service.settings.loop
        self._planner = ChatPlanner(chats[0], dialect=models.planner_dialect, max_steps=loop.max_steps)
        self._critic = ChatCritic(
            chats[1],
            mode=loop.critic_mode,
            scores=loop.critic_scores,
            dialect=models.critic_dialect,
            threshold=loop.critic_threshold,
        )
        self._editor = service.editor()
        names = {"planner": models.planner_name, "editor": models.editor_name, "critic": models.critic_name}
        self._makers = makers(names.get)
        self._loop: LoopArguments = {
            **loop.loop_arguments,
            "editors": ModelName.parse(models.editor_name).labels,
        }

    async def run(self, task: Task, max_attempts: int, on_unverified: OnUnverified) -> None:
        """Make the storyboard; `status` says how it ended.

        A storyboard that lost a model on the way is `failed`, and can be fetched all the same.
        """
        status: JobStatus = "failed"
        options: dict[str, Any] = {**self._loop, "max_attempts": max_attempts, "on_unverified": on_unverified}
        try:
            board = await drive(task, self._ask, observe=self._observe, **options)
            board = attributed(board, self._makers)
            self.body = await asyncio.to_thread(lambda: board.model_dump_json().encode())
            status = "failed" if board.degraded else "done"
        except asyncio.CancelledError:
            status = "cancelled"
            raise
        finally:
            for chat in self._chats:
                chat.cancel()
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

    async def _ask(self, request: Request) -> Answer:
        try:
            match request:
                case Task():
                    return await self._in_thread(self._planner.plan, request)
                case Edit():
                    return await self._editor.ask(request, client=self.id, bounded=False)
                case Candidate():
                    return await self._in_thread(self._critic.judge, request)
        except BackendError as e:
            return as_failure(stage_of(request), e)

    async def _in_thread[Q, A](self, call: Callable[[Sequence[Q]], Sequence[A]], request: Q) -> A:
        loop = asyncio.get_running_loop()
        return (await loop.run_in_executor(self._threads, call, [request]))[0]

    def _observe(self, request: Request, answer: Answer) -> None:
        place = {} if isinstance(request, Task) else {"step": request.step}
        match answer:
            case Plan():
                self._tell("planned", {"steps": [s.name for s in answer.steps]})
            case Image():
                self._tell("edited", place)
            case Verdict():
                verdict = answer.model_dump(include={"success", "reasoning", "probability"})
                self._tell("judged", place | verdict)
            case Failure():
                self._tell("failure", {**place, "stage": answer.stage, "message": answer.message})

    def _tell(self, event: str, data: Mapping[str, object]) -> None:
        self._events.append(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
        self._changed.set()
        self._changed = asyncio.Event()
