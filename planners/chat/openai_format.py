"""The OpenAI chat protocol as we speak it: conversations out, replies in. No connection, no key."""

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import openai
from pydantic import BaseModel, Field, ValidationError

from goalreel.image import Image
from goalreel.planners.chat.conversation import Message, Spoken, Token
from goalreel.planners.chat.token_probability import spoken

TOP = 5
"""Alternatives asked for at each token."""
_OPTIONAL = ("max_tokens", "temperature", "response_format", "logprobs")


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None
    logprobs: Any = None


class _Alternative(BaseModel):
    token: str
    logprob: Annotated[float, Field(allow_inf_nan=False)]

    @property
    def chance(self) -> float:
        return math.exp(min(0.0, self.logprob))


class _Said(_Alternative):
    bytes: list[Annotated[int, Field(ge=0, le=255)]] | None = None
    top_logprobs: list[_Alternative] = []


class _Logprobs(BaseModel):
    content: list[_Said]


class _Completion(BaseModel):
    """What we read of a reply. Servers add to it and leave things out; only this has to be right."""

    choices: list[_Choice] = Field(min_length=1)


def message_json(message: Message, *, jpeg_quality: int | None = None) -> dict[str, Any]:
    """A turn as the protocol has it; plain text without images, which is all some servers' templates take."""
    if all(isinstance(part, str) for part in message.parts):
        return {"role": message.role, "content": "".join(map(str, message.parts))}
    return {"role": message.role, "content": [_part(part, jpeg_quality) for part in message.parts]}


def reply_spoken(body: str) -> Spoken:
    """The answer in the body of a reply, with its tokens where the server gave them and they can be read.

    Raises:
        ValueError: not a chat completion, or one without text; says which, with what the server wrote.
    """
    try:
        choice = _Completion.model_validate_json(body).choices[0]
    except ValidationError:
        raise ValueError(f"not a chat completion: {body[:200]!r}") from None
    if choice.message.content and (text := choice.message.content.strip()):
        return spoken(text, _tokens(choice.logprobs))
    raise ValueError(f"the model said nothing: {choice.message.refusal or choice.finish_reason}")


def _tokens(logprobs: object) -> list[Token]:
    try:
        said = _Logprobs.model_validate(logprobs).content
    except ValidationError:
        return []
    return [
        Token(
            text, {a.token: a.chance for a in one.top_logprobs if a.token != one.token} | {text: one.chance}
        )
        for text, one in zip(_texts(said), said, strict=True)
    ]


def _texts(said: Sequence[_Said]) -> Iterator[str]:
    """What each token adds. A sign whose bytes lie in several tokens comes with its last one."""
    held = b""
    for one in said:
        if one.bytes is None:
            yield one.token
            continue
        held += bytes(one.bytes)
        try:
            text, held = held.decode(), b""
        except UnicodeDecodeError:
            text = ""
        yield text


def error_text(error: openai.APIStatusError) -> str:
    """What the server said was wrong, in one line."""
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    return " ".join((message if isinstance(message, str) else error.response.text).split())[:300]


def blamed(error: openai.APIStatusError, arguments: Mapping[str, Any]) -> str | None:
    """The optional argument that a 400, 403 or 422 is about.

    What is refused in many words is guessed at last: a schema, and log-probabilities; of a 403, which may be
    about the key, nothing.
    """
    said = f"{error.param} {error_text(error)}".casefold()
    sent = [name for name in _OPTIONAL if name in arguments]
    guessed = () if isinstance(error, openai.PermissionDeniedError) else ("response_format", "logprobs")
    guesses = [name for name in guessed if name in sent]
    return next((name for name in [*(n for n in sent if n in said), *guesses]), None)


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
