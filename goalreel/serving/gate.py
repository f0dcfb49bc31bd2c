"""The checks of every request before its body is read: token, drain, number and size."""

import time
from collections.abc import Callable
from functools import partial

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalreel.http.access import is_authorized, is_foreign, is_too_long, limit_body
from goalreel.serving.errors import RETRY_SECONDS, error_response
from goalreel.serving.service import Service

OPEN = frozenset({"/health"})
TOO_MANY = "too many requests at once"


class Gate:
    """ASGI middleware. It refuses by headers alone wherever they suffice, and counts the body as it comes.

    `admits` says which requests are authorized; None: those with the token, or to a name of this machine.
    """

    def __init__(
        self, app: ASGIApp, service: Service, admits: Callable[[Headers], bool] | None = None
    ) -> None:
        self._app = app
        self._service = service
        self._admits = admits or partial(is_authorized, token=service.settings.token)
        self._limit = service.settings.max_body_bytes
        self._too_long = f"the body may have at most {self._limit} bytes"

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
        headers = Headers(scope=scope)
        if scope["path"] in OPEN:
            return None
        token = self._service.settings.token
        if not self._admits(headers):
            if token:
                return 401, "send the server's token as Authorization: Bearer TOKEN"
            return 403, "this server has no token and answers to localhost only"
        if scope["method"] not in ("GET", "HEAD") and is_foreign(headers):
            return 403, "no page of another site may use this server"
        new_work = scope["method"] == "POST"
        if new_work and self._service.draining:
            return 503, "the server is shutting down"
        if new_work and self._is_full:
            return 429, TOO_MANY
        if is_too_long(headers, self._limit):
            return 413, self._too_long
        return None

    @property
    def _is_full(self) -> bool:
        return self._service.under_way >= self._service.settings.max_requests

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, started = 500, time.monotonic()

        def refuse() -> Message:
            raise HTTPException(413, self._too_long)

        async def send_noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        def begin() -> None:
            nonlocal working
            if scope["method"] == "POST" and not working:
                if self._is_full:
                    raise HTTPException(429, TOO_MANY, {"Retry-After": str(RETRY_SECONDS)})
                working = True
                self._service.under_way += 1

        working = False
        try:
            # A request whose body is not there yet takes no place from others.
            await self._app(scope, limit_body(receive, self._limit, refuse, begin), send_noted)
        finally:
            self._service.under_way -= working
            route = getattr(scope.get("route"), "path", "unmatched")
            self._service.metrics.answered(route, status, time.monotonic() - started)
