"""OpenAI's chat completions, for the part that vision-language agents use: text and images in, text out.

A reply comes whole, or as server-sent events while it is written.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from goalreel.chat.conversation import ChatRequest, Message, NoReply, TokenReply
from goalreel.errors import BackendError
from goalreel.http.access import UNANSWERED
from goalreel.image import Image
from goalreel.serving.chat_format import (
    ChatAnswer,
    ChatBody,
    ChatMessage,
    Ended,
    ImagePart,
    TextPart,
    answer,
    end_reply,
    find_stop,
    logprobs_of,
    new_head,
    usage_of,
)
from goalreel.serving.errors import EVENTS, HEADERS, error_body, responses, unknown_model
from goalreel.serving.images import decode_all, from_base64
from goalreel.serving.service import (
    ChatBatcher,
    Here,
    Service,
    ask_while_connected,
    client_of,
    while_connected,
)
from goalreel.serving.steering import STEER, SteeringQuestion

type Pieces = asyncio.Queue[str | None]
"""The pieces of a reply; None is its end."""


async def stream(
    request: Request, body: ChatBody, batcher: ChatBatcher, question: ChatRequest
) -> StreamingResponse:
    """Give a reply as it is written. What fails before its first piece has an HTTP status of its own.

    Raises:
        HTTPException: as `end_reply`, or the client is gone.
        QueueFull, BackendError: from the batcher.
    """
    pieces: Pieces = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def on_text(piece: str) -> None:
        with suppress(RuntimeError):  # the server has ended
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

    if not question.tokens:  # they are there when the reply is: with them, it comes in one piece
        question = replace(question, on_text=on_text)
    reply = asyncio.ensure_future(batcher.ask(question, client=client_of(request)))
    reply.add_done_callback(lambda _: pieces.put_nowait(None))
    try:
        first = await while_connected(request, pieces.get())
        if first is None:
            end_reply(await reply, ())
    except BaseException:
        reply.cancel()
        raise
    events = _events(body, first, pieces, reply)
    return StreamingResponse(events, media_type="text/event-stream", headers=HEADERS)


async def _events(
    body: ChatBody, piece: str | None, pieces: Pieces, reply: asyncio.Future[TokenReply | NoReply]
) -> AsyncIterator[bytes]:
    head, stop = {**new_head(body), "object": "chat.completion.chunk"}, body.stop or ()
    counted = body.stream_options is not None and body.stream_options.include_usage
    reserve = max(map(len, stop), default=1) - 1  # so much may be the beginning of a text that stops it
    text, sent = "", 0

    def chunk(delta: Mapping[str, str], **more: object) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, **more}
        return _event({**head, "choices": [choice]})

    try:
        yield chunk({"role": "assistant", "content": ""})
        at = None
        while piece is not None and at is None:
            start = max(0, len(text) - reserve)
            text += piece
            at = find_stop(text, stop, start)
            until = len(text) - reserve if at is None else at
            if until > sent:
                yield chunk({"content": text[sent:until]})
                sent = until
            piece = await pieces.get() if at is None else piece
        # Who asks for the number of tokens waits for the rest of them, too.
        ended = Ended(text[:at]) if at is not None and not counted else end_reply(await reply, stop)
        if len(ended.text) > sent:
            yield chunk({"content": ended.text[sent:]}, logprobs=logprobs_of(ended, body.top_logprobs or 0))
        yield chunk({}, finish_reason=ended.finish_reason)
        if counted and (usage := usage_of(ended)):
            yield _event({**head, "choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"
    except (HTTPException, BackendError) as e:
        message = str(e.detail) if isinstance(e, HTTPException) else str(e)
        yield b"data: %s\n\n" % error_body(UNANSWERED, message)
    finally:
        reply.cancel()


def _event(data: Mapping[str, object]) -> bytes:
    return b"data: %s\n\n" % json.dumps(data).encode()


router = APIRouter(prefix="/v1", tags=["OpenAI-compatible"])


class ModelCard(BaseModel):
    """A name that `model` may take."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "goalreel"
    trained_steps: int | None = None
    """A planner's: the number of steps in all questions that it was trained on."""
    confirm_steps: int | None = None
    """A critic's: the longest task, in steps, that it can judge as a whole."""


class ModelList(BaseModel):
    """Every name that `model` may take."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


@router.get("/models", responses=responses())
def models(service: Here) -> ModelList:
    """List what is served: the roles, and the models' own names."""
    return ModelList(data=[_card(name, service) for name in service.names()])


@router.get("/models/{model:path}", responses=responses(404))
def model(model: str, service: Here) -> ModelCard:
    """One name that `model` may take."""
    if model not in service.names():
        raise unknown_model(f"no model of that name here: this server has {', '.join(service.names())}")
    return _card(model, service)


def _card(name: str, service: Service) -> ModelCard:
    models, role = service.models, service.names()[name]
    if role == "planner":
        return ModelCard(id=name, trained_steps=models.planner_dialect.trained_steps)
    return ModelCard(id=name, confirm_steps=models.critic_steps() if role == "critic" else None)


@router.post("/chat/completions", response_model=ChatAnswer, responses=responses(404, 424) | EVENTS)
async def complete(request: Request, body: ChatBody, service: Here) -> ChatAnswer | StreamingResponse:
    """Continue a conversation. With `stream`, the answer is OpenAI's stream of chunks, up to `[DONE]`."""
    steers = body.model == STEER
    batcher = service.chat("planner" if steers else body.model)
    batcher.check_room()
    conversation = await _conversation(body.messages, service.settings.max_pixels)
    if steers and (asked := SteeringQuestion.read(conversation)):
        decision = request.app.state.steering.answer(asked, client_of(request) or "")
        return answer(body, await while_connected(request, decision))
    json_schema = body.response_format.json_schema if body.response_format else None
    question = ChatRequest(
        conversation,
        json_schema.schema_ if json_schema else None,
        tokens=bool(body.logprobs),
        max_tokens=body.max_completion_tokens or body.max_tokens,
        stop=tuple(body.stop or ()),
    )
    if body.stream:
        return await stream(request, body, batcher, question)
    return answer(body, await ask_while_connected(request, batcher, question))


async def _conversation(messages: list[ChatMessage], max_pixels: int) -> tuple[Message, ...]:
    urls = [p.image_url.url for m in messages for p in m.content if isinstance(p, ImagePart)]
    images = iter(await decode_all([from_base64(url) for url in urls], max_pixels))

    def part(p: TextPart | ImagePart) -> str | Image:
        return p.text if isinstance(p, TextPart) else next(images)

    return tuple(
        Message("system" if m.role == "developer" else m.role, tuple(part(p) for p in m.content))
        for m in messages
    )
