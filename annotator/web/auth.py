"""The checks of every request to the review page (token, origin, size), and the security headers of answers.

Without a token the server answers to loopback names only (`goalreel.http.access`). With one, `?token=` in the
address logs a browser in once, by a cookie that does not reveal the token.
"""

import hashlib
import hmac
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalreel.http.access import LATE, check_token, is_authorized, is_foreign, is_too_long, limit_body

MAX_BODY = 64 * 1024
TOO_LONG = f"the body may have at most {MAX_BODY} bytes"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Headers of every answer that does not set them itself."""


@dataclass(frozen=True)
class Access:
    """The right to use the page: for anybody on this machine, or whoever has the token.

    Raises:
        InputError: the address is not loopback and there is no token, or no header can carry the token.
    """

    host: str = "127.0.0.1"
    token: str | None = None
    page: str = "review"

    def __post_init__(self) -> None:
        check_token(self.token, self.host, "a page")

    def is_token(self, text: str) -> bool:
        """Compare a text with the token."""
        return self.token is not None and hmac.compare_digest(text.encode(), self.token.encode())

    @property
    def cookie(self) -> tuple[str, str]:
        """Name and value of the cookie that stands for the token on this page."""
        key, name = (self.token or "").encode(), f"goalreel {self.page}"
        return name.replace(" ", "_"), hmac.new(key, name.encode(), hashlib.sha256).hexdigest()

    def admits(self, headers: Headers) -> bool:
        """Tell if a request has the right token, cookie or host."""
        if is_authorized(headers, self.token):
            return True
        if not self.token:
            return False
        own, wanted = self.cookie
        # Read by hand: http.cookies gives up at another page's cookie that it does not understand.
        pairs = (pair.strip().partition("=") for pair in headers.get("cookie", "").split(";"))
        values = [value for name, _, value in pairs if name == own]
        return any(hmac.compare_digest(value.encode(), wanted.encode()) for value in values)


class PageMiddleware:
    """ASGI middleware that logs a browser in by `?token=`, and adds security headers to every answer.

    With `guards` it also refuses requests that do not come from the page; else the application does.
    """

    def __init__(self, app: ASGIApp, access: Access, *, guards: bool) -> None:
        self._app, self._access, self._guards = app, access, guards

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        access, app = self._access, self._app
        if scope["method"] == "GET" and access.is_token(query.pop("token", "")):
            # The token goes from the address.
            to = "/" + scope["path"].lstrip("/") + (f"?{urlencode(query)}" if query else "")
            app = RedirectResponse(to, 303)
            app.set_cookie(*access.cookie, httponly=True, samesite="strict", path="/")
        elif self._guards:
            if refusal := self._refusal(scope["method"], Headers(scope=scope)):
                status, detail = refusal
                app = JSONResponse({"detail": detail}, status)

            def refuse_body(status: int) -> Message:
                raise HTTPException(status, TOO_LONG if status == 413 else LATE)

            receive = limit_body(receive, MAX_BODY, refuse_body)
        await app(scope, receive, send_guarded)

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        if not self._access.admits(headers):
            if self._access.token is None:
                return 403, "this page has no token and answers to localhost only"
            return 401, "open the page once with ?token=TOKEN behind its address"
        if method in ("GET", "HEAD"):
            return None
        if method != "POST":
            return 405, "this page reads with GET and changes with POST"
        if is_foreign(headers):
            return 403, "a change comes from the page itself only"
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return 415, "send application/json"
        if is_too_long(headers, MAX_BODY):
            return 413, TOO_LONG
        return None
