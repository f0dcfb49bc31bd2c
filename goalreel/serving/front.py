"""The address of a cluster: what comes goes on to Ray's proxy, which bounds no header, body or time itself.

A request goes on when its body is whole, so that a slow client takes none of Ray's places.
"""

import asyncio
from types import FrameType
from typing import TYPE_CHECKING

import httpx2
from starlette.requests import ClientDisconnect

from goalreel.http.server import BoundedServer
from goalreel.serving.errors import error_response

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_HOP = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade"})
"""Headers of one connection (RFC 9110, 7.6.1)."""


class Front:
    """An ASGI application in front of an HTTP server at `address`; bodies have `max_body_bytes` at most."""

    def __init__(self, address: str, max_body_bytes: int) -> None:
        self._address, self._limit = address, max_body_bytes
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx2.AsyncClient(timeout=None, trust_env=False, limits=limits)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        try:
            body = await self._body(receive)
        except ClientDisconnect:
            return
        if body is None:
            await error_response(413, f"the body has more than {self._limit} bytes")(scope, receive, send)
            return
        answer = asyncio.ensure_future(self._hand_on(scope, body, receive, send))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                await answer
        finally:
            answer.cancel()
            gone.cancel()

    async def _body(self, receive: "Receive") -> bytes | None:
        """Read the body; None where it is too large.

        Raises:
            ClientDisconnect: the client left before it was whole.
        """
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            body += message.get("body", b"")
            if len(body) > self._limit:
                return None
            more = message.get("more_body", False)
        return bytes(body)

    async def _hand_on(self, scope: "Scope", body: bytes, receive: "Receive", send: "Send") -> None:
        headers = [(k, v) for k, v in scope["headers"] if k not in _HOP and not k.startswith(b"x-forwarded")]
        if scope.get("client"):  # who takes turns in the queues
            headers.append((b"x-forwarded-for", scope["client"][0].encode()))
        path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
        url = f"{self._address}{path}{'?' if query else ''}{query}"
        request = httpx2.Request(scope["method"], url, headers=headers, content=body)
        try:
            response = await self._client.send(request, stream=True)
        except httpx2.TransportError:
            await error_response(503, "no replica answers: try again")(scope, receive, send)
            return
        try:
            forwarded = [(k.lower(), v) for k, v in response.headers.raw if k.lower() not in _HOP | {b"date"}]
            await send({"type": "http.response.start", "status": response.status_code, "headers": forwarded})
            async for chunk in response.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await response.aclose()


async def _disconnected(receive: "Receive") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class FrontServer(BoundedServer):
    """Serves a `Front` until a signal ends it; what is under way has `drain_seconds` to end."""

    def __init__(self, front: Front, drain_seconds: int) -> None:
        super().__init__(front, lifespan="off", timeout_graceful_shutdown=drain_seconds)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End; the second signal ends at once. uvicorn would raise it again, before the cluster is ended."""
        self.force_exit = self.should_exit
        self.should_exit = True
