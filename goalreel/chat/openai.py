"""A chat back end on any OpenAI-compatible server: vLLM, SGLang, goalreel serve, hosted GPT and Gemini."""

import asyncio
import base64
import json
import logging
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Annotated, Any, Literal

import httpx2
from pydantic import BaseModel, Field, ValidationError

from goalreel.chat.conversation import (
    Chat,
    ChatRequest,
    Message,
    NoReply,
    Token,
    TokenReply,
    Usage,
    cut_off,
    fold_system,
    least_tokens,
    refuses_system,
    token_reply,
)
from goalreel.chat.json_reply import RepeatedKeyError, make_dict
from goalreel.errors import BackendError
from goalreel.http import client as http
from goalreel.http.endpoint import Endpoint, openai_endpoint
from goalreel.http.probe import probe_openai
from goalreel.image import Image

log = logging.getLogger(__name__)

_TOP = 5
"""Alternatives requested for each token."""
_NATURAL_ENDS = ("stop", "eos", "eos_token", "stop_sequence", "end_turn", "completed")
"""Other words of servers for `finish_reason: stop`."""
LIMITS = ("max_tokens", "max_completion_tokens")
"""Two names of one argument: OpenAI's newer models know the second only."""
SYSTEM = "the system role"  # among the arguments that a server refused
_OPTIONAL = (*LIMITS, "temperature", "top_p", "top_k", "response_format", "logprobs")
_TOO_LONG = re.compile(r"\d+ (tokens )?in the completion")  # with the conversation: for the model's context
_PARAMETER_WORDS = re.compile(
    r"schema|json|format|grammar|guided|structured|log_?prob|probab|param|argument|field|extra|unknown"
    r"|unrecognized|(not|un)[ -]?(supported|allowed|available|permitted|enabled)"
)
"""A refusal with none of these is about the conversation, not about an optional argument."""


@dataclass
class _Health:
    """Tells a dead server, which fails a whole wave of calls and answers none, from bad conversations."""

    wave: int
    answered: bool = False
    failed: int = 0

    def dead(self, error: http.HttpError) -> bool:
        self.failed += 1
        certain = error.is_out_of_reach or error.status in (401, 404)
        return not self.answered and (certain or self.failed >= self.wave)


@dataclass
class OpenAIChat(Chat):
    """A model behind an OpenAI-compatible `/v1/chat/completions`; conversations are sent concurrently.

    Requests are tried again as `HttpClient` says. An optional argument that a server refuses (a JSON schema,
    a limit of tokens, settings of sampling, log-probabilities) is not sent again. Where it refuses
    `max_tokens`, `max_completion_tokens` is tried; where it refuses the system role, system text goes into
    the user's turn.

    Raises:
        InputError: the address is wrong or holds a key, or a key is missing.
    """

    model: str
    base_url: str | None = None
    """Up to and with `/v1`; None is OPENAI_BASE_URL, or OpenAI."""
    _: KW_ONLY
    concurrency: int = 16
    """Conversations in progress at once, over all calls."""
    timeout_s: float = 120.0
    """For one attempt, from sending to the last byte."""
    retries: int = 5
    max_tokens: int = 4096
    temperature: float | Literal["checkpoint"] = 0.0
    """`checkpoint` sends none: the server's own."""
    top_p: float | None = None
    top_k: int | None = None
    """vLLM, SGLang and llama.cpp know it; OpenAI's own API does not."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More fields of each request, such as `{"reasoning_effort": "low"}`."""
    jpeg_quality: int | None = None
    """1-100 sends images as JPEG; None as PNG, without loss."""
    key_variables: tuple[str, ...] | None = None
    """Those of `Endpoint`; None: as `openai_endpoint` says."""
    spent: Counter[str] = field(default_factory=Counter, init=False, repr=False, compare=False)
    """Answered `calls`, and their `prompt` and `reply` tokens where the server counts them."""
    blind: str | None = field(default=None, init=False, repr=False, compare=False)
    _refused: set[str] = field(default_factory=set, init=False, repr=False)
    _free: asyncio.Semaphore = field(init=False, repr=False, compare=False)
    _client: http.HttpClient = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.key_variables is None:
            endpoint = openai_endpoint(self.base_url, self.extra)
        else:
            endpoint = Endpoint(self.base_url or "", self.key_variables, extra=self.extra)
        self._client = http.HttpClient(endpoint, timeout_s=self.timeout_s, retries=self.retries)
        self._free = asyncio.Semaphore(self.concurrency)

    def answer(self, requests: Sequence[ChatRequest]) -> list[TokenReply | NoReply]:
        """Answer each request; without tokens where the server gives no log-probabilities.

        Raises:
            BackendError: the server is out of reach, refuses the key, lacks the model, or fails every call.
        """
        return http.run(self._answer(requests))

    def probe(self) -> str:
        """Ask the server for the model, as `goalreel.http.probe.probe_openai`."""
        return probe_openai(self._client.endpoint, self.model, "/chat/completions")

    async def _answer(self, requests: Sequence[ChatRequest]) -> list[TokenReply | NoReply]:
        health = _Health(wave=min(len(requests), self.concurrency))

        async def reply_to(request: ChatRequest) -> TokenReply | NoReply:
            async with self._free:
                try:
                    reply = await self._ask(request)
                except UnicodeEncodeError as e:
                    return NoReply(f"the text cannot be sent: {e}")
                except http.HttpError as e:
                    reply = NoReply(self._client.explain(e), refused=e.status in http.REFUSED)
                    if e.is_of_server:
                        if health.dead(e):
                            raise BackendError(reply.reason) from None
                        return reply
                health.answered = True
                counted, least = reply.usage.prompt if reply.usage else 0, least_tokens(request.conversation)
                if self.blind is None and 0 < counted < least:
                    why = f"{counted} tokens cannot hold a question and its pictures"
                    self.blind = f"{self.model} is blind: {why}"
                    log.warning("%s. Its answers are not about the pictures", self.blind)
                return reply

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(reply_to(request)) for request in requests]
        except* BackendError as failures:
            dead = failures.exceptions[0]
        else:
            return [task.result() for task in tasks]
        raise dead

    async def _ask(self, asked: ChatRequest) -> TokenReply | NoReply:
        conversation, refused = asked.conversation, set(self._refused)

        def build() -> httpx2.Request:
            turns = fold_system(conversation) if SYSTEM in refused else conversation
            messages = [message_json(m, jpeg_quality=self.jpeg_quality) for m in turns]
            body = {"model": self.model, "messages": messages} | self._arguments(asked, refused)
            return self._client.request("POST", "/chat/completions", json={**body, **self.extra})

        def find(reply: http.Reply) -> str | None:
            sent = list(self._arguments(asked, refused))
            if SYSTEM not in refused and any(m.role == "system" for m in conversation):
                sent.append(SYSTEM)
            return refused_argument(reply, sent, self.extra)

        reply = await self._client.send_accepted(build, refused, find)
        for name in sorted(refused - self._refused):
            level = logging.WARNING if name in ("top_p", "top_k") else logging.INFO
            log.log(level, "%s refuses %s: it goes without from now on", self._client.endpoint.shown, name)
        self._refused |= refused
        return self._read(reply.body, self._limit(asked))

    def _limit(self, asked: ChatRequest) -> int:
        return min(self.max_tokens, asked.max_tokens or self.max_tokens)

    def _arguments(self, asked: ChatRequest, refused: set[str]) -> dict[str, Any]:
        """The arguments that a server may refuse, without those that it does."""
        schema = {"name": "answer", "schema": dict(asked.schema or {})}
        form = {"type": "json_schema", "json_schema": schema}
        limit = next((name for name in LIMITS if name not in refused), LIMITS[0])
        arguments = {
            limit: self._limit(asked),
            "temperature": None if self.temperature == "checkpoint" else self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "response_format": None if asked.schema is None else form,
            "logprobs": asked.tokens or None,
            "top_logprobs": _TOP if asked.tokens and "logprobs" not in refused else None,
        }
        return {name: value for name, value in arguments.items() if value is not None and name not in refused}

    def _read(self, body: bytes, limit: int) -> TokenReply | NoReply:
        hide_key = self._client.endpoint.hide_key
        try:
            reply = parse_completion(body, limit)
        except ValueError as e:
            self.spent["calls"] += 1
            return NoReply(hide_key(str(e)))
        self.spent.update({"calls": 1} | (vars(reply.usage) if reply.usage else {}))
        return replace(reply, reason=hide_key(reply.reason)) if isinstance(reply, NoReply) else reply


class _Message(BaseModel):
    content: str | list[Any] | None = None
    refusal: str | None = None
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: Any = None
    function_call: Any = None
    error: Any = None

    def parts(self, *kinds: str) -> str:
        """Join the texts of a content in typed parts."""
        parts = [p for p in self.content or () if isinstance(p, dict) and p.get("type") in kinds]
        texts = [part.get("refusal") or part.get("text") for part in parts]
        return "".join(text for text in texts if isinstance(text, str))

    @property
    def text(self) -> str:
        """The text without thoughts."""
        text = self.content if isinstance(self.content, str) else self.parts("text", "output_text")
        return text.strip()


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
    errors: Any = None


def message_json(message: Message, *, jpeg_quality: int | None = None) -> dict[str, Any]:
    """Write a turn in the protocol; plain text where it has no image, as some servers take no other."""
    if all(isinstance(part, str) for part in message.parts):
        return {"role": message.role, "content": "".join(map(str, message.parts))}
    return {"role": message.role, "content": [_part(part, jpeg_quality) for part in message.parts]}


def parse_completion(body: bytes, max_tokens: int | None = None) -> TokenReply | NoReply:
    """Read the answer in the body of a reply, with its tokens where the server gave readable ones.

    A reply that did not end by itself is a NoReply: its text may be a draft. So is one that calls a tool or
    refuses, and one of several that differ. Where a server does not say why a reply ended, one of
    `max_tokens` or more was cut off.

    Raises:
        ValueError: the body is no chat completion, tells an error, or has no text.
    """
    try:
        completion = _Completion.model_validate(json.loads(body, object_pairs_hook=make_dict))
    except RepeatedKeyError as e:
        raise ValueError(f"not a chat completion: it has the key {str(e)[:40]!r} twice") from None
    except (ValueError, RecursionError):
        message = http.error_text(body) if b'"error"' in body else repr(body[:200].decode(errors="replace"))
        raise ValueError(f"not a chat completion: {message}") from None
    choice, usage = completion.choices[0], completion.usage or _Usage()
    if error := completion.error or completion.errors or choice.error or choice.message.error:
        raise ValueError(f"an error came with it: {http.error_text(json.dumps({'error': error}).encode())}")
    counted = Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0)
    if len({(c.message.text, c.finish_reason) for c in completion.choices}) > 1:
        return NoReply(
            f"{len(completion.choices)} replies came where one was asked for, and they differ",
            cut_off=choice.message.text,
            usage=counted,
        )
    was_cut_off = max_tokens is not None and counted.reply >= max_tokens
    reason = choice.finish_reason or ("length" if was_cut_off else "stop")
    return replace(_reply_of(choice, reason), usage=counted)


def _reply_of(choice: _Choice, reason: str) -> TokenReply | NoReply:
    message, text = choice.message, choice.message.text
    refusal = " ".join((message.refusal or message.parts("refusal")).split())[:200]
    match reason.casefold():
        case "length" | "max_tokens":
            return cut_off(text)
        case "content_filter":
            why = refusal or "no reason given"
            return NoReply(f"the server's content filter stopped it: {why}", refused=True)
        case other if other not in _NATURAL_ENDS:
            return NoReply(f"it did not end by itself (finish_reason {reason[:40]!r})", cut_off=text)
    if refusal and text:
        return NoReply(f"the model refused: {refusal}", refused=True)
    if message.tool_calls or message.function_call:
        return NoReply("the model called a tool, and there is none: ask another model", cut_off=text or None)
    if not text and not refusal and (message.reasoning or message.reasoning_content):
        raise ValueError(
            "the model wrote thoughts alone: turn thinking off (?extra=), or the server's parser on"
        )
    if not text:
        raise ValueError(f"the model said nothing: {refusal or reason}")
    thoughts = message.reasoning_content or message.reasoning
    told = thoughts if isinstance(thoughts, str) else ""
    return replace(token_reply(text, _tokens(choice.logprobs)), thoughts=told)


def _tokens(logprobs: object) -> list[Token]:
    try:
        tokens = _Logprobs.model_validate(logprobs).content
    except ValidationError:
        return []
    read = []
    for text, token in zip(_texts(tokens), tokens, strict=True):
        others = {a.token: a.probability for a in token.top_logprobs if a.token != token.token}
        read.append(Token(text, others | {text: token.probability}))
    return read


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


def refused_argument(reply: http.Reply, sent: Collection[str], extra: Collection[str] = ()) -> str | None:
    """Return the argument, of those that were `sent`, that a 400, 403 or 422 is about; None without one.

    Where the message speaks of arguments and names none, nor an `extra` field, the guess is a schema or
    log-probabilities, except for a 403, which may be about the key.
    """
    message = http.refusal_words(reply.body)
    optional = [name for name in _OPTIONAL if name in sent]
    if name := http.refused_field(message, optional):
        return name
    if SYSTEM in sent and refuses_system(message):
        return SYSTEM
    if _TOO_LONG.search(message) and optional and optional[0] in LIMITS:
        return optional[0]
    is_guess = _PARAMETER_WORDS.search(message) and not http.refused_field(message, extra)
    if reply.status == 403 or not is_guess:
        return None
    return next((name for name in ("response_format", "logprobs") if name in optional), None)


def _part(part: str | Image, jpeg_quality: int | None) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind, data = ("png", part.png()) if jpeg_quality is None else ("jpeg", part.jpeg(jpeg_quality))
    url = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}
