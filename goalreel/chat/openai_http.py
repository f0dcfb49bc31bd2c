"""The HTTP side of `OpenAIChat`: how a request is sent and its reply received, and what errors are called.

It follows the rules of `goalreel.http.client` about headers with secrets and redirects. OpenAI's own client
would take as long to import as all else that a chat needs.
"""

import random
import ssl
from asyncio import sleep, timeout
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import anyio
import httpx2

from goalreel import __version__
from goalreel.chat.openai_stream import is_stream, read_body, read_stream
from goalreel.http.client import REDIRECTS, Endpoint
from goalreel.http.errors import error_text, true_status
from goalreel.http.retries import is_transient, report_retry, retry_after_s
from goalreel.progress import begin_reply

_CONNECT_S = 10.0
_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 8.0
"""The pause before the first retry; each further one is twice as long, up to the longest."""
_LONGEST_ASKED_S = 120.0
"""The longest pause that a server may ask for. If it asks for more, there is no retry."""
_LOST = (httpx2.RequestError, ssl.SSLError, anyio.EndOfStream)
"""Without a whole reply. httpx lets the last two of some broken TLS connections through."""


class ChatHttpError(Exception):
    """There is no reply, and `__cause__` says why, or it has another status than that of success."""

    def __init__(self, response: httpx2.Response | None = None) -> None:
        super().__init__("no reply" if response is None else f"HTTP {response.status_code}")
        self.response = response

    @property
    def status(self) -> int | None:
        """The status of the reply; None without one."""
        return None if self.response is None else self.response.status_code

    @property
    def is_out_of_reach(self) -> bool:
        """Whether no connection was made."""
        return isinstance(self.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout)

    @property
    def is_of_server(self) -> bool:
        """Whether the server is at fault, or the way to it, rather than the request."""
        return self.status is None or self.status in (401, 403, 404, 429) or self.status >= 500


class ChatHttpClient:
    """Posts JSON to an endpoint. Connection errors, 408, 409, 429 and 5xx are tried again.

    That is after `Retry-After`, or with growing pauses. A whole reply is limited in time (`timeout_s`), where
    httpx limits each wait, and in bytes (`MAX_REPLY_BYTES`).
    """

    def __init__(self, endpoint: Endpoint, timeout_s: float, retries: int) -> None:
        self._endpoint, self._timeout_s, self._retries = endpoint, timeout_s, retries
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_S)),
            headers={"Accept": "application/json", "User-Agent": f"goalreel/{__version__}"},
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
            **endpoint.connection,
        )

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def post(self, route: str, body: Mapping[str, Any]) -> httpx2.Response:
        """Post a body to a route below the endpoint's address; gives the reply, read to its end.

        Raises:
            ChatHttpError: there is no reply after all retries, or it has not the status of success.
            UnicodeEncodeError: the body holds half a character.
        """
        url = self._endpoint.address + route
        request = self._client.build_request("POST", url, params=self._endpoint.query or None, json=body)
        streams = bool(body.get("stream"))
        number = 0
        while True:
            try:
                response = await self._send(request)
            except _LOST as e:
                response, error = None, ChatHttpError()
                error.__cause__ = e
            else:
                if response.is_success:
                    return response
                error = ChatHttpError(response)
            if number == self._retries or (response is not None and not _is_worth_another(response, streams)):
                raise error
            await sleep(_pause_s(number, response))
            number += 1
            report_retry(number)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        self._endpoint.authorize(request)
        try:
            async with timeout(self._timeout_s):
                response = await self._receive(request)
                for _ in range(REDIRECTS):
                    if (following := self._endpoint.redirected(response)) is None:
                        break
                    response = await self._receive(following)
        except TimeoutError as e:
            raise httpx2.ReadTimeout("no whole reply in time", request=request) from e
        response.status_code = true_status(response.status_code, response.content)
        return response

    async def _receive(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._client.send(request, stream=True)
        try:
            if is_stream(response):
                return await read_stream(response, begin_reply())
            return await read_body(response)
        finally:
            await response.aclose()


def _is_worth_another(response: httpx2.Response, streams: bool) -> bool:
    """Whether a request that got this error may be answered soon; a server may say so itself."""
    if retry_after_s(response.headers) > _LONGEST_ASKED_S:
        return False
    answer = response.headers.get("x-should-retry")
    if answer in ("true", "false"):
        return answer == "true"
    # A server that cannot stream may say 500: `OpenAIChat` then asks without.
    return is_transient(response.status_code) and not (streams and response.status_code == 500)


def _pause_s(number: int, response: httpx2.Response | None) -> float:
    """How long to wait after the try of that number, from 0."""
    if response is not None and (asked_s := retry_after_s(response.headers)):
        return asked_s
    growing_s = min(_PAUSE_S * 2.0 ** min(number, 10), _LONGEST_PAUSE_S)
    return growing_s * random.uniform(0.75, 1.0)  # so that many clients do not come back at once


def explain_error(error: ChatHttpError, endpoint: Endpoint, timeout_s: float) -> str:
    """Say in one line why there is no reply, without the key; `timeout_s` is the limit of an attempt."""
    address, cause = endpoint.address, error.__cause__
    if error.response is not None:
        return endpoint.hide_key(_explain_status(error.response, endpoint))
    if error.is_out_of_reach or isinstance(cause, httpx2.ProxyError):
        return endpoint.out_of_reach(cause)
    if isinstance(cause, httpx2.TimeoutException):
        return f"no answer from {address} within {timeout_s:g} s"
    return endpoint.hide_key(f"no whole reply from {address}: {str(cause).strip() or type(cause).__name__}")


def _explain_status(response: httpx2.Response, endpoint: Endpoint) -> str:
    address, status, url = endpoint.address, response.status_code, response.request.url
    if not endpoint.is_home(url):
        return f"HTTP {status} from {url.host}, to which {address} redirects: give that address"
    if status == 401:
        return f"{address} wants another key (HTTP 401){endpoint.advice(401)}"
    return f"HTTP {status} from {address}: {error_text(response.content)}{endpoint.advice(status)}"
