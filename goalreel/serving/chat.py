"""OpenAI's chat completions, for the part that vision-language agents use: text and images in, text out."""

import math
import time
import uuid
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from goalreel.image import Image
from goalreel.planners.chat.conversation import ChatRequest, Message, Token, TokenReply
from goalreel.serving.errors import Utf8, Wording, responses, unanswered
from goalreel.serving.pictures import decode_all, from_base64
from goalreel.serving.service import Here, ask_while_connected

router = APIRouter(prefix="/v1", tags=["OpenAI-compatible"])
NEVER = -9999.0
"""The logarithm of a chance of 0, as OpenAI gives it."""


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
    image_url: ImageUrl


type ContentPart = Annotated[TextPart | ImagePart, Field(discriminator="type")]


class ChatMessage(BaseModel):
    """One turn."""

    role: Literal["system", "user", "assistant"]
    content: Utf8 | Annotated[list[ContentPart], Field(min_length=1, max_length=256)]


class JsonSchema(BaseModel):
    """A named JSON schema."""

    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class ResponseFormat(BaseModel):
    """Text, any JSON, or JSON by a schema (which the model behind may or may not enforce)."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class ChatBody(BaseModel):
    """The fields that are honoured. Sampling parameters are the served model's own; others are ignored."""

    model_config = ConfigDict(extra="ignore")

    model: Wording
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=256)]
    n: Literal[1] | None = 1
    stream: Literal[False] | None = False
    response_format: ResponseFormat | None = None
    logprobs: bool | None = False
    """Tell how likely the tokens were, where the model behind can."""
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    """At most so many alternatives a token; the model behind may know fewer."""


class AssistantMessage(BaseModel):
    """The turn that the model added."""

    role: Literal["assistant"] = "assistant"
    content: str


class TokenLogprob(BaseModel):
    """A token, how likely it was (natural logarithm; -9999 for never), and its UTF-8 bytes."""

    token: str
    logprob: float
    bytes: list[int]


class ChosenLogprob(TokenLogprob):
    """A token of the answer; what could have stood in its place, the likeliest first."""

    top_logprobs: list[TokenLogprob]


class ChoiceLogprobs(BaseModel):
    """The tokens of an answer."""

    content: list[ChosenLogprob]


class CompletionChoice(BaseModel):
    """The one answer; the server gives no second."""

    index: Literal[0] = 0
    message: AssistantMessage
    logprobs: ChoiceLogprobs | None = None
    finish_reason: Literal["stop", "length"] = "stop"
    """`length`: the reply was cut off, and is no answer."""


class ChatAnswer(BaseModel):
    """A chat completion."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[CompletionChoice]


class ModelCard(BaseModel):
    """A name that `model` may take."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "goalreel"


class ModelList(BaseModel):
    """Every name that `model` may take."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


@router.get("/models", responses=responses())
async def models(service: Here) -> ModelList:
    """What is served: the roles, and the models' own names."""
    return ModelList(data=[ModelCard(id=name) for name in service.names()])


@router.post("/chat/completions", responses=responses(404, 424))
async def complete(request: Request, body: ChatBody, service: Here) -> ChatAnswer:
    """Continue a conversation."""
    batcher = service.chat(body.model)
    batcher.check_room()
    json_schema = body.response_format.json_schema if body.response_format else None
    question = ChatRequest(
        await _conversation(body.messages, service.settings.max_pixels),
        json_schema.schema_ if json_schema else None,
        tokens=bool(body.logprobs),
    )
    reply = await ask_while_connected(request, batcher, question)
    if isinstance(reply, TokenReply):
        tokens = [_chosen(token, body.top_logprobs or 0) for token in reply.tokens]
        choice = CompletionChoice(
            message=AssistantMessage(content=reply.text),
            logprobs=ChoiceLogprobs(content=tokens) if tokens else None,
        )
    elif reply.cut_off is not None:
        choice = CompletionChoice(message=AssistantMessage(content=reply.cut_off), finish_reason="length")
    else:
        raise unanswered(f"the model gave no answer: {reply.reason}", refused=reply.refused)
    return ChatAnswer(
        id=f"chatcmpl-{uuid.uuid4().hex}",
        created=int(time.time()),
        model=body.model,
        choices=[choice],
    )


def _chosen(token: Token, top: int) -> ChosenLogprob:
    ranked = sorted(token.alternatives.items(), key=lambda item: -item[1])
    return ChosenLogprob(
        **_logprob(token.text, token.alternatives[token.text]).model_dump(),
        top_logprobs=[_logprob(text, chance) for text, chance in ranked[:top]],
    )


def _logprob(text: str, chance: float) -> TokenLogprob:
    return TokenLogprob(
        token=text, logprob=math.log(chance) if chance > 0 else NEVER, bytes=list(text.encode())
    )


async def _conversation(messages: list[ChatMessage], max_pixels: int) -> tuple[Message, ...]:
    urls = [p.image_url.url for m in messages for p in _parts(m) if isinstance(p, ImagePart)]
    images = iter(await decode_all([from_base64(url) for url in urls], max_pixels))

    def part(p: TextPart | ImagePart) -> str | Image:
        return p.text if isinstance(p, TextPart) else next(images)

    return tuple(Message(m.role, tuple(part(p) for p in _parts(m))) for m in messages)


def _parts(message: ChatMessage) -> list[TextPart | ImagePart]:
    if isinstance(message.content, str):
        return [TextPart(type="text", text=message.content)]
    return message.content
