"""What the clients of chat and image servers share: addresses, keys, proxies, retries and errors.

A key goes only to the host that it is meant for. An address of this machine is reached without a proxy.
"""

import json
import math
import os
import re
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies, proxy_bypass

from goalreel.errors import InputError
from goalreel.http import is_loopback

if TYPE_CHECKING:
    import ssl

OPENAI = "https://api.openai.com/v1"
REFUSED = frozenset({400, 413, 422})
"""The server works, but it will never take this very request."""
_BUSY = frozenset({408, 409, 429})
_CREDENTIALS = re.compile(r"//[^@/]*@")
_AT_ADDRESS = re.compile(r"@(?=[A-Za-z][\w+.-]*://)")
_AT_HOST = re.compile(r"(?<=.)@(?=localhost\b|[\w.-]+:\d+(/|$)|[\w-]+(\.[\w-]+)+/)")
"""An address without its scheme, which a message should speak of."""
_TITLE = re.compile(r"<title>(.*?)</title>", re.IGNORECASE | re.DOTALL)

# A model may call its server from any thread or event loop of its own: the listener travels in their context.
_listener: ContextVar[Callable[[int], None] | None] = ContextVar("goalreel_retries", default=None)


@dataclass(frozen=True)
class Endpoint:
    """The address of a server, the variables that may hold its key, and the proxy on the way to it.

    Raises:
        InputError: the address is none, or holds a password or a query; or the proxy is unusable.
    """

    address: str
    variables: tuple[str, ...]
    """The environment variables that may hold the key; the first that is set counts."""
    example: str = "http://HOST:PORT"
    """How a message shows an address."""
    api_version: str | None = None
    """Of a classic Azure address: it goes into each request's query, and the key into a header `api-key`."""

    def __post_init__(self) -> None:
        check_address(self.address, self.example)
        self._check_proxy()

    @property
    def key(self) -> str | None:
        """The key, read when it is needed and kept nowhere.

        Raises:
            InputError: it holds a character that no HTTP header can carry.
        """
        return read_key(*self.variables)

    def hide_key(self, text: str) -> str:
        """Replace the key in a text, which a server may have quoted."""
        key = self.key
        return text.replace(key, "***") if key else text

    @property
    def headers(self) -> dict[str, str]:
        """What carries the key."""
        if not (key := self.key):
            return {}
        return {"api-key": key} if self.api_version else {"Authorization": f"Bearer {key}"}

    @property
    def query(self) -> dict[str, str]:
        """What every request's address ends in."""
        return {"api-version": self.api_version} if self.api_version else {}

    @property
    def connection(self) -> dict[str, Any]:
        """The arguments of an httpx2 client: certificates, and the proxy, its own choice switched off."""
        return {"verify": certificates(), "proxy": self.proxy, "trust_env": False}

    @property
    def proxy(self) -> str | None:
        """The proxy that the environment names for this address; None for none, and on this machine."""
        import httpx2

        url = httpx2.URL(self.address)
        if is_loopback(url.host) or proxy_bypass(url.host):
            return None
        proxies = getproxies()
        proxy = proxies.get(url.scheme) or proxies.get("all")
        return proxy if not proxy or "://" in proxy else f"http://{proxy}"

    def _check_proxy(self) -> None:
        import httpx2

        if not (proxy := self.proxy):
            return
        shown = f"the proxy {_CREDENTIALS.sub('//', proxy)} of the environment"
        try:
            scheme = httpx2.Proxy(proxy).url.scheme
        except (httpx2.InvalidURL, ValueError) as e:
            raise InputError(f"{shown} is no address: write http://HOST:PORT, or unset it") from e
        if scheme.startswith("socks") and find_spec("socksio") is None:
            raise InputError(f"{shown} needs another package: pip install 'goalreel[socks]', or unset it")

    def out_of_reach(self) -> str:
        """Say that no connection could be made, and where to look."""
        if not (proxy := self.proxy):
            return f"cannot reach {self.address}: is the server running?"
        shown = _CREDENTIALS.sub("//", proxy)
        return f"cannot reach {self.address} through the proxy {shown}: does it run? (or set NO_PROXY)"


def openai_endpoint(address: str | None, api_version: str | None = None) -> Endpoint:
    """The endpoint of an OpenAI-compatible server; None is OPENAI_BASE_URL, or OpenAI itself.

    OPENAI_API_KEY is for OpenAI, and for the host of OPENAI_BASE_URL where that is set. GOALREEL_API_KEY is
    for any host but OpenAI's, and comes first where both fit.

    Raises:
        InputError: as `Endpoint`, or OpenAI itself is to be asked and there is no key.
    """
    base = os.environ.get("OPENAI_BASE_URL") or OPENAI
    address, _, query = (address or base).partition("?api-version=")
    address = address.rstrip("/")
    variables = () if _origin(address) == _origin(OPENAI) else ("GOALREEL_API_KEY",)
    if _origin(address) in (_origin(base), _origin(OPENAI)):
        variables += ("OPENAI_API_KEY",)
    endpoint = Endpoint(address, variables, "http://HOST:PORT/v1", api_version or query or None)
    if _origin(address) == _origin(OPENAI) and not endpoint.key:
        raise InputError("OpenAI needs a key: set OPENAI_API_KEY, or give another address")
    return endpoint


def split_model(name: str) -> tuple[str, str | None]:
    """Split MODEL@URL into both, the URL None where it is missing. A model's own name may hold an @, too.

    >>> split_model("claude@2025@http://127.0.0.1:8000/v1")
    ('claude@2025', 'http://127.0.0.1:8000/v1')
    >>> split_model("@cf/meta/llama")
    ('@cf/meta/llama', None)
    """
    at = _AT_ADDRESS.search(name) or _AT_HOST.search(name)
    return (name[: at.start()], name[at.end() :]) if at else (name, None)


def _origin(address: str) -> tuple[str, ...]:
    match = re.match(r"(?i)([a-z]+)://([^/?#]+)", address)
    return tuple(part.casefold() for part in match.groups()) if match else ()


@cache
def certificates() -> "ssl.SSLContext":
    """Read this machine's certificates once for all clients: it takes 50 ms."""
    from httpx2 import create_ssl_context

    return create_ssl_context()


def check_address(address: str, example: str = "http://HOST:PORT") -> None:
    """Check that a server may have this address; a message shows how to write it by `example`.

    Raises:
        InputError: it is no HTTP address, or it holds a password or a query.
    """
    import httpx2

    try:
        url = httpx2.URL(address)
    except httpx2.InvalidURL as e:
        raise InputError(f"{address!r} is no address: write {example}") from e
    if url.scheme not in ("http", "https") or not url.host or url.port == 0:
        raise InputError(f"{address!r} is no address: write {example}")
    if url.userinfo or url.query:
        raise InputError("no key belongs into an address: put it into the environment, GOALREEL_API_KEY")


def read_key(*variables: str) -> str | None:
    """Read the first of these environment variables that is set; None where none is.

    Raises:
        InputError: the value holds a character that no HTTP header can carry.
    """
    for name in variables:
        if key := os.environ.get(name, "").strip():
            if not key.isascii() or not key.isprintable() or " " in key:
                raise InputError(f"{name} holds a character that no key has")
            return key
    return None


def is_transient(status: int) -> bool:
    """Whether the same request may be answered soon: any 5xx, Cloudflare's 520 to 524 too, but not 501."""
    return status in _BUSY or (status >= 500 and status != 501)


def retry_after_s(headers: Mapping[str, str]) -> float:
    """The pause in seconds that a reply asks for, as a number or a date (RFC 9110, 10.2.3); 0 without one."""
    text = headers.get("Retry-After", "")
    try:
        seconds = float(text)
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except ValueError:
            return 0.0
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def with_retry_listener[Result](call: Callable[[], Result], listener: Callable[[int], None]) -> Result:
    """Make a call and pass the number of each retry in it, from 1, to `listener`, in the retrying thread."""
    context = copy_context()
    context.run(_listener.set, listener)
    return context.run(call)


def report_retry(number: int) -> None:
    """Tell the listener, if there is one, that a request is sent for another time, the `number`th retry."""
    if (listener := _listener.get()) is not None:
        listener(number)


def true_status(status: int, body: bytes) -> int:
    """The status that a reply means: some gateways send 200 with an error, and its status as `code`."""
    if status != 200 or b'"error"' not in body[:1000]:
        return status
    error = _read(body).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else status


def error_text(body: bytes) -> str:
    """Summarise the body of an error in one line of at most 200 characters, in the server's own words.

    It reads OpenAI's `error.message`, FastAPI's `detail`, `message`, a list of these, or a page's title.
    """
    text = body[:5000].decode(errors="replace")
    try:
        message = _message(json.loads(body))
    except (ValueError, RecursionError):
        title = _TITLE.search(text)
        message = title[1] if title else text
    return " ".join(message.split())[:200] or "no message"


def _message(value: object) -> str:
    match value:
        case str():
            return value
        case [first, *_]:
            return _message(first)
        case {"msg": str(text), "loc": [*_, name]}:
            return f"{name}: {text}"
        case {"error": (str() | dict()) as inner} | {"message": (str() | dict()) as inner}:
            return _message(inner)
        case {"detail": inner}:
            return _message(inner)
    return ""


def refused_field(text: str, sent: Collection[str]) -> str | None:
    """The field, of those that were `sent`, that a refusal names in its text; None where it names none."""
    return next((n for n in sent if re.search(rf"(?<![a-z]){n}(?![a-z])", text.casefold())), None)


def _read(body: bytes) -> dict[str, Any]:
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return reply if isinstance(reply, dict) else {}
