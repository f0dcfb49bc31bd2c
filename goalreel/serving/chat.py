"""OpenAI's chat completions, for the part that vision-language agents use: text and images in, text out."""

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from goalreel.chat.conversation import ChatRequest, Message
from goalreel.image import Image
from goalreel.serving.chat_answer import ChatAnswer, answer
from goalreel.serving.chat_body import ChatBody, ChatMessage, ImagePart, TextPart
from goalreel.serving.chat_stream import stream
from goalreel.serving.errors import ApiError, responses
from goalreel.serving.events import EVENTS
from goalreel.serving.pictures import decode_all, from_base64
from goalreel.serving.service import Here, Service, ask_while_connected

router = APIRouter(prefix="/v1", tags=["OpenAI-compatible"])


class ModelCard(BaseModel):
    """A name that `model` may take."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "goalreel"
    trained_steps: int | None = None
    """Of a planner: the number of steps in all questions that it was trained on."""


class ModelList(BaseModel):
    """Every name that `model` may take."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


@router.get("/models", responses=responses())
def models(service: Here) -> ModelList:
    """What is served: the roles, and the models' own names."""
    return ModelList(data=[_card(name, service) for name in service.names()])


@router.get("/models/{model:path}", responses=responses(404))
def model(model: str, service: Here) -> ModelCard:
    """One name that `model` may take."""
    if model not in service.names():
        served = ", ".join(service.names())
        message = f"no model of that name here: this server has {served}"
        raise ApiError(404, message, param="model", code="model_not_found")
    return _card(model, service)


def _card(name: str, service: Service) -> ModelCard:
    if service.names()[name] != "planner":
        return ModelCard(id=name)
    return ModelCard(id=name, trained_steps=service.models.planner_dialect.trained_steps)


@router.post("/chat/completions", response_model=ChatAnswer, responses=responses(404, 424) | EVENTS)
async def complete(request: Request, body: ChatBody, service: Here) -> ChatAnswer | StreamingResponse:
    """Continue a conversation. With `stream`, the answer is OpenAI's stream of chunks, up to `[DONE]`."""
    batcher = service.chat(body.model)
    batcher.check_room()
    json_schema = body.response_format.json_schema if body.response_format else None
    question = ChatRequest(
        await _conversation(body.messages, service.settings.max_pixels),
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
