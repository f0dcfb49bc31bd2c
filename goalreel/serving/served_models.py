"""The models of a server as one storyboard asks them: its requests join the server's batches."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from goalreel.chat.conversation import ChatRequest, Conversation, NoReply, Reply, TokenReply
from goalreel.claims import makers
from goalreel.critics.chat import ChatCritic
from goalreel.drivers import as_failure
from goalreel.errors import BackendError
from goalreel.loop import LoopArguments
from goalreel.models.names import ModelName
from goalreel.planners.chat import ChatPlanner
from goalreel.progress import OnText
from goalreel.serving.service import ChatBatcher, Service
from goalreel.types import Answer, Candidate, Edit, Request, Role, Task, stage_of


class QueuedChat:
    """A TokenChat for a job's agents that sends conversations to the server's batches. It blocks its thread.

    The queue's limit does not apply: a job has one request at a time, and the number of jobs is limited.
    `begin` is called before each reply and gives what hears its pieces, in the model's thread.
    """

    def __init__(
        self, batcher: ChatBatcher, client: str, begin: Callable[[], OnText | None] = lambda: None
    ) -> None:
        self._batcher = batcher
        self._client = client
        self._begin = begin
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
        replies = self._ask(
            [ChatRequest(c, schema, on_text=self._begin(), begin=self._begin) for c in conversations]
        )
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


class ServedModels:
    """Planner, Editor and Critic of a server, for the storyboard `client`, whose agents wait in `threads`.

    `begin` is called before each of the planner's replies and gives what hears its pieces.
    """

    def __init__(
        self,
        service: Service,
        threads: ThreadPoolExecutor,
        client: str,
        begin: Callable[[], OnText | None] = lambda: None,
    ) -> None:
        self._client, self._threads = client, threads
        planner = QueuedChat(service.chat("planner"), client, begin)
        critic = QueuedChat(service.chat("critic"), client)
        self._chats = (planner, critic)
        models, loop = service.models, service.settings.loop
        self._planner = ChatPlanner(planner, dialect=models.planner_dialect, max_steps=loop.max_steps)
        self._critic = ChatCritic(
            critic,
            mode=loop.critic_mode,
            scores=loop.critic_scores,
            dialect=models.critic_dialect,
            threshold=loop.critic_threshold,
        )
        self._editor = service.editor()
        names: dict[Role, str] = {
            "planner": models.planner_name,
            "editor": models.editor_name,
            "critic": models.critic_name,
        }
        self.makers = makers(names.get)
        """How claims name the models."""
        self.loop: LoopArguments = {
            **loop.loop_arguments,
            "editors": ModelName.parse(models.editor_name).labels,
        }
        """How the server's storyboards are made."""

    async def ask(self, request: Request) -> Answer:
        """Ask the model that answers such a request; one that cannot be called is a Failure."""
        try:
            match request:
                case Task():
                    return await self._in_thread(self._planner.plan, request)
                case Edit():
                    return await self._editor.ask(request, client=self._client, bounded=False)
                case Candidate():
                    return await self._in_thread(self._critic.judge, request)
        except BackendError as e:
            return as_failure(stage_of(request), e)

    def cancel(self) -> None:
        """Take back what waits for an answer, and whatever comes later."""
        for chat in self._chats:
            chat.cancel()

    async def _in_thread[Q, A](self, call: Callable[[Sequence[Q]], Sequence[A]], request: Q) -> A:
        loop = asyncio.get_running_loop()
        return (await loop.run_in_executor(self._threads, call, [request]))[0]
