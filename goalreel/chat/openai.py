"""A chat back end on any OpenAI-compatible server: vLLM, SGLang, goalreel serve, hosted GPT and Gemini.

`goalreel.http.endpoint` says which key an address gets. A server without keys needs none.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal

import httpx2

from goalreel.chat.conversation import (
    Conversation,
    NoReply,
    Reply,
    TokenReply,
    fold_system,
    least_tokens,
)
from goalreel.chat.openai_format import (
    LIMITS,
    SYSTEM,
    TOP,
    message_json,
    parse_completion,
    refused_argument,
)
from goalreel.errors import BackendError, InputError
from goalreel.http.client import REFUSED, HttpClient, HttpError, run
from goalreel.http.endpoint import Endpoint, openai_endpoint
from goalreel.http.probe import probe_openai

log = logging.getLogger(__name__)

_REFUSALS = frozenset({400, 403, 422})  # the statuses with which servers refuse an argument


@dataclass
class _Health:
    """Tells a dead server, which fails a whole wave of calls and answers none, from bad conversations."""

    wave: int
    answered: bool = False
    failed: int = 0

    def dead(self, error: HttpError) -> bool:
        self.failed += 1
        certain = error.is_out_of_reach or error.status in (401, 404)
        return not self.answered and (certain or self.failed >= self.wave)


@dataclass
class OpenAIChat:
    """A model behind an OpenAI-compatible `/v1/chat/completions`; conversations are sent concurrently.

    Connection errors, 408, 409, 429 and 5xx are tried again, after `Retry-After` or with growing pauses. An
    optional argument that a server refuses (a JSON schema, a limit of tokens, settings of
    sampling, log-probabilities) is not sent again. Where it refuses `max_tokens`,
    `max_completion_tokens` is tried, and the other way round; where it refuses the system role, system text
    goes into the user's turn.

    Raises:
        InputError: a number is out of range, the address is wrong or holds a key, a key or the variable of a
            header is missing, or a header holds a secret.
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
    max_completion_tokens: int | None = None
    """The same limit by the name that OpenAI's newer models know; comes before `max_tokens`."""
    temperature: float | Literal["checkpoint"] = 0.0
    """`checkpoint` sends none: the server's own."""
    top_p: float | None = None
    top_k: int | None = None
    """vLLM, SGLang and llama.cpp know it; OpenAI's own API does not."""
    system_role: bool = True
    """False puts system text in front of the user's turn: for chat templates without such a role."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """More headers of each request. `$VARIABLE` in a value is one of the environment: `{"X-Key": "$KEY"}`."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More fields of each request, such as `{"reasoning_effort": "low"}`."""
    api_version: str | None = None
    """The version of a classic Azure address."""
    jpeg_quality: int | None = None
    """1-100 sends images as JPEG; None as PNG, without loss."""
    key_variables: tuple[str, ...] | None = None
    """The environment variables that may hold the key, of which the first that is set counts; None: as
    above."""
    spent: Counter[str] = field(default_factory=Counter, init=False, repr=False, compare=False)
    """Answered `calls`, and their `prompt` and `reply` tokens where the server counts them."""
    blind: str | None = field(default=None, init=False, repr=False, compare=False)
    """Evidence of the server that the model was not given a picture that was sent; None: there is none."""
    _refused: set[str] = field(default_factory=set, init=False, repr=False)
    _free: asyncio.Semaphore = field(init=False, repr=False, compare=False)
    _client: HttpClient = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if min(self.concurrency, self._limit) < 1 or self.retries < 0 or self.timeout_s <= 0:
            raise InputError("concurrency and max_tokens start at 1, retries at 0; timeout_s is above 0")
        if (self.top_p is not None and not 0 < self.top_p <= 1) or (self.top_k or 0) < 0:
            raise InputError("top_p is in (0, 1], top_k starts at 0")
        if not self.system_role:
            self._refused.add(SYSTEM)
        if self.key_variables is None:
            endpoint = openai_endpoint(self.base_url, self.api_version, self.headers)
        else:
            endpoint = Endpoint(
                self.base_url or "",
                self.key_variables,
                api_version=self.api_version,
                more_headers=self.headers,
            )
        endpoint = replace(endpoint, extra=self.extra)
        self._client = HttpClient(endpoint, timeout_s=self.timeout_s, retries=self.retries)
        self._free = asyncio.Semaphore(self.concurrency)

    def complete(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> list[Reply]:
        """Continue each conversation; a JSON `schema` is passed on, until the server refuses one.

        Raises:
            BackendError: the server is out of reach, refuses the key, lacks the model, or fails every call.
        """
        replies = self._run(conversations, schema, tokens=False)
        return [reply.text if isinstance(reply, TokenReply) else reply for reply in replies]

    def complete_tokens(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> list[TokenReply | NoReply]:
        """Continue each conversation; without tokens where the server gives no log-probabilities.

        Raises:
            BackendError: as `complete`.
        """
        return self._run(conversations, schema, tokens=True)

    def probe(self) -> str:
        """Ask the server whether it is there, takes the key and lists the model.

        Raises:
            InputError, BackendError: as `goalreel.http.probe.probe_openai`.
        """
        return probe_openai(self._client.endpoint, self.model, "/chat/completions")

    def _run(
        self, conversations: Sequence[Conversation], schema: Mapping[str, Any] | None, *, tokens: bool
    ) -> list[TokenReply | NoReply]:
        return run(self._complete(conversations, self._optional(schema, tokens)))

    async def _complete(
        self, conversations: Sequence[Conversation], optional: Mapping[str, Any]
    ) -> list[TokenReply | NoReply]:
        health = _Health(wave=min(len(conversations), self.concurrency))

        async def reply_to(conversation: Conversation) -> TokenReply | NoReply:
            async with self._free:
                try:
                    reply = await self._ask(conversation, optional)
                except UnicodeEncodeError as e:
                    return NoReply(f"the text cannot be sent: {e}")
                except HttpError as e:
                    reply = NoReply(self._client.explain(e), refused=e.status in REFUSED)
                    if e.is_of_server:
                        if health.dead(e):
                            raise BackendError(reply.reason) from None
                        return reply
                health.answered = True
                self._check_sight(conversation, reply)
                return reply

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(reply_to(c)) for c in conversations]
        except* BackendError as failures:
            dead = failures.exceptions[0]
        else:
            return [task.result() for task in tasks]
        raise dead

    def _check_sight(self, conversation: Conversation, reply: TokenReply | NoReply) -> None:
        """Say once that a prompt, as the server counts its tokens, cannot hold the pictures."""
        counted, least = reply.usage.prompt if reply.usage else 0, least_tokens(conversation)
        if self.blind is None and 0 < counted < least:
            self.blind = f"{self.model} is blind: {counted} tokens cannot hold a question and its pictures"
            log.warning("%s. Its answers are not about the pictures", self.blind)

    async def _ask(self, conversation: Conversation, optional: Mapping[str, Any]) -> TokenReply | NoReply:
        refused = set(self._refused)
        while True:
            arguments = self._arguments(optional, refused)
            turns = fold_system(conversation) if SYSTEM in refused else conversation
            request = await asyncio.to_thread(self._request, turns, arguments)
            try:
                reply = await self._client.send(request)
            except HttpError as e:
                if e.reply is None or e.status not in _REFUSALS:
                    raise
                has_system = SYSTEM not in refused and any(m.role == "system" for m in conversation)
                sent = (*arguments, SYSTEM) if has_system else tuple(arguments)
                if (name := refused_argument(e.reply, sent, self.extra)) is None:
                    raise
                refused.add(name)
            else:
                self._remember(refused)
                return self._read(reply.body)

    def _request(self, turns: Conversation, arguments: Mapping[str, Any]) -> httpx2.Request:
        messages = [message_json(m, jpeg_quality=self.jpeg_quality) for m in turns]
        body = {"model": self.model, "messages": messages, **arguments, **self.extra}
        return self._client.request("POST", "/chat/completions", json=body)

    def _remember(self, refused: set[str]) -> None:
        """Send no more what the server refused, and say so of what somebody asked for."""
        for name in sorted(refused - self._refused):
            is_sampling = name in ("top_p", "top_k")
            level = logging.WARNING if is_sampling else logging.INFO
            log.log(level, "%s refuses %s: it goes without from now on", self._client.endpoint.shown, name)
        self._refused |= refused

    @property
    def _limit(self) -> int:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    def _optional(self, schema: Mapping[str, Any] | None, tokens: bool) -> dict[str, Any]:
        """The arguments that a server may refuse."""
        limits = LIMITS if self.max_completion_tokens is None else LIMITS[::-1]
        optional: dict[str, Any] = dict.fromkeys(limits, self._limit)
        temperature = None if self.temperature == "checkpoint" else self.temperature
        sampling = {"temperature": temperature, "top_p": self.top_p, "top_k": self.top_k}
        optional |= {name: value for name, value in sampling.items() if value is not None}
        if schema is not None:
            form = {"name": "answer", "schema": dict(schema)}
            optional["response_format"] = {"type": "json_schema", "json_schema": form}
        if tokens:
            optional["logprobs"] = True
        return optional

    def _arguments(self, optional: Mapping[str, Any], refused: set[str]) -> dict[str, Any]:
        arguments = {name: value for name, value in optional.items() if name not in refused}
        for name in [name for name in arguments if name in LIMITS][1:]:  # one of the two at a time
            del arguments[name]
        if "logprobs" in arguments:
            arguments["top_logprobs"] = TOP
        return arguments

    def _read(self, body: bytes) -> TokenReply | NoReply:
        hide_key = self._client.endpoint.hide_key
        try:
            reply = parse_completion(body, self._limit)
        except ValueError as e:
            self.spent["calls"] += 1
            return NoReply(hide_key(str(e)))
        self.spent.update({"calls": 1} | (vars(reply.usage) if reply.usage else {}))
        return replace(reply, reason=hide_key(reply.reason)) if isinstance(reply, NoReply) else reply
