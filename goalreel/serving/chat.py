"""OpenAI's chat completions, for the part that vision-language agents use: text and images in, text out.

A reply is sent when it is whole. Each field of a body is honoured, the model's own, or refused.
"""

import math
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from goalreel.chat.conversation import ChatRequest, Message, NoReply, Token, TokenReply, Usage
from goalreel.image import Image
from goalreel.serving.errors import Stream, Utf8, Wording, responses, unanswered, unknown_model
from goalreel.serving.images import decode_all, from_base64
from goalreel.serving.service import Here, Service, ask_while_connected, client_of, while_connected
from goalreel.serving.steering import STEER, SteeringQuestion

_ALIASES = {"input_text": "text", "output_text": "text", "input_image": "image_url"}
"""Names of the same parts in OpenAI's Responses API and its clients."""

_SAMPLING = {"temperature", "top_p", "top_k", "min_p", "seed"}
_PENALTIES = {"frequency_penalty", "presence_penalty", "repetition_penalty"}
_ACCOUNT = {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"}
MODEL_OWN = _SAMPLING | _PENALTIES | _ACCOUNT | {"parallel_tool_calls"}
"""Fields of a chat's body that are the served model's own: taken, and not used."""
NEVER = -9999.0
"""The logarithm of a chance of 0, as OpenAI gives it."""


class TextPart(BaseModel):
    """A piece of text."""

    type: Literal["text"]
    text: Utf8


class ImageUrl(BaseModel):
    """`data:image/png;base64,...` (or JPEG, WebP)."""

    url: str


def _image_url(value: object) -> object:
    return {"url": value} if isinstance(value, str) else value


class ImagePart(BaseModel):
    """A picture, in its place between the texts."""

    type: Literal["image_url"]
    image_url: Annotated[ImageUrl, BeforeValidator(_image_url, json_schema_input_type=ImageUrl | str)]


def _known_part(value: object) -> object:
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(kind, str):
        return value
    if (part_kind := _ALIASES.get(kind, kind)) not in ("text", "image_url"):
        raise ValueError(f"has the type {kind}; this server reads text and image_url")
    return {**value, "type": part_kind}


type ContentPart = Annotated[TextPart | ImagePart, Field(discriminator="type"), BeforeValidator(_known_part)]


def _parts(value: object) -> object:
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


class ChatMessage(BaseModel):
    """One turn; `developer` is another name for `system`."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[
        list[ContentPart],
        Field(min_length=1, max_length=256),
        BeforeValidator(_parts, json_schema_input_type=str | list[ContentPart]),
    ]


class JsonSchema(BaseModel):
    """A named JSON schema."""

    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class ResponseFormat(BaseModel):
    """Text, any JSON, or JSON by a schema (which the model behind may or may not enforce)."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


class ChatBody(BaseModel):
    """A conversation to continue. Sampling parameters are taken, and left to the served model.

    Any other field that is not here is refused.
    """

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    model: Wording
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=256)]
    n: Literal[1] | None = 1
    """The server gives one answer."""
    stream: Stream = False
    """Refused: a reply is sent when it is whole."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The number of tokens at which the reply is cut, if the model's own limit does not cut it before."""
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    """The newer name of `max_tokens`; it counts where both are there."""
    stop: Annotated[
        list[Annotated[str, Field(min_length=1)]] | None,
        Field(max_length=4),
        BeforeValidator(_listed, json_schema_input_type=str | list[str] | None),
    ] = None
    """The reply ends before the first of these texts."""
    response_format: ResponseFormat | None = None
    logprobs: bool | None = False
    """Tell how likely the tokens were, where the model behind can."""
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    """At most so many alternatives a token; the model behind may know fewer."""

    @model_validator(mode="before")
    @classmethod
    def _asked(cls, body: object) -> object:
        """Clients send null for what they do not ask, tools for one."""
        if not isinstance(body, dict):
            return body
        return {k: v for k, v in body.items() if v is not None and k not in MODEL_OWN}


@dataclass(frozen=True)
class Ended:
    """A reply up to its end or the first of the texts that stop it."""

    text: str
    finish_reason: Literal["stop", "length"] = "stop"
    tokens: Sequence[Token] = ()
    usage: Usage | None = None


def end_reply(reply: TokenReply | NoReply, stop: Sequence[str]) -> Ended:
    """Read how a reply ended.

    Raises:
        HTTPException: 422 or 424, there is none.
    """
    if isinstance(reply, TokenReply):
        ended = Ended(reply.text, "stop", reply.tokens, reply.usage)
    elif reply.cut_off is not None:
        ended = Ended(reply.cut_off, "length", (), reply.usage)
    else:
        raise unanswered(f"the model gave no answer: {reply.reason}", refused=reply.refused)
    at = min((at for text in stop if (at := ended.text.find(text)) >= 0), default=None)
    if at is None:
        return ended
    ends = accumulate(len(token.text) for token in ended.tokens)
    tokens = [token for token, end in zip(ended.tokens, ends, strict=True) if end <= at]
    return Ended(ended.text[:at], "stop", tokens, ended.usage)


def answer(body: ChatBody, reply: TokenReply | NoReply) -> dict[str, Any]:
    """Give a whole reply.

    Raises:
        HTTPException: as `end_reply`.
    """
    ended = end_reply(reply, body.stop or ())
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "created": int(time.time()),
        "model": body.model,
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": ended.text},
                "logprobs": logprobs_of(ended, body.top_logprobs or 0),
                "finish_reason": ended.finish_reason,
            }
        ],
        "usage": usage_of(ended),
    }


def usage_of(ended: Ended) -> dict[str, int] | None:
    """The number of tokens; None where the model behind does not count."""
    if (usage := ended.usage) is None:
        return None
    total = usage.prompt + usage.reply
    return {"prompt_tokens": usage.prompt, "completion_tokens": usage.reply, "total_tokens": total}


def logprobs_of(ended: Ended, top: int) -> dict[str, Any] | None:
    """List how likely the tokens were (natural logarithms, -9999 for never); None where nobody tells."""
    chosen = [_chosen(token, top) for token in ended.tokens]
    return {"content": chosen} if chosen else None


def _chosen(token: Token, top: int) -> dict[str, Any]:
    ranked = sorted(token.alternatives.items(), key=lambda item: -item[1])
    alternatives = [_logprob(text, chance) for text, chance in ranked[:top]]
    return {**_logprob(token.text, token.alternatives[token.text]), "top_logprobs": alternatives}


def _logprob(text: str, chance: float) -> dict[str, Any]:
    return {
        "token": text,
        "logprob": math.log(chance) if chance > 0 else NEVER,
        "bytes": list(text.encode()),
    }


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


@router.post("/chat/completions", responses=responses(404, 424))
async def complete(request: Request, body: ChatBody, service: Here) -> dict[str, Any]:
    """Continue a conversation."""
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
    return answer(body, reply)


async def _conversation(messages: list[ChatMessage], max_pixels: int) -> tuple[Message, ...]:
    urls = [p.image_url.url for m in messages for p in m.content if isinstance(p, ImagePart)]
    images = iter(await decode_all([from_base64(url) for url in urls], max_pixels))

    def part(p: TextPart | ImagePart) -> str | Image:
        return p.text if isinstance(p, TextPart) else next(images)

    return tuple(
        Message("system" if m.role == "developer" else m.role, tuple(part(p) for p in m.content))
        for m in messages
    )
