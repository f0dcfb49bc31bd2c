"""OpenAI's chat completions, for the part that vision-language agents use: text and images in, text out.

A reply is sent when it is whole, in one piece where the client asks for a stream.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from goalreel.chat.conversation import ChatRequest, Message, NoReply, TokenReply
from goalreel.image import Image
from goalreel.serving.chat_format import (
    ChatBody,
    ChatMessage,
    ImagePart,
    TextPart,
    answer,
    end_reply,
    logprobs_of,
    new_head,
    usage_of,
)
from goalreel.serving.errors import EVENTS, HEADERS, responses, unknown_model
from goalreel.serving.images import decode_all, from_base64
from goalreel.serving.service import Here, Service, ask_while_connected, client_of, while_connected
from goalreel.serving.steering import STEER, SteeringQuestion


def stream(body: ChatBody, reply: TokenReply | NoReply) -> StreamingResponse:
    """Give a whole reply as OpenAI's stream: its role, its text in one piece, and its end.

    Raises:
        HTTPException: as `end_reply`.
    """
    ended, head = end_reply(reply, body.stop or ()), {**new_head(body), "object": "chat.completion.chunk"}

    def chunk(delta: Mapping[str, str], **more: object) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, **more}
        return _event({**head, "choices": [choice]})

    logprobs = logprobs_of(ended, body.top_logprobs or 0)
    chunks = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": ended.text}, logprobs=logprobs),
        chunk({}, finish_reason=ended.finish_reason),
    ]
    if body.stream_options and body.stream_options.include_usage and (usage := usage_of(ended)):
        chunks.append(_event({**head, "choices": [], "usage": usage}))
    chunks.append(b"data: [DONE]\n\n")
    return StreamingResponse(iter(chunks), media_type="text/event-stream", headers=HEADERS)


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


@router.post("/chat/completions", response_model=None, responses=responses(404, 424) | EVENTS)
async def complete(request: Request, body: ChatBody, service: Here) -> dict[str, Any] | StreamingResponse:
    """Continue a conversation. With `stream`, the answer is a stream as OpenAI's, up to `[DONE]`."""
    steers = body.model == STEER
    batcher = service.chat("planner" if steers else body.model)
    batcher.check_room(client_of(request))
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
    )
    reply = await ask_while_connected(request, batcher, question)
    return stream(body, reply) if body.stream else answer(body, reply)


async def _conversation(messages: list[ChatMessage], max_pixels: int) -> tuple[Message, ...]:
    urls = [p.image_url.url for m in messages for p in m.content if isinstance(p, ImagePart)]
    images = iter(await decode_all([from_base64(url) for url in urls], max_pixels))

    def part(p: TextPart | ImagePart) -> str | Image:
        return p.text if isinstance(p, TextPart) else next(images)

    return tuple(
        Message("system" if m.role == "developer" else m.role, tuple(part(p) for p in m.content))
        for m in messages
    )
