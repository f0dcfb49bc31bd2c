"""A reply as server-sent events in OpenAI's form, while it is written."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from goalreel.chat.conversation import ChatRequest, NoReply, TokenReply
from goalreel.errors import BackendError
from goalreel.http.access import UNANSWERED
from goalreel.serving.chat_answer import (
    ChatChunk,
    ChunkChoice,
    Delta,
    Ended,
    end_reply,
    find_stop,
    logprobs_of,
    new_head,
    usage_of,
)
from goalreel.serving.chat_body import ChatBody
from goalreel.serving.errors import error_body
from goalreel.serving.events import HEADERS
from goalreel.serving.service import ChatBatcher, client_of, while_connected

type Pieces = asyncio.Queue[str | None]
"""The pieces of a reply; None is its end."""


async def stream(
    request: Request, body: ChatBody, batcher: ChatBatcher, question: ChatRequest
) -> StreamingResponse:
    """Give a reply as it is written. What fails before its first piece has an HTTP status of its own.

    Raises:
        HTTPException: as `end_reply`, or the client is gone.
        QueueFull, BackendError: from the batcher.
    """
    pieces: Pieces = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def on_text(piece: str) -> None:
        with suppress(RuntimeError):  # the server has ended
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

    if not question.tokens:  # they are there when the reply is: with them, it comes in one piece
        question = replace(question, on_text=on_text)
    reply = asyncio.ensure_future(batcher.ask(question, client=client_of(request)))
    reply.add_done_callback(lambda _: pieces.put_nowait(None))
    try:
        first = await while_connected(request, pieces.get())
        if first is None:
            end_reply(await reply, ())
    except BaseException:
        reply.cancel()
        raise
    events = _events(body, first, pieces, reply)
    return StreamingResponse(events, media_type="text/event-stream", headers=HEADERS)


async def _events(
    body: ChatBody, piece: str | None, pieces: Pieces, reply: asyncio.Future[TokenReply | NoReply]
) -> AsyncIterator[bytes]:
    head, stop = new_head(body), body.stop or ()
    counted = body.stream_options is not None and body.stream_options.include_usage
    reserve = max(map(len, stop), default=1) - 1  # so much may be the beginning of a text that stops it
    text, sent = "", 0

    def chunk(delta: Delta, **more: object) -> bytes:
        choice = ChunkChoice.model_validate({"delta": delta, **more})
        return _event(ChatChunk(**head, choices=[choice]))

    try:
        yield chunk(Delta(role="assistant", content=""))
        at = None
        while piece is not None and at is None:
            start = max(0, len(text) - reserve)
            text += piece
            at = find_stop(text, stop, start)
            until = len(text) - reserve if at is None else at
            if until > sent:
                yield chunk(Delta(content=text[sent:until]))
                sent = until
            piece = await pieces.get() if at is None else piece
        # Who asks for the number of tokens waits for the rest of them, too.
        ended = Ended(text[:at]) if at is not None and not counted else end_reply(await reply, stop)
        if len(ended.text) > sent:
            logprobs = logprobs_of(ended, body.top_logprobs or 0)
            yield chunk(Delta(content=ended.text[sent:]), logprobs=logprobs)
        yield chunk(Delta(), finish_reason=ended.finish_reason)
        if counted and (usage := usage_of(ended)):
            yield _event(ChatChunk(**head, choices=[], usage=usage))
        yield b"data: [DONE]\n\n"
    except (HTTPException, BackendError) as e:
        message = str(e.detail) if isinstance(e, HTTPException) else str(e)
        yield b"data: %s\n\n" % error_body(UNANSWERED, message)
    finally:
        reply.cancel()


def _event(chunk: ChatChunk) -> bytes:
    # A delta has only what it adds, and a chunk has no usage unless it counts.
    choices = [
        c.model_dump(exclude={"delta"}) | {"delta": c.delta.model_dump(exclude_none=True)}
        for c in chunk.choices
    ]
    data = chunk.model_dump(exclude_none=True) | {"choices": choices}
    return b"data: %s\n\n" % json.dumps(data).encode()
