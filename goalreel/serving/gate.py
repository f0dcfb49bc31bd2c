"""What every request passes first: token, drain, size and number, before any of its body is kept."""

import hmac
import time

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalreel.loopback import hostname, is_loopback
from goalreel.serving.errors import RETRY_SECONDS, error_response
from goalreel.serving.service import Service

OPEN = frozenset({"/health"})


class Gate:
    """ASGI middleware. It refuses by headers alone wherever they suffice, and counts the body as it comes."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._limit = service.settings.max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            status, message = refusal
            headers = {"Retry-After": str(RETRY_SECONDS)} if status in (429, 503) else {}
            if status == 401:
                headers["WWW-Authenticate"] = "Bearer"
            await error_response(status, message, headers)(scope, receive, send)
            self._service.metrics.answered("refused", status, 0.0)
            return
        await self._pass(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = dict(scope["headers"])
        if scope["path"] in OPEN:
            return None
        token = self._service.settings.token
        if token and not hmac.compare_digest(headers.get(b"authorization", b""), b"Bearer " + token.encode()):
            return 401, "send the server's token as Authorization: Bearer TOKEN"
        if not token and not is_loopback(hostname(headers.get(b"host", b"localhost"))):
            # A page in a browser can point its own name at 127.0.0.1; it cannot forge the Host header.
            return 403, "this server has no token and answers to localhost only"
        new_work = scope["method"] == "POST"
        if new_work and self._service.draining:
            return 503, "the server is shutting down"
        if new_work and self._service.under_way >= self._service.settings.max_requests:
            return 429, "too many requests at once"
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 15 or int(length) > self._limit:
            return 413, f"the body may have at most {self._limit} bytes"
        return None

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        seen, status, started = 0, 500, time.monotonic()

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                raise HTTPException(413, f"the body may have at most {self._limit} bytes")
            return message

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        working = scope["method"] == "POST"
        self._service.under_way += working
        try:
            await self._app(scope, counted, noted)
        finally:
            self._service.under_way -= working
            route = getattr(scope.get("route"), "path", "unmatched")
            self._service.metrics.answered(route, status, time.monotonic() - started)
