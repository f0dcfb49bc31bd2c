"""What the routes share: the models behind their batchers, the bounds, the counters, the storyboards."""

import asyncio
import functools
import json
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from goalreel.chat.conversation import (
    Chat,
    ChatRequest,
    DecodingChat,
    NoReply,
    TokenReply,
    request_replies,
)
from goalreel.image import Image
from goalreel.progress import OnText, reply_listener
from goalreel.serving.batcher import BatchBounds, Batcher
from goalreel.serving.call_engine import CallEngine
from goalreel.serving.errors import CLIENT_GONE, ApiError
from goalreel.serving.metrics import Metrics
from goalreel.serving.settings import Models, ServeSettings
from goalreel.types import Edit, Failure, Role

type ChatBatcher = Batcher[ChatRequest, TokenReply | NoReply]
type EditBatcher = Batcher[Edit, Image | Failure]


class Service:
    """One application's state. Planner and Critic share a batcher where they are the same model."""

    def __init__(self, models: Models, settings: ServeSettings) -> None:
        self.models = models
        self.settings = settings
        self.metrics = Metrics()
        self.draining = False
        self.under_way = 0
        """How many POST requests are being answered now."""
        self.batchers: dict[str, Batcher] = {}
        """By role: planner, critic, editor."""
        self._bounds = BatchBounds(settings.batch_size, settings.batch_wait_ms / 1000, settings.queue_size)
        if models.planner is not None:
            self.batchers["planner"] = self._chat("planner", models.planner)
        if models.critic is not None and models.critic is models.planner:
            self.batchers["critic"] = self.batchers["planner"]
        elif models.critic is not None:
            self.batchers["critic"] = self._chat("critic", models.critic)
        if models.editor is not None:
            self.batchers["editor"] = self._calls("editor", models.editor.edit)

    def _chat(self, role: Role, chat: Chat) -> ChatBatcher:
        if isinstance(chat, DecodingChat):
            observe = functools.partial(self.metrics.called, role)
            return Batcher(role, [chat.decoder()], self._bounds, observe=observe)

        def call(requests: Sequence[ChatRequest]) -> Sequence[TokenReply | NoReply]:
            conversations, schema = [r.conversation for r in requests], requests[0].schema
            # A chat model behind a server gets each request by itself, so that its pieces have one owner.
            listener = _Listener(requests[0].begin if len(requests) == 1 else None)
            with reply_listener(listener.begin):
                replies = request_replies(chat, conversations, schema, tokens=requests[0].tokens)
            for request, reply in zip(requests, replies, strict=False):
                text = reply.text if isinstance(reply, TokenReply) else reply.cut_off
                if request.on_text is not None and text and not listener.has_heard:
                    request.on_text(text)
            return replies

        return self._calls(role, call, key=_call_key)

    def _calls[Q, A](
        self,
        role: Role,
        call: Callable[[Sequence[Q]], Sequence[A]],
        key: Callable[[Q], Hashable] = lambda _: None,
    ) -> Batcher[Q, A]:
        """Queue the calls of a model. One behind a server gets each request in a call of its own."""
        lanes, bounds = 1, self._bounds
        if role in self.models.remote:
            lanes, bounds = bounds.size, replace(bounds, size=1)
        observe = functools.partial(self.metrics.called, role)
        return Batcher(role, [CallEngine(role, call, observe) for _ in range(lanes)], bounds, key=key)

    @property
    def healthy(self) -> bool:
        """Whether every model's worker is alive and at work."""
        return all(batcher.alive for batcher in self.batchers.values()) and not self.stuck

    @property
    def stuck(self) -> list[str]:
        """Roles at work that wrote no token, or gave no answer, for `stuck_seconds`."""
        limit = self.settings.stuck_seconds
        return [role for role, batcher in self.batchers.items() if batcher.silent_seconds > limit]

    def names(self) -> dict[str, str]:
        """Name of a model in requests -> its role."""
        models = self.models
        served = {models.planner_name: "planner", models.critic_name: "critic", models.editor_name: "editor"}
        roles = {role: role for role in self.batchers}
        return {name: role for name, role in served.items() if role in self.batchers} | roles

    def chat(self, model: str) -> ChatBatcher:
        """The batcher of a chat model.

        Raises:
            HTTPException: 404, no such model here.
        """
        role = self.names().get(model)
        if role not in ("planner", "critic"):
            chat_models = ", ".join(n for n, r in self.names().items() if r != "editor") or "no chat model"
            message = f"no chat model of that name here: this server has {chat_models}"
            raise ApiError(404, message, param="model", code="model_not_found")
        return self.batchers[role]

    def editor(self) -> EditBatcher:
        """The batcher of the editor.

        Raises:
            HTTPException: 404, no editor here.
        """
        if "editor" not in self.batchers:
            raise HTTPException(404, "this server has no editor")
        return self.batchers["editor"]

    def close(self, timeout: float = 5.0) -> None:
        """Stop every model's worker thread, as `Batcher.close`; what waits is answered WorkerDead."""
        for batcher in self.batchers.values():
            batcher.close(timeout)


class _Listener:
    """Hands on the pieces of one reply, and knows whether there were any."""

    def __init__(self, begin: Callable[[], OnText | None] | None) -> None:
        self._begin = begin
        self.has_heard = False

    def begin(self) -> OnText | None:
        tell = None if self._begin is None else self._begin()
        if tell is None:
            return None

        def hear(piece: str) -> None:
            self.has_heard = True
            tell(piece)

        return hear


def _call_key(request: ChatRequest) -> tuple[bool, str]:
    """Only conversations with the same schema, all with tokens or all without, can share a call."""
    return request.tokens, json.dumps(request.schema, sort_keys=True)


async def ask_while_connected[Q, A](request: Request, batcher: Batcher[Q, A], question: Q) -> A:
    """Wait for an answer, and take the question back when the client hangs up.

    Raises:
        HTTPException: 499, the client has disconnected.
        QueueFull, BackendError: from the batcher.
    """
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


def service_of(request: Request) -> Service:
    """The service of the application that got the request."""
    return request.app.state.service


Here = Annotated[Service, Depends(service_of)]
