"""OpenAI's chat completions, for the part that vision-language agents use: text and images in, text out.

A reply is sent when it is whole. Each field of a body is honoured, the model's own, or refused.
"""

import math
import time
import uuid
from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, Field, model_validator

from goalreel.chat.conversation import ChatRequest, Message, NoReply, Token, TokenReply
from goalreel.serving.errors import Stream, UnknownModelError, Utf8, Wording, responses, unanswered
from goalreel.serving.images import decode_all, from_base64
from goalreel.serving.service import Here, Service, ask_while_connected, client_of, while_connected
from goalreel.serving.steering import STEER, SteeringQuestion

MODEL_OWN = {
    *("temperature", "top_p", "top_k", "min_p", "seed"),
    *("frequency_penalty", "presence_penalty", "repetition_penalty"),
    *("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"),
    "parallel_tool_calls",
}
"""Fields of a chat's body that are the served model's own: taken, and not used."""


class TextPart(BaseModel):
    """A piece of text."""

    type: Literal["text"]
    text: Utf8


class ImageUrl(BaseModel):
    """`data:image/png;base64,...` (or JPEG, WebP)."""

    url: str


class ImagePart(BaseModel):
    """A picture, in its place between the texts."""

    type: Literal["image_url"]
    image_url: Annotated[
        ImageUrl,
        BeforeValidator(
            lambda url: {"url": url} if isinstance(url, str) else url, json_schema_input_type=ImageUrl | str
        ),
    ]


type ContentPart = Annotated[TextPart | ImagePart, Field(discriminator="type")]


class ChatMessage(BaseModel):
    """One turn; `developer` is another name for `system`."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[
        list[ContentPart],
        Field(min_length=1, max_length=256),
        BeforeValidator(
            lambda text: [{"type": "text", "text": text}] if isinstance(text, str) else text,
            json_schema_input_type=str | list[ContentPart],
        ),
    ]


class JsonSchema(BaseModel):
    """A named JSON schema."""

    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class ResponseFormat(BaseModel):
    """Text, any JSON, or JSON by a schema (which the model behind may or may not enforce)."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class ChatBody(BaseModel, extra="forbid", use_attribute_docstrings=True):
    """A conversation to continue. Sampling parameters are taken, and left to the served model.

    Any other field that is not here is refused.
    """

    model: Wording
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=256)]
    n: Literal[1] | None = 1
    """The server gives one answer."""
    stream: Stream = False
    """Refused: a reply is sent when it is whole."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The number of tokens at which the reply is cut; the model's own limit may be lower."""
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    """The newer name of `max_tokens`; it counts where both are there."""
    stop: Annotated[
        list[Annotated[str, Field(min_length=1)]] | None,
        Field(max_length=4),
        BeforeValidator(
            lambda text: [text] if isinstance(text, str) else text,
            json_schema_input_type=str | list[str] | None,
        ),
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


def answer(body: ChatBody, reply: TokenReply | NoReply) -> dict[str, Any]:
    """Give a whole reply.

    Raises:
        HTTPException: 422 or 424, there is none.
    """
    text, tokens, reason = _ended(reply, body.stop or ())
    logprobs = [_logprobs(token, body.top_logprobs or 0) for token in tokens]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "logprobs": {"content": logprobs} if logprobs else None,
        "finish_reason": reason,
    }
    usage = None
    if reply.usage:
        prompt, written = reply.usage.prompt, reply.usage.reply
        usage = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "created": int(time.time()),
        "model": body.model,
        "object": "chat.completion",
        "choices": [choice],
        "usage": usage,
    }


def _ended(reply: TokenReply | NoReply, stop: Sequence[str]) -> tuple[str, Sequence[Token], str]:
    """Give the text and tokens of a reply up to the first of the texts that stop it, and why it ended."""
    if isinstance(reply, TokenReply):
        text, tokens, reason = reply.text, reply.tokens, "stop"
    elif reply.cut_off is not None:
        text, tokens, reason = reply.cut_off, (), "length"
    else:
        raise unanswered(f"the model gave no answer: {reply.reason}", refused=reply.refused)
    at = min((at for end in stop if (at := text.find(end)) >= 0), default=None)
    if at is None:
        return text, tokens, reason
    ends = accumulate(len(token.text) for token in tokens)
    return text[:at], [token for token, end in zip(tokens, ends, strict=True) if end <= at], "stop"


def _logprobs(token: Token, top: int) -> dict[str, Any]:
    """Tell how likely a token was, and the likeliest of those in its place (natural logarithms)."""

    def entry(text: str, chance: float) -> dict[str, Any]:
        logprob = math.log(chance) if chance > 0 else -9999.0  # as OpenAI gives it
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}

    ranked = sorted(token.alternatives.items(), key=lambda item: -item[1])[:top]
    chosen = entry(token.text, token.alternatives[token.text])
    return chosen | {"top_logprobs": [entry(*item) for item in ranked]}


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
        raise UnknownModelError(f"no model of that name here: this server has {', '.join(service.names())}")
    return _card(model, service)


def _card(name: str, service: Service) -> ModelCard:
    models, role = service.models, service.names()[name]
    trained = models.planner_dialect.trained_steps if role == "planner" else None
    confirmed = models.critic_steps() if role == "critic" else None
    return ModelCard(id=name, trained_steps=trained, confirm_steps=confirmed)


@router.post("/chat/completions", responses=responses(404, 424))
async def complete(request: Request, body: ChatBody, service: Here) -> dict[str, Any]:
    """Continue a conversation."""
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
    )
    return answer(body, await ask_while_connected(request, batcher, question))


async def _conversation(messages: list[ChatMessage], max_pixels: int) -> tuple[Message, ...]:
    urls = [p.image_url.url for m in messages for p in m.content if isinstance(p, ImagePart)]
    images = iter(await decode_all([from_base64(url) for url in urls], max_pixels))
    return tuple(
        Message(
            "system" if m.role == "developer" else m.role,
            tuple(p.text if isinstance(p, TextPart) else next(images) for p in m.content),
        )
        for m in messages
    )
