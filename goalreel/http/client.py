"""The HTTP client of chat and image servers: bounded in time and bytes, with retries, and able to be aborted.

httpx2 brings proxies, redirects and time-outs, tenacity the retries. All requests run in one background event
loop, so that connections stay open between calls, and a call works in a notebook too.
"""

import asyncio
import json
import logging
import os
import re
import ssl
import threading
import weakref
from asyncio import sleep
from collections.abc import Callable, Collection, Coroutine, Mapping
from concurrent.futures import CancelledError
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, Literal, cast

import anyio
import httpx2
import tenacity

from goalreel import __version__
from goalreel.errors import InputError
from goalreel.http.calls import CallAbortedError, current_abort, report_retry
from goalreel.http.endpoint import Endpoint, public_address

REFUSED = frozenset({400, 413, 422})
"""The server works, but it will never take this very request."""
_REFUSALS = frozenset({400, 403, 422})
"""The statuses with which servers refuse a field of a request."""
MAX_REPLY_BYTES = 64 * 2**20
"""The longest body of a reply, after it is decompressed."""
CONNECT_S, IDLE_S, SILENT_S = 10.0, 30.0, 20.0
"""Seconds that a connection may take, that one in nobody's use is kept, and after which silence is told."""
_LONGEST_ASKED_S = 120.0
"""The longest pause that a server may ask for. If it asks for more, there is no retry."""
_LOST = (httpx2.RequestError, ssl.SSLError, anyio.EndOfStream)  # the last two: of broken TLS connections
_PAUSE = tenacity.wait_exponential(multiplier=0.5, max=8) + tenacity.wait_random(0, 0.25)
_MESSAGES = ("error", "errors", "message", "msg", "detail", "fault", "faultstring", "title")
_TITLE = re.compile(r"<title>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_REFUSAL_500 = re.compile(rb"jinja|template|image input|mmproj", re.IGNORECASE)
"""Words of llama.cpp and Ollama about what their model cannot take, with the status of a server's fault."""


@dataclass(frozen=True)
class Reply:
    """A reply, read to its end."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    url: httpx2.URL
    redirected: bool = False


class HttpError(Exception):
    """There is no reply, and `__cause__` says why, or it has another status than that of success."""

    def __init__(self, reply: Reply | None = None) -> None:
        super().__init__("no reply" if reply is None else f"HTTP {reply.status}")
        self.reply = reply

    @property
    def status(self) -> int | None:
        """The status of the reply; None without one."""
        return None if self.reply is None else self.reply.status

    @property
    def is_out_of_reach(self) -> bool:
        """No connection was made."""
        return isinstance(self.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError)

    @property
    def pause_s(self) -> float:
        """The pause that the reply asks for, 0 without one: seconds or a date."""
        asked = "" if self.reply is None else self.reply.headers.get("Retry-After", "")
        with suppress(ValueError):
            seconds = float(asked)
            return seconds if 0 < seconds < float("inf") else 0.0
        with suppress(ValueError, TypeError):
            return max(0.0, (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds())
        return 0.0

    @property
    def is_of_server(self) -> bool:
        """The server is at fault, or the way to it, rather than the request."""
        return self.status is None or self.status in (401, 403, 404, 429) or self.status >= 500


log = logging.getLogger(__name__)


class HttpClient:
    """Sends requests to one endpoint; its key goes to no other host.

    Connection errors, 408, 409, 429 and 5xx are tried again, after `Retry-After` or with growing pauses; with
    `retry_late`, so is a reply that is late. Without `leave`, no redirect to another server is followed.

    Raises:
        InputError: a proxy of the environment cannot be used.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout_s: float,
        retries: int,
        retry_late: bool = True,
        leave: bool = True,
    ) -> None:
        self.endpoint, self.timeout_s = endpoint, timeout_s
        self._retries, self._retry_late, self._said = retries, retry_late, set[str]()

        async def guard(request: httpx2.Request) -> None:
            """Keep the key, and what may not `leave`, from a redirect to another server."""
            if not endpoint.is_home(request.url):
                if not leave:
                    place = request.url.netloc.decode()
                    raise ValueError(f"{endpoint.shown} points to {place}: give that address")
                for name in ("Authorization", *endpoint.headers):
                    request.headers.pop(name, None)

        try:
            self._client = httpx2.AsyncClient(
                verify=_certificates(),
                # Less than for the whole: a host that does not even connect is told from one that is late.
                timeout=httpx2.Timeout(timeout_s, connect=min(0.9 * timeout_s, CONNECT_S)),
                headers={"User-Agent": f"goalreel/{__version__}"},
                limits=httpx2.Limits(keepalive_expiry=IDLE_S),
                trust_env=not endpoint.is_local,
                follow_redirects=True,
                max_redirects=5,
                event_hooks={"request": [guard]},
            )
        except ImportError as e:
            raise InputError(
                "the proxy of the environment needs a package: pip install 'goalreel[socks]', or unset it"
            ) from e
        except (httpx2.InvalidURL, ValueError) as e:
            raise InputError(
                "the proxy of the environment is not an address: write http://HOST:PORT, or unset it"
            ) from e
        weakref.finalize(self, _close, self._client).atexit = False

    def request(self, method: str, route: str, **content: Any) -> httpx2.Request:
        """Build a request to a route below the endpoint's address, with its key; `content` is httpx's."""
        url = self.endpoint.address + route
        return self._client.build_request(method, url, headers=self.endpoint.headers, **content)

    async def send(self, request: httpx2.Request) -> Reply:
        """Send a request, for another time where that may help.

        Raises:
            HttpError: there is no reply after all retries, or it has not the status of success.
            ValueError: it leads to another server, and may not.
        """

        def is_worth_another(error: BaseException) -> bool:
            if not isinstance(error, HttpError):
                return False
            if error.reply is not None:
                told = error.reply.headers.get("x-should-retry")
                soon = told == "true" if told in ("true", "false") else is_transient(error.reply.status)
                return soon and error.pause_s <= _LONGEST_ASKED_S
            late = isinstance(error.__cause__, httpx2.ReadTimeout | httpx2.WriteTimeout)
            final = isinstance(error.__cause__, httpx2.TooManyRedirects | httpx2.UnsupportedProtocol)
            return not final and (self._retry_late or not late)

        def note(state: tenacity.RetryCallState) -> None:
            error = _error(state)
            reason = self.explain(error)
            report_retry(state.attempt_number, reason)
            if error.reply is None:
                self._say("lost", f"{reason}: trying again")

        retrying = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(self._retries + 1),
            retry=tenacity.retry_if_exception(is_worth_another),
            wait=lambda state: _error(state).pause_s or _PAUSE(state),
            before_sleep=note,
            sleep=lambda seconds: sleep(seconds),
            reraise=True,
        )
        return await retrying(self._once, request)

    async def send_accepted(
        self, build: Callable[[], httpx2.Request], refused: set[str], find: Callable[[Reply], str | None]
    ) -> Reply:
        """Send what `build` makes without the fields in `refused`, until the server refuses no more.

        `find` names the field that a reply of status 400, 403 or 422 is about; it is added to `refused`.

        Raises:
            HttpError: as `send`.
        """
        while True:
            request = await asyncio.to_thread(build)
            try:
                return await self.send(request)
            except HttpError as e:
                name = find(e.reply) if e.reply and e.status in _REFUSALS else None
                if name is None:
                    raise
                refused.add(name)

    def call(self, method: str, route: str, **content: Any) -> Reply:
        """Send a request to a route and wait for the reply. Raises as `send`."""
        return run(self.send(self.request(method, route, **content)))

    def _say(self, kind: Literal["silent", "lost"], text: str) -> None:
        """Warn once of each kind of trouble with the server, at once: all tries take minutes."""
        if kind not in self._said:
            self._said.add(kind)
            log.warning("%s", text)

    async def _once(self, request: httpx2.Request) -> Reply:
        waits = f"no answer from {self.endpoint.shown} for {SILENT_S:g} s: waiting up to {self.timeout_s:g} s"
        notice = asyncio.get_running_loop().call_later(SILENT_S, self._say, "silent", waits)
        try:
            async with (
                asyncio.timeout(self.timeout_s),
                aclosing(await self._client.send(request, stream=True)) as response,
            ):
                body = await _read_body(response)
        except (TimeoutError, *_LOST) as e:
            late = isinstance(e, TimeoutError)
            raise HttpError from (httpx2.ReadTimeout("no whole reply in time") if late else e)
        finally:
            notice.cancel()
        status = true_status(response.status_code, body)
        reply = Reply(status, body, response.headers, response.url, bool(response.history))
        if 200 <= status < 300:
            return reply
        raise HttpError(reply)

    def explain(self, error: HttpError) -> str:
        """Say in one line why there is no reply, without the key."""
        address, cause = self.endpoint.shown, error.__cause__
        if (reply := error.reply) is not None:
            place, advice = address, self.endpoint.advice(reply.status)
            if reply.redirected:
                place = f"{public_address(str(reply.url))}, to which {address} redirects"
                advice = "; give that address"
            said = error_text(reply.body)
            return self.endpoint.hide_key(f"HTTP {reply.status} from {place}: {said}{advice}")
        if error.is_out_of_reach:
            return self.endpoint.out_of_reach(cause)
        if isinstance(cause, httpx2.TimeoutException):
            return f"no answer from {address} within {self.timeout_s:g} s"
        text = str(cause).strip() or type(cause).__name__
        return self.endpoint.hide_key(f"no whole reply from {address}: {text}")


def run[T](work: Coroutine[Any, Any, T]) -> T:
    """Run requests in the background loop and wait; CallAbortedError where nobody waits any more."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        with current_abort().closing(future.cancel):
            return future.result()
    except CancelledError as e:
        raise CallAbortedError from e
    finally:
        future.cancel()  # on Ctrl-C


def _loop() -> asyncio.AbstractEventLoop:
    with _starting:  # two first callers must not get a loop each: clients and their connections belong to one
        return _started_loop()


@cache
def _started_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="goalreel-http", daemon=True).start()
    return loop


_starting = threading.RLock()
os.register_at_fork(after_in_child=_started_loop.cache_clear)  # no thread goes along


def _close(client: httpx2.AsyncClient) -> None:
    asyncio.run_coroutine_threadsafe(client.aclose(), _loop())


@cache
def _certificates() -> ssl.SSLContext:
    """Read this machine's certificates once for all clients: it takes 50 ms."""
    return httpx2.create_ssl_context()


async def _read_body(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > MAX_REPLY_BYTES:
            raise httpx2.RemoteProtocolError(f"more than {MAX_REPLY_BYTES // 2**20} MiB")
    return bytes(body)


def is_transient(status: int) -> bool:
    """Tell whether the same request may be answered soon: 408, 409, 429 and any 5xx but 501."""
    return status in (408, 409, 429) or (status >= 500 and status != 501)


def _error(state: tenacity.RetryCallState) -> HttpError:
    return cast(HttpError, state.outcome and state.outcome.exception())


def true_status(status: int, body: bytes) -> int:
    """Return the status that a reply means: gateways send 200 with an error, servers 500 for a refusal."""
    if status == 500 and _REFUSAL_500.search(body[:5000]):
        return 400
    if status != 200 or b'"error"' not in body[:1000]:
        return status
    error = _read(body).get("error")
    code = str(error.get("code") if isinstance(error, dict) else None)
    return int(code) if re.fullmatch("[45][0-9][0-9]", code) else status


def error_text(body: bytes, limit: int = 200) -> str:
    """Summarise the body of an error in one line of at most `limit` characters, in the server's own words.

    It reads OpenAI's `error.message`, FastAPI's `detail`, `message`, a list of these, or a page's title.
    """
    text = body[:5000].decode(errors="replace").removeprefix("\ufeff")
    try:
        value = json.loads(body)
        has_content = any(value.values()) if isinstance(value, dict) else value
        message = _message(value) or (text if has_content else "")
    except (ValueError, RecursionError):
        title = _TITLE.search(text)
        message = title[1] if title else text
    return " ".join(message.split())[:limit] or "no message"


def _message(value: Any) -> str:
    match value:
        case str():
            return value
        case [first, *_]:
            return _message(first)
        case {"msg": str(text), "loc": [*_, name]}:
            return f"{name}: {text}"
        case {"message": str(text), "metadata": {"raw": str(raw)}}:  # OpenRouter
            return f"{text}: {_message(_read(raw.encode())) or raw}"
        case dict():
            fields = {str(name).casefold(): inner for name, inner in value.items()}
            return next(filter(None, (_message(fields.get(name)) for name in _MESSAGES)), "")
    return ""


def refusal_words(body: bytes) -> str:
    """Return the words of a refusal, in lower case, with the field that its `param` names."""
    reply = _read(body)
    error = reply.get("error")
    parameter = (error if isinstance(error, dict) else reply).get("param")
    return f"{parameter or ''} {error_text(body, 2000)}".casefold()


def refused_field(text: str, sent: Collection[str]) -> str | None:
    """Return the field, of those that were `sent`, that a refusal names in its text; None without one."""
    return next((n for n in sent if re.search(rf"(?<![a-z]){n}(?![a-z])", text.casefold())), None)


def _read(body: bytes) -> dict[str, Any]:
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return reply if isinstance(reply, dict) else {}
