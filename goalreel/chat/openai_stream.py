"""A chat completion is read from its server: as one body, or as a stream that is made one body."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
from pydantic import BaseModel

from goalreel.chat.openai_format import is_natural_end
from goalreel.http.client import MAX_REPLY_BYTES
from goalreel.json_object import RepeatedKeyError, make_dict
from goalreel.progress import OnText


class _Choice(BaseModel):
    index: int | None = None
    delta: dict[str, Any] | None = None
    finish_reason: str | None = None
    error: Any = None


@dataclass
class _Streamed:
    """A choice, as far as it has come."""

    message: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    """Its `finish_reason`; an unnatural one stays, whatever comes after it."""

    def add(self, choice: _Choice) -> str:
        """Append a part of the choice; return the text that it adds."""
        if choice.finish_reason and is_natural_end(self.reason):
            self.reason = choice.finish_reason
        return _add(self.message, choice.delta or {})


class _Chunk(BaseModel):
    choices: Sequence[_Choice] | None = None
    usage: Any = None
    error: Any = None


def is_stream(response: httpx2.Response) -> bool:
    """Whether a reply comes as server-sent events."""
    kind = response.headers.get("Content-Type", "").partition(";")[0]
    return response.status_code == 200 and kind.strip().casefold() == "text/event-stream"


async def read_body(response: httpx2.Response) -> httpx2.Response:
    """Read a reply that comes as one body.

    Raises:
        httpx2.TransportError: the body is broken, or longer than a reply may be.
    """
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        _check_size(len(body), response)
    whole = httpx2.Response(response.status_code, content=bytes(body), request=response.request)
    whole.headers = response.headers  # not before: it would decompress the body once more
    whole.next_request = response.next_request
    return whole


async def read_stream(response: httpx2.Response, on_text: OnText | None) -> httpx2.Response:
    """Read a stream, whose pieces `on_text` hears; an error in it is the whole reply.

    Raises:
        httpx2.TransportError: the stream is broken, longer than a reply may be, or ended before the reply.
    """
    choices = defaultdict[int, _Streamed](_Streamed)
    usage, ended, size = None, False, 0
    async for event in httpx2.EventSource(response):
        _check_size(size := size + len(event.data), response)
        if ended := event.data.startswith("[DONE]"):
            break
        if not event.data:
            continue
        try:
            chunk = _Chunk.model_validate(json.loads(event.data, object_pairs_hook=make_dict))
        except (ValueError, RecursionError, RepeatedKeyError) as e:
            raise _broken(response, "an event of the stream is no part of a chat completion") from e
        if chunk.error:
            return _whole(response, {"error": chunk.error})
        usage = chunk.usage or usage
        for choice in chunk.choices or ():
            if choice.error:
                return _whole(response, {"error": choice.error})
            text = choices[choice.index or 0].add(choice)
            if text and on_text is not None and not choice.index:
                on_text(text)
    if not ended and all(choice.reason is None for choice in choices.values()):
        raise _broken(response, "the stream ended before the reply")
    whole = [{"message": c.message, "finish_reason": c.reason} for _, c in sorted(choices.items())]
    return _whole(response, {"choices": whole, "usage": usage})


def _add(message: dict[str, Any], delta: dict[str, Any]) -> str:
    """Append a delta to the message, whose content has typed parts; return the text that it adds."""
    for name in ("refusal", "reasoning", "reasoning_content"):
        if isinstance(value := delta.get(name), str):
            message[name] = message.get(name, "") + value
    for name in ("tool_calls", "function_call"):  # that there is one is enough
        message[name] = delta.get(name) or message.get(name)
    parts, content = message.setdefault("content", []), delta.get("content")
    if isinstance(content, list):
        parts.extend(content)
    if not isinstance(content, str):
        return ""
    parts.append({"type": "text", "text": content})
    return content


def _whole(response: httpx2.Response, body: dict[str, Any]) -> httpx2.Response:
    return httpx2.Response(200, json=body, request=response.request)


def _check_size(size: int, response: httpx2.Response) -> None:
    if size > MAX_REPLY_BYTES:
        raise _broken(response, f"more than {MAX_REPLY_BYTES // 2**20} MiB")


def _broken(response: httpx2.Response, message: str) -> httpx2.RemoteProtocolError:
    return httpx2.RemoteProtocolError(message, request=response.request)
