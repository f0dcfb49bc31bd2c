"""The state that the routes share: models behind their queues, and bounds."""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from goalreel import claims, drivers, middleware
from goalreel.chat.conversation import Chat, ChatRequest, NoReply, TokenReply
from goalreel.critics.chat import ChatCritic
from goalreel.critics.examiner import Examiner
from goalreel.errors import BackendError
from goalreel.image import Image
from goalreel.loop import LoopArguments
from goalreel.planners.chat import ChatPlanner
from goalreel.serving.errors import CLIENT_GONE, UnknownModelError
from goalreel.serving.queues import BatchBounds, Batcher
from goalreel.serving.settings import Models, ServeSettings
from goalreel.types import Answer, Candidate, Edit, Failure, Request as ModelRequest, Role, Task, stage_of

type ChatBatcher = Batcher[ChatRequest, TokenReply | NoReply]
type EditBatcher = Batcher[Edit, Image | Failure]


class Service:
    """One application's state. Planner and Critic share a batcher where they are the same model."""

    def __init__(self, models: Models, settings: ServeSettings) -> None:
        self.models, self.settings = models, settings
        self.draining = False
        self.under_way = 0
        """The number of POST requests that are being answered now."""
        self.batchers: dict[str, Batcher] = {}
        """By role: planner, critic, editor."""
        self.examiner_of: Callable[[str], Examiner] = functools.cache(Examiner)
        """The examiner of a critic, by its name in claims."""
        self.examining = ThreadPoolExecutor(1, thread_name_prefix="goalreel-examiner")
        """Asks control questions, in the background."""
        for role in models.names():
            model = getattr(models, role)
            if role == "critic" and model is not None and model is models.planner:
                self.batchers[role] = self.batchers["planner"]
            elif model is not None:
                self.batchers[role] = self._batcher(role, model)

    def _batcher(self, role: Role, model: Any) -> Batcher:
        """Queue the requests of a model. One behind a server gets each request in a call of its own."""
        limits = self.settings
        size, lanes = (1, limits.batch_size) if role in self.models.remote else (limits.batch_size, 1)
        call = model.edit if role == "editor" else model.answer
        bounds = BatchBounds(size, limits.batch_wait_ms / 1000, limits.queue_size)
        return Batcher(role, call, bounds, lanes=lanes)

    @property
    def healthy(self) -> bool:
        """Every model's worker is alive and at work."""
        return all(batcher.alive for batcher in self.batchers.values()) and not self.stuck

    @property
    def stuck(self) -> list[str]:
        """Roles at work that gave no answer for `stuck_seconds`."""
        limit = self.settings.stuck_seconds
        return [role for role, batcher in self.batchers.items() if batcher.silent_seconds > limit]

    def names(self) -> dict[str, str]:
        """Name of a model in requests -> its role."""
        named = {name: role for role, name in self.models.names().items() if role in self.batchers}
        return named | {role: role for role in self.batchers}

    def chat(self, model: str) -> ChatBatcher:
        """The batcher of a chat model; HTTPException 404 where it is none here."""
        role = self.names().get(model)
        if role not in ("planner", "critic"):
            chat_models = ", ".join(n for n, r in self.names().items() if r != "editor") or "no chat model"
            raise UnknownModelError(f"no chat model of that name here: this server has {chat_models}")
        return self.batchers[role]

    def editor(self) -> EditBatcher:
        """The batcher of the editor; HTTPException 404 without one."""
        if "editor" not in self.batchers:
            raise HTTPException(404, "this server has no editor")
        return self.batchers["editor"]

    def close(self) -> None:
        """Stop every model's worker thread, as `Batcher.close`; what waits is answered WorkerDead."""
        self.examining.shutdown(wait=False, cancel_futures=True)
        for batcher in self.batchers.values():
            batcher.close()


async def ask_while_connected[Q, A](request: Request, batcher: Batcher[Q, A], question: Q) -> A:
    """Wait for an answer; raises as `while_connected` and `Batcher.ask`."""
    return await while_connected(request, batcher.ask(question, client=client_of(request)))


def client_of(request: Request) -> str | None:
    """The address of the client, each of which has its turn in a queue."""
    return request.client.host if request.client else None


async def while_connected[A](request: Request, work: Coroutine[Any, Any, A]) -> A:
    """Wait for the end of some work, which is cancelled when the client hangs up.

    Raises:
        HTTPException: 499, the client has disconnected.
    """
    answer = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise HTTPException(CLIENT_GONE, "the client has disconnected")
        return await answer
    finally:
        answer.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _service_of(request: Request) -> Service:
    return request.app.state.service


Here = Annotated[Service, Depends(_service_of)]


class QueuedChat(Chat):
    """A Chat for a job's agents that sends conversations to the server's batches. It blocks its thread.

    The queue's limit does not apply: a job has one request at a time, and the number of jobs is limited.
    """

    def __init__(self, batcher: ChatBatcher, client: str) -> None:
        self._batcher, self._client = batcher, client
        self._waiting: list[Future[TokenReply | NoReply]] = []
        self._cancelled = False

    def answer(self, requests: Sequence[ChatRequest]) -> list[TokenReply | NoReply]:
        """Wait for every answer; BackendError without one, CancelledError where the job was cancelled."""
        self._waiting = [self._batcher.put(r, client=self._client, bounded=False) for r in requests]
        if self._cancelled:
            self.cancel()
        return [future.result() for future in self._waiting]

    def cancel(self) -> None:
        """Take back what waits, and whatever comes later."""
        self._cancelled = True
        for future in self._waiting:
            future.cancel()


class ServedModels:
    """Planner, Critic and, where something `draws`, Editor of a server, for the storyboard `client`."""

    def __init__(
        self, service: Service, threads: ThreadPoolExecutor | None, client: str, *, draws: bool = True
    ) -> None:
        self._client, self._threads, self._examining = client, threads, service.examining
        planner = QueuedChat(service.chat("planner"), client)
        critic = QueuedChat(service.chat("critic"), client)
        self._chats = (planner, critic)
        models, loop = service.models, service.settings.loop
        self._planner = ChatPlanner(planner, dialect=models.planner_dialect, max_steps=loop.max_steps)
        self._critic, self._examined = (
            ChatCritic(
                chat,
                mode=loop.critic_mode,
                scores=loop.critic_scores,
                dialect=models.critic_dialect,
                threshold=loop.critic_threshold,
            )
            for chat in (critic, QueuedChat(service.chat("critic"), client))  # which outlives the job
        )
        self._editor = service.editor() if draws else None
        self.makers = claims.makers(models.names().get)
        """The models' names in claims."""
        self.examiner = service.examiner_of(self.makers.get("critic", claims.UNKNOWN))
        self.loop: LoopArguments = {
            **loop.loop_arguments,
            "confirms": lambda steps: loop.confirms(steps, models.critic_steps),
        }
        """Arguments of the loop for the server's storyboards."""

    async def ask(self, request: ModelRequest) -> Answer:
        """Ask the model that answers such a request; one that cannot be called is a Failure."""
        try:
            if isinstance(request, Edit):
                assert self._editor is not None
                return await self._editor.ask(request, client=self._client, bounded=False)
            call: Callable[..., Any] = self._planner.plan if isinstance(request, Task) else self._critic.judge
            (answer,) = await asyncio.get_running_loop().run_in_executor(self._threads, call, [request])
            with contextlib.suppress(RuntimeError):  # the server ends
                self._examining.submit(self._examine, request, answer)
            return answer
        except BackendError as e:
            return drivers.as_failure(stage_of(request), e)

    def _examine(self, request: Task | Candidate, answer: Answer) -> None:
        """Note an answer, and ask the control questions that are due. Every task of a server has one id."""
        name = {"id" if isinstance(request, Task) else "task_id": self._client}
        self.examiner.note(request.model_copy(update=name), answer)
        self.examiner.ask_due(functools.partial(middleware.ask_model, self._examined))

    def cancel(self) -> None:
        """Take back what waits for an answer, and whatever comes later."""
        for chat in self._chats:
            chat.cancel()
