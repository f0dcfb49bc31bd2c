"""The OpenAI chat protocol as we speak it: conversations out, replies in. No connection, no key."""

import base64
from collections.abc import Mapping
from typing import Any

import openai
from pydantic import BaseModel, Field, ValidationError

from goalreel.image import Image
from goalreel.planners.chat import Message

_OPTIONAL = ("max_tokens", "temperature", "response_format")


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Completion(BaseModel):
    """What we read of a reply. Servers add to it and leave things out; only this has to be right."""

    choices: list[_Choice] = Field(min_length=1)


def message_json(message: Message, *, jpeg_quality: int | None = None) -> dict[str, Any]:
    """A turn as the protocol has it; plain text without images, which is all some servers' templates take."""
    if all(isinstance(part, str) for part in message.parts):
        return {"role": message.role, "content": "".join(map(str, message.parts))}
    return {"role": message.role, "content": [_part(part, jpeg_quality) for part in message.parts]}


def reply_text(body: str) -> str:
    """The answer in the body of a reply.

    Raises:
        ValueError: not a chat completion, or one without text; says which, with what the server wrote.
    """
    try:
        choice = _Completion.model_validate_json(body).choices[0]
    except ValidationError:
        raise ValueError(f"not a chat completion: {body[:200]!r}") from None
    if choice.message.content and (text := choice.message.content.strip()):
        return text
    raise ValueError(f"the model said nothing: {choice.message.refusal or choice.finish_reason}")


def error_text(error: openai.APIStatusError) -> str:
    """What the server said was wrong, in one line."""
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    return " ".join((message if isinstance(message, str) else error.response.text).split())[:300]


def blamed(error: openai.APIStatusError, arguments: Mapping[str, Any]) -> str | None:
    """The optional argument a 400 is about. A schema is refused in many words, so it is the last guess."""
    said = f"{error.param} {error_text(error)}"
    sent = [name for name in _OPTIONAL if name in arguments]
    return next((n for n in sent if n in said), "response_format" if "response_format" in sent else None)


def _part(part: str | Image, jpeg_quality: int | None) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind, data = ("png", part.png()) if jpeg_quality is None else ("jpeg", _jpeg(part, jpeg_quality))
    url = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _jpeg(image: Image, quality: int) -> bytes:
    import cv2

    _, data = cv2.imencode(".jpg", image.pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    return data.tobytes()
