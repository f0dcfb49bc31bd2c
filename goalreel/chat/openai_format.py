"""The part of the OpenAI chat protocol that we use: conversations out, replies in."""

import base64
import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from goalreel.chat.conversation import (
    Message,
    NoReply,
    Token,
    TokenReply,
    Usage,
    cut_off,
    refuses_system,
    token_reply,
)
from goalreel.chat.json_reply import RepeatedKeyError, make_dict
from goalreel.http.client import Reply, error_text, refusal_words, refused_field
from goalreel.image import Image

TOP = 5
"""Alternatives requested for each token."""
_NATURAL_ENDS = ("stop", "eos", "eos_token", "stop_sequence", "end_turn", "completed")
"""Other words of servers for `finish_reason: stop`."""
LIMITS = ("max_tokens", "max_completion_tokens")
"""Two names of one argument: OpenAI's newer models know the second only."""
SYSTEM = "the system role"
"""Stands among the arguments that a server refused."""
_OPTIONAL = (*LIMITS, "temperature", "top_p", "top_k", "response_format", "logprobs")
_TOO_LONG = re.compile(r"\d+ (tokens )?in the completion")
"""A conversation and a limit that are together longer than the model's context."""

_PARAMETER_WORDS = re.compile(
    r"schema|json|format|grammar|guided|structured|log_?prob|probab|param|argument|field|extra|unknown"
    r"|unrecognized|(not|un)[ -]?(supported|allowed|available|permitted|enabled)"
)
"""A refusal with none of these is about the conversation, not about an optional argument."""


class _Message(BaseModel):
    content: str | list[Any] | None = None
    refusal: str | None = None
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: Any = None
    function_call: Any = None

    @property
    def text(self) -> str:
        """The text, which some servers send in typed parts, thoughts among them."""
        if not isinstance(self.content, list):
            return (self.content or "").strip()
        return self._parts("text", "text", "output_text").strip()

    @property
    def refused(self) -> str | None:
        """The words of a refusal, which some servers send as a typed part; None without one."""
        return self.refusal or self._parts("refusal", "refusal") or None

    def _parts(self, name: str, *kinds: str) -> str:
        """Join what the typed parts of these kinds hold under `name`."""
        parts = self.content if isinstance(self.content, list) else ()
        texts = [p.get(name) for p in parts if isinstance(p, dict) and p.get("type") in kinds]
        return "".join(text for text in texts if isinstance(text, str))

    @property
    def silence(self) -> str | None:
        """The reason for an empty text, as far as the message says."""
        where = next((name for name in ("reasoning", "reasoning_content") if getattr(self, name)), None)
        if where is None or self.refused:
            return self.refused
        return (
            f"its text lies in `{where}`; turn thinking off (?extra=), or the server's parser of thoughts on"
        )


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None
    logprobs: Any = None
    error: Any = None


class _Usage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Alternative(BaseModel):
    token: str
    logprob: Annotated[float, Field(allow_inf_nan=False)]

    @property
    def probability(self) -> float:
        return math.exp(min(0.0, self.logprob))


class _ChosenToken(_Alternative):
    bytes: list[Annotated[int, Field(ge=0, le=255)]] | None = None
    top_logprobs: list[_Alternative] = []


class _Logprobs(BaseModel):
    content: list[_ChosenToken]


class _Completion(BaseModel):
    """The part of a reply that we read. Servers add fields and leave some out; only these must be right."""

    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None
    error: Any = None


def message_json(message: Message, *, jpeg_quality: int | None = None) -> dict[str, Any]:
    """Write a turn in the protocol; plain text where it has no image, as some servers take no other."""
    if all(isinstance(part, str) for part in message.parts):
        return {"role": message.role, "content": "".join(map(str, message.parts))}
    return {"role": message.role, "content": [_part(part, jpeg_quality) for part in message.parts]}


def parse_completion(body: bytes, max_tokens: int | None = None) -> TokenReply | NoReply:
    """Read the answer in the body of a reply, with its tokens where the server gave readable ones.

    A reply that did not end by itself is a NoReply: its text may be a draft. So is one that calls a tool or
    refuses, whatever else it says, and one of several that differ, where one was asked for. Of a server that
    does not say why a reply ended, one of `max_tokens` tokens or more was cut off.

    Raises:
        ValueError: the body is no chat completion, tells an error, or has no text; the message quotes the
            server.
    """
    try:
        value = json.loads(body.removeprefix(BOM_UTF8).decode(), object_pairs_hook=make_dict)
        completion = _Completion.model_validate(value)
    except RepeatedKeyError as e:
        raise ValueError(
            f"not a chat completion: it has the key {str(e)[:40]!r} twice in one object"
        ) from None
    except (ValueError, RecursionError):
        message = error_text(body) if b'"error"' in body else repr(body[:200].decode(errors="replace"))
        raise ValueError(f"not a chat completion: {message}") from None
    usage = completion.usage or _Usage()
    counted = Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0)
    return replace(_reply_of(completion, usage.completion_tokens, max_tokens), usage=counted)


def _reply_of(completion: _Completion, tokens: int | None, max_tokens: int | None) -> TokenReply | NoReply:
    choice = completion.choices[0]
    if error := completion.error or choice.error:
        raise ValueError(f"an error came with it: {error_text(json.dumps({'error': error}).encode())}")
    text = choice.message.text
    if any((c.message.text, c.finish_reason) != (text, choice.finish_reason) for c in completion.choices):
        number = len(completion.choices)
        return NoReply(f"{number} replies came where one was asked for, and they differ", cut_off=text)
    reason = choice.finish_reason
    if not reason and max_tokens and tokens and tokens >= max_tokens:
        reason = "length"
    refusal = choice.message.refused
    if reason and not _is_natural_end(reason):
        return _unfinished(reason, refusal, text)
    if text and refusal:
        return NoReply(f"the model refused: {' '.join(refusal.split())[:200]}", refused=True)
    if choice.message.tool_calls or choice.message.function_call:
        return NoReply("the model called a tool, and there is none: ask another model", cut_off=text or None)
    if not text:
        raise ValueError(f"the model said nothing: {choice.message.silence or reason}")
    return token_reply(text, _tokens(choice.logprobs))


def _unfinished(reason: str, refusal: str | None, text: str) -> NoReply:
    """Make a NoReply of a reply with another `finish_reason` than a natural end."""
    match reason.casefold():
        case "length" | "max_tokens":
            return cut_off(text)
        case "content_filter":
            return NoReply(
                f"the server's content filter stopped it{f': {refusal}' if refusal else ''}", refused=True
            )
    return NoReply(f"it did not end by itself (finish_reason {reason[:40]!r})", cut_off=text)


def _tokens(logprobs: object) -> list[Token]:
    try:
        tokens = _Logprobs.model_validate(logprobs).content
    except ValidationError:
        return []
    return [
        Token(text, _others(token) | {text: token.probability})
        for text, token in zip(_texts(tokens), tokens, strict=True)
    ]


def _others(token: _ChosenToken) -> dict[str, float]:
    return {a.token: a.probability for a in token.top_logprobs if a.token != token.token}


def _texts(tokens: Sequence[_ChosenToken]) -> Iterator[str]:
    """The text that each token adds. A character whose bytes lie in several comes with the last one."""
    pending = b""
    for token in tokens:
        if token.bytes is None:
            yield token.token
            continue
        pending += bytes(token.bytes)
        try:
            text, pending = pending.decode(), b""
        except UnicodeDecodeError:
            text = ""
        yield text


def refused_argument(reply: Reply, sent: Collection[str], extra: Collection[str] = ()) -> str | None:
    """Return the argument, of those that were `sent`, that a 400, 403 or 422 is about; None without one.

    Servers name a schema or log-probabilities in many ways, so these two are the guess where the message
    speaks of arguments and names none, nor one of the `extra` fields. A 403 may be about the key:
    there is no guess.
    """
    message = refusal_words(reply.body)
    optional = [name for name in _OPTIONAL if name in sent]
    if name := refused_field(message, optional):
        return name
    if SYSTEM in sent and refuses_system(message):
        return SYSTEM
    if _TOO_LONG.search(message) and optional and optional[0] in LIMITS:
        return optional[0]
    is_guess = _PARAMETER_WORDS.search(message) and not refused_field(message, extra)
    if reply.status == 403 or not is_guess:
        return None
    return next((name for name in ("response_format", "logprobs") if name in optional), None)


def _part(part: str | Image, jpeg_quality: int | None) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind, data = ("png", part.png()) if jpeg_quality is None else ("jpeg", part.jpeg(jpeg_quality))
    url = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _is_natural_end(reason: str | None) -> bool:
    """Return whether a `finish_reason` says that the reply ended by itself, or says nothing."""
    return not reason or reason.casefold() in _NATURAL_ENDS
