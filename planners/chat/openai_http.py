"""The HTTP side of `OpenAIChat`: how a request is sent and its reply received, and what errors are called."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx2
import openai

from goalreel.http_client import REDIRECTS, Endpoint
from goalreel.http_errors import error_text, true_status
from goalreel.http_retries import is_transient, report_retry
from goalreel.planners.chat.openai_stream import is_stream, read_stream
from goalreel.progress import begin_reply

_STREAM = b'"stream":true'
"""In the body of a request that asks for a stream; a text could not hold it so, without backslashes."""


class OpenAIHttpClient(openai.DefaultAsyncHttpxClient):
    """Limits a whole reply in time, where httpx limits each wait, and follows the rules of `http_client`.

    They are about headers with secrets, which openai would log; redirects; and errors that came as a 200.
    """

    limit_s: float
    endpoint: Endpoint

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if number := int(request.headers.get("x-stainless-retry-count", "0")):  # openai's own retries
            report_retry(number)
        self.endpoint.authorize(request)
        try:
            async with asyncio.timeout(self.limit_s):
                return await self._send(request, options)
        except TimeoutError as e:
            raise httpx2.ReadTimeout("no whole reply in time", request=request) from e

    async def _send(self, request: httpx2.Request, options: Mapping[str, Any]) -> httpx2.Response:
        content = request.read()
        response = await self._receive(request, options)
        for _ in range(REDIRECTS):
            if (following := self.endpoint.redirected(response)) is None:
                break
            response = await self._receive(following, options)
        response.status_code = true_status(response.status_code, response.content)
        # A server that cannot stream may say 500: `OpenAIChat` then asks without.
        final = response.status_code == 500 and _STREAM in content
        is_retried = is_transient(response.status_code) and not final
        response.headers.setdefault("x-should-retry", str(is_retried).lower())
        return response

    async def _receive(self, request: httpx2.Request, options: Mapping[str, Any]) -> httpx2.Response:
        unread: dict[str, Any] = {**options, "stream": True}
        response = await super().send(request, **unread)
        try:
            if is_stream(response):
                return await read_stream(response, begin_reply())
            await response.aread()
            return response
        finally:
            await response.aclose()


def explain_error(error: openai.APIError, endpoint: Endpoint, timeout_s: float) -> str:
    """Say in one line why there is no reply, without the key; `timeout_s` is the limit of an attempt."""
    address = endpoint.address
    match error:
        case openai.APITimeoutError() if not isinstance(error.__cause__, httpx2.ConnectTimeout):
            return f"no answer from {address} within {timeout_s:g} s"
        case openai.APIConnectionError():
            cause = error.__cause__
            if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError | None):
                return endpoint.out_of_reach(cause)
            return f"no whole reply from {address}: {str(cause).strip() or type(cause).__name__}"
        case openai.APIStatusError():
            return endpoint.hide_key(_explain_status(error, endpoint))
    return endpoint.hide_key(type(error).__name__)


def _explain_status(error: openai.APIStatusError, endpoint: Endpoint) -> str:
    address, status, url = endpoint.address, error.status_code, error.response.request.url
    if not endpoint.is_home(url):
        return f"HTTP {status} from {url.host}, to which {address} redirects: give that address"
    if status == 401:
        return f"{address} wants another key (HTTP 401){endpoint.advice(401)}"
    text = error_text(error.response.content)
    return f"HTTP {status} from {address}: {text}{endpoint.advice(status)}"
