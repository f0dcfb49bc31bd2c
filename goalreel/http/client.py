"""What the clients of chat and image servers share: addresses, keys, proxies and redirects.

A key goes only to the host that it is meant for. An address of this machine is reached without a proxy. What
an error means is read in `goalreel.http.errors`, and when to ask again in `goalreel.http.retries`.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from goalreel.errors import InputError
from goalreel.http.headers import check_header, fill_headers, secrets
from goalreel.http.proxies import proxy_of
from goalreel.http.retries import with_retry_listener as with_retry_listener

if TYPE_CHECKING:
    import ssl

    import httpx2

OPENAI = "https://api.openai.com/v1"
GOOGLE = "https://generativelanguage.googleapis.com"
REFUSED = frozenset({400, 413, 422})
"""The server works, but it will never take this very request."""
REDIRECTS = 5
"""How many redirects of one request are followed."""
MAX_REPLY_BYTES = 64 * 2**20
"""The longest body of a reply, after it is decompressed."""
_CREDENTIALS = re.compile(r"//[^@/]*@")
_NO_HOST = re.compile(r"getaddrinfo|name resolution|not known|nodename|no address", re.IGNORECASE)
_NO_TLS = re.compile(r"WRONG_VERSION_NUMBER|RECORD_LAYER|record layer|UNEXPECTED_MESSAGE")


@dataclass(frozen=True)
class Endpoint:
    """The address of a server, the variables that may hold its key, and the proxy on the way to it.

    Raises:
        InputError: the address is none, or holds a password or a query; no header can carry the key, or a
            variable of another header is not set; or the proxy is unusable.
    """

    address: str
    variables: tuple[str, ...]
    """The environment variables that may hold the key; the first that is set counts."""
    example: str = "http://HOST:PORT"
    """How a message shows an address."""
    api_version: str | None = None
    """Of a classic Azure address: it goes into each request's query, and the key into a header `api-key`."""
    more_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """More headers of each request; `$VARIABLE` in a value is one of the environment."""
    key_header: str | None = None
    """The header of the key, where it is not the usual one."""

    def __post_init__(self) -> None:
        check_address(self.address, self.example)
        for name, value in self.more_headers.items():
            check_header(name, value)
        _ = self.headers  # what cannot be sent is said before anything is
        self._check_proxy()

    @property
    def key(self) -> str | None:
        """The key, read when it is needed and kept nowhere.

        Raises:
            InputError: it holds a character that no HTTP header can carry.
        """
        return read_key(*self.variables)

    def hide_key(self, text: str) -> str:
        """Replace the key, and other secrets of the headers, in a text: a server may have quoted them."""
        for secret in filter(None, (self.key, *secrets(self.more_headers))):
            text = text.replace(secret, "***")
        return text

    @property
    def headers(self) -> dict[str, str]:
        """What carries the key, and more headers."""
        more = fill_headers(self.more_headers)
        bare = self.key_header or ("api-key" if self.api_version else None)
        name, prefix = (bare, "") if bare else ("Authorization", "Bearer ")
        if (key := self.key) and name.casefold() not in map(str.casefold, more):
            more[name] = prefix + key
        return more

    def authorize(self, request: "httpx2.Request") -> None:
        """Put the headers on a request to this endpoint."""
        if headers := self.headers:
            request.headers.pop("Authorization", None)
            request.headers.update(headers)

    def redirected(self, response: "httpx2.Response") -> "httpx2.Request | None":
        """The request that a redirect asks for, without the headers where it leads elsewhere; None for none.

        A POST stays one, with its body, but for 303.
        """
        import httpx2

        if (following := response.next_request) is None:
            return None
        request = response.request
        if response.status_code != 303:
            headers = {name: value for name, value in request.headers.items() if name != "host"}
            content, extensions = request.read(), request.extensions
            following = httpx2.Request(
                request.method, following.url, headers=headers, content=content, extensions=extensions
            )
        if not self.is_home(following.url):
            for name in ("Authorization", *self.headers):
                following.headers.pop(name, None)
        return following

    def is_home(self, url: "httpx2.URL") -> bool:
        """Whether an address is of this endpoint's host and port, or the same host's over TLS."""
        home, other = _origin(self.address), _origin(str(url))
        return other == home or bool(home and home[2] == 80 and other == ("https", home[1], 443))

    @property
    def query(self) -> dict[str, str]:
        """What every request's address ends in."""
        return {"api-version": self.api_version} if self.api_version else {}

    @property
    def connection(self) -> dict[str, Any]:
        """The arguments of an httpx2 client: certificates, the proxy, and its own choices switched off."""
        return {
            "verify": certificates(),
            "proxy": self.proxy,
            "trust_env": False,
            "follow_redirects": False,
        }

    @property
    def proxy(self) -> str | None:
        """The proxy that the environment names for this address; None for none, and on this machine."""
        import httpx2

        return proxy_of(httpx2.URL(self.address)) or None

    def _check_proxy(self) -> None:
        import httpx2

        if not (proxy := self.proxy):
            return
        name = f"the proxy {_CREDENTIALS.sub('//', proxy)} of the environment"
        try:
            scheme = httpx2.Proxy(proxy).url.scheme
        except (httpx2.InvalidURL, ValueError) as e:
            raise InputError(f"{name} is not an address: write http://HOST:PORT, or unset it") from e
        if scheme.startswith("socks") and find_spec("socksio") is None:
            raise InputError(f"{name} needs another package: pip install 'goalreel[socks]', or unset it")

    def out_of_reach(self, error: BaseException | None = None) -> str:
        """Say that no connection could be made, and where to look."""
        message = str(error or "")
        if "CERTIFICATE_VERIFY_FAILED" in message:
            return f"the certificate of {self.address} is not trusted: set SSL_CERT_FILE to its authority's"
        if _NO_TLS.search(message):
            return f"{self.address} does not speak TLS: write http://"
        if proxy := self.proxy:
            name = _CREDENTIALS.sub("//", proxy)
            return f"cannot reach {self.address} through the proxy {name}: does it run? (or set NO_PROXY)"
        if _NO_HOST.search(message):
            return f"cannot reach {self.address}: there is no such host"
        return f"cannot reach {self.address}: is the server running?"

    def advice(self, status: int) -> str:
        """What to do about a refusal, as the end of a message; empty where the server's words must do."""
        if status == 401 and self.variables:
            return f": set {' or '.join(self.variables)}"
        lacks_version = self.example.endswith("/v1") and not re.search(r"/v\d|/openai", self.address)
        return ": the address may have to end in /v1" if status in (404, 405) and lacks_version else ""


def openai_endpoint(
    address: str | None, api_version: str | None = None, more_headers: Mapping[str, str] | None = None
) -> Endpoint:
    """The endpoint of an OpenAI-compatible server; None is OPENAI_BASE_URL, or OpenAI itself.

    OPENAI_API_KEY is for OpenAI, and for the host of OPENAI_BASE_URL where that is set. GOALREEL_API_KEY is
    for any host but OpenAI's, and comes first where both fit.

    Raises:
        InputError: as `Endpoint`, or OpenAI itself is to be asked and there is no key.
    """
    base = os.environ.get("OPENAI_BASE_URL") or OPENAI
    address, _, query = (address or base).partition("?api-version=")
    address = address.rstrip("/")
    variables = _key_variables(address, base, OPENAI, "OPENAI_API_KEY")
    endpoint = Endpoint(
        address, variables, "http://HOST:PORT/v1", api_version or query or None, more_headers or {}
    )
    if _origin(address) == _origin(OPENAI) and not endpoint.headers:
        raise InputError("OpenAI needs a key: set OPENAI_API_KEY, or give another address")
    return endpoint


def gemini_endpoint(address: str | None, more_headers: Mapping[str, str] | None = None) -> Endpoint:
    """The endpoint of Gemini's API; None is GOOGLE_GEMINI_BASE_URL, or Google itself.

    The version of the API, `/v1beta`, is added to an address without one. GEMINI_API_KEY, else
    GOOGLE_API_KEY, is for Google, and for the host of GOOGLE_GEMINI_BASE_URL where that is set.
    GOALREEL_API_KEY is for any host but Google's, and comes first where both fit.

    Raises:
        InputError: as `Endpoint`, or Google itself is to be asked and there is no key.
    """
    base = os.environ.get("GOOGLE_GEMINI_BASE_URL") or GOOGLE
    address = (address or base).rstrip("/")
    variables = _key_variables(address, base, GOOGLE, "GEMINI_API_KEY", "GOOGLE_API_KEY")
    address = address if re.search(r"/v\d\w*$", address) else f"{address}/v1beta"
    endpoint = Endpoint(address, variables, key_header="x-goog-api-key", more_headers=more_headers or {})
    if _origin(address) == _origin(GOOGLE) and not endpoint.headers:
        raise InputError("Google needs a key: set GEMINI_API_KEY, or give another address")
    return endpoint


def _key_variables(address: str, base: str, service: str, *own: str) -> tuple[str, ...]:
    """The variables of the key for an address: a service's `own` are for it, and for the user's `base`."""
    variables = () if _origin(address) == _origin(service) else ("GOALREEL_API_KEY",)
    return (*variables, *own) if _origin(address) in (_origin(base), _origin(service)) else variables


def _origin(address: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an address; None of what is none."""
    import httpx2

    try:
        url = httpx2.URL(address)
    except httpx2.InvalidURL:
        return None
    return url.scheme, url.host.rstrip("."), url.port or (443 if url.scheme == "https" else 80)


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
        raise InputError(f"{address!r} is not an address: write {example}") from e
    if url.scheme not in ("http", "https") or not url.host or url.port == 0:
        raise InputError(f"{address!r} is not an address: write {example}")
    if url.userinfo or url.query:
        raise InputError("an address must hold no key: put it into the environment variable GOALREEL_API_KEY")


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
