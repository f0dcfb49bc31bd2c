"""OpenAI's form of a reply: whole, and its pieces."""

import math
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from goalreel.chat.conversation import NoReply, Token, TokenReply, Usage
from goalreel.serving.chat_body import ChatBody
from goalreel.serving.errors import unanswered

NEVER = -9999.0
"""The logarithm of a chance of 0, as OpenAI gives it."""


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


class ChatUsage(BaseModel):
    """How many tokens the request and the reply have."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatAnswer(BaseModel):
    """A chat completion."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: ChatUsage | None = None
    """Null where the model behind does not count."""


class Delta(BaseModel):
    """What a chunk adds to the reply."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChunkChoice(BaseModel):
    """A piece of the one answer."""

    index: Literal[0] = 0
    delta: Delta
    logprobs: ChoiceLogprobs | None = None
    finish_reason: Literal["stop", "length"] | None = None


class ChatChunk(BaseModel):
    """A piece of a chat completion, in an event of a stream that ends with `data: [DONE]`."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: ChatUsage | None = None


@dataclass(frozen=True)
class Ended:
    """A reply up to its end or the first of the texts that stop it."""

    text: str
    finish_reason: Literal["stop", "length"] = "stop"
    tokens: tuple[Token, ...] = ()
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
    at = find_stop(ended.text, stop)
    if at is None:
        return ended
    tokens, length = [], 0
    for token in ended.tokens:
        length += len(token.text)
        if length > at:
            break
        tokens.append(token)
    return Ended(ended.text[:at], "stop", tuple(tokens), ended.usage)


def find_stop(text: str, stop: Sequence[str], start: int = 0) -> int | None:
    """Where the first text that stops a reply begins, from `start` on; None where there is none."""
    return min((at for s in stop if (at := text.find(s, start)) >= 0), default=None)


def answer(body: ChatBody, reply: TokenReply | NoReply) -> ChatAnswer:
    """Give a whole reply.

    Raises:
        HTTPException: as `end_reply`.
    """
    ended = end_reply(reply, body.stop or ())
    choice = CompletionChoice(
        message=AssistantMessage(content=ended.text),
        logprobs=logprobs_of(ended, body.top_logprobs or 0),
        finish_reason=ended.finish_reason,
    )
    return ChatAnswer(**new_head(body), choices=[choice], usage=usage_of(ended))


def new_head(body: ChatBody) -> dict[str, Any]:
    """What an answer and each of its chunks begin with."""
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": body.model}


def usage_of(ended: Ended) -> ChatUsage | None:
    """The number of tokens; None where the model behind does not count."""
    if (usage := ended.usage) is None:
        return None
    total = usage.prompt + usage.reply
    return ChatUsage(prompt_tokens=usage.prompt, completion_tokens=usage.reply, total_tokens=total)


def logprobs_of(ended: Ended, top: int) -> ChoiceLogprobs | None:
    """How likely the tokens were; None where the model behind does not tell."""
    chosen = [_chosen(token, top) for token in ended.tokens]
    return ChoiceLogprobs(content=chosen) if chosen else None


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
