"""The address of a model server, and the keys and headers that go to it and to no other host."""

import ipaddress
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goalreel.errors import InputError

if TYPE_CHECKING:
    import httpx2

OPENAI = "https://api.openai.com/v1"
GOOGLE = "https://generativelanguage.googleapis.com"
SERVER_KEYS = ("GOALREEL_TOKEN", "GOALREEL_API_KEY")
"""The environment variables that may hold a goalreel server's token."""
_AT_ADDRESS = re.compile(r"@(?=[A-Za-z][\w+.-]*://)")
_AT_HOST = re.compile(r"(?<=.)@(?=localhost\b|\[|[\w.-]+:\d+(/|$)|[\w-]+(\.[\w-]+)+/)")
"""An address without its scheme, of which a message should speak."""
_SECRET = re.compile(r"auth|key|token|secret|cookie|passw|credential|signature", re.IGNORECASE)
_WORDS = re.compile(r"[a-z]{1,15}([ _-][a-z]{1,15})*")
_USUAL = re.compile(
    r"|v\d\w{0,8}|openai|api|ai|models|compatible-mode|inference|serving-endpoints|deployments"
)
"""Parts of the paths of model servers; `v1beta` is one."""
_NO_HOST = re.compile(r"getaddrinfo|name resolution|not known|nodename|no address", re.IGNORECASE)
_NO_TLS = re.compile(r"WRONG_VERSION_NUMBER|RECORD_LAYER|record layer|UNEXPECTED_MESSAGE")


@dataclass(frozen=True)
class Endpoint:
    """The address of a server, and the variables that may hold its key.

    Raises:
        InputError: the address is none, or holds a password or a query; or no header can carry the key.
    """

    address: str
    variables: tuple[str, ...]
    """The environment variables that may hold the key; the first that is set counts."""
    example: str = "http://HOST:PORT"
    key_header: str | None = None
    """The header of the key; None is that of a bearer token."""
    extra: object = field(default=None, repr=False)
    """JSON that goes along with each request, whose longer texts may be keys."""

    def __post_init__(self) -> None:
        import httpx2

        try:
            url = httpx2.URL(self.address)
        except httpx2.InvalidURL as e:
            raise InputError(f"{self.shown!r} is not an address: write {self.example}") from e
        if url.scheme not in ("http", "https") or not url.host or url.port == 0:
            raise InputError(f"{self.shown!r} is not an address: write {self.example}")
        if url.userinfo or url.query:
            raise InputError(
                "an address must hold no key, and no query (?api-version= and the like): "
                "a key goes into the environment variable GOALREEL_API_KEY"
            )
        _ = self.key  # a fault is told before anything is sent

    @property
    def key(self) -> str | None:
        """The key, read when needed and kept nowhere; raises InputError where no header can carry it."""
        for name in self.variables:
            if key := os.environ.get(name, "").strip():
                if not key.isascii() or not key.isprintable() or " " in key:
                    raise InputError(f"{name} holds a character that no key has")
                return key
        return None

    @property
    def headers(self) -> dict[str, str]:
        """The header with the key; none without one. Raises as `key`."""
        if not (key := self.key):
            return {}
        return {self.key_header: key} if self.key_header else {"Authorization": f"Bearer {key}"}

    def hide_key(self, text: str) -> str:
        """Replace the key, and what else may be one, in a text: a server may have quoted it."""
        for secret in filter(None, (self.key, *_long_texts(self.extra))):
            text = text.replace(secret, "***")
        return text.replace(self.address, self.shown).replace(_path(self.address), _path(self.shown))

    @property
    def shown(self) -> str:
        """The address for a message."""
        return public_address(self.address)

    def is_home(self, url: "httpx2.URL") -> bool:
        """Tell whether an address has this endpoint's host and port, or the same host's over TLS."""
        home, other = _origin(self.address), _origin(str(url))
        return other == home or bool(home and home[2] == 80 and other == ("https", home[1], 443))

    @property
    def is_local(self) -> bool:
        """True for an address of this machine, which is reached without a proxy."""
        origin = _origin(self.address)
        host = origin[1] if origin else ""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return f".{host}".endswith(".localhost")  # RFC 6761, 6.3
        return address.is_loopback or address.is_unspecified

    def out_of_reach(self, error: BaseException | None = None) -> str:
        """Say that no connection could be made, and where to look."""
        from urllib.request import getproxies  # slow to import

        message = str(error or "")
        if "CERTIFICATE_VERIFY_FAILED" in message:
            return f"the certificate of {self.shown} is not trusted: set SSL_CERT_FILE to its authority's"
        if _NO_TLS.search(message):
            return f"{self.shown} does not speak TLS: write http://"
        if getproxies().keys() - {"no"} and not self.is_local:
            return f"cannot reach {self.shown}: is the proxy of the environment running? (or set NO_PROXY)"
        if _NO_HOST.search(message):
            return f"cannot reach {self.shown}: there is no such host"
        return f"cannot reach {self.shown}: is the server running?"

    def advice(self, status: int) -> str:
        """Say what to do about a refusal, as the end of a message; empty where the server's words must do."""
        if status == 401 and self.variables:
            return f": set {' or '.join(self.variables)}"
        lacks_version = self.example.endswith("/v1") and not re.search(r"/v\d|/openai", self.address)
        return ": the address may have to end in /v1" if status in (404, 405) and lacks_version else ""


def openai_endpoint(address: str | None, extra: object = None) -> Endpoint:
    """Make the endpoint of an OpenAI-compatible server; None is OPENAI_BASE_URL, or OpenAI itself.

    OPENAI_API_KEY is for OpenAI, and for the host of OPENAI_BASE_URL where that is set. GOALREEL_API_KEY is
    for any host but OpenAI's, and comes first where both fit.

    Raises:
        InputError: as `Endpoint`, or OpenAI itself is to be asked and there is no key.
    """
    base, keys = os.environ.get("OPENAI_BASE_URL"), ("OPENAI_API_KEY",)
    return _of_service("OpenAI", OPENAI, base, address, keys, example="http://HOST:PORT/v1", extra=extra)


def gemini_endpoint(address: str | None, extra: object = None) -> Endpoint:
    """Make the endpoint of Gemini's API; None is GOOGLE_GEMINI_BASE_URL, or Google itself.

    The version of the API, `/v1beta`, is added to an address without one. GEMINI_API_KEY, else
    GOOGLE_API_KEY, is Google's key, as OPENAI_API_KEY is OpenAI's.

    Raises:
        InputError: as `Endpoint`, or Google itself is to be asked and there is no key.
    """
    base, keys = os.environ.get("GOOGLE_GEMINI_BASE_URL"), ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    return _of_service(
        "Google", GOOGLE, base, address, keys, version="/v1beta", key_header="x-goog-api-key", extra=extra
    )


def _of_service(
    name: str,
    home: str,
    base: str | None,
    address: str | None,
    keys: tuple[str, ...],
    *,
    version: str = "",
    example: str = Endpoint.example,
    key_header: str | None = None,
    extra: object,
) -> Endpoint:
    """Make the endpoint of a service at `home`, or of an address that speaks as it does.

    `base` is the user's own address of it, and `version` is added to an address without one.
    """
    address = (address or base or home).rstrip("/")
    origin, home_origin = _origin(address), _origin(home)
    variables = () if origin == home_origin else ("GOALREEL_API_KEY",)
    if origin in (home_origin, _origin(base or home)):
        variables += keys
    if version and not re.search(r"/v\d\w*$", address):
        address += version
    endpoint = Endpoint(address, variables, example, key_header, extra)
    if origin == home_origin and not endpoint.key:
        raise InputError(f"{name} needs a key: set {keys[0]}, or give another address")
    return endpoint


def _long_texts(value: object, name: str = "") -> Iterator[str]:
    """Yield the long texts in JSON that may be keys: no plain words, unless their name says so."""
    if isinstance(value, Mapping):
        for key, more in value.items():
            yield from _long_texts(more, f"{name} {key}")
    elif isinstance(value, list | tuple):
        for more in value:
            yield from _long_texts(more, name)
    elif isinstance(value, str) and len(value) >= 8 and (_SECRET.search(name) or not _WORDS.fullmatch(value)):
        yield from (value, json.dumps(value)[1:-1])


def _path(address: str) -> str:
    return "/" + address.partition("://")[2].partition("/")[2]


def _origin(address: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of an address; None where it is no address."""
    import httpx2

    try:
        url = httpx2.URL(address)
    except httpx2.InvalidURL:
        return None
    return url.scheme, url.host.rstrip("."), url.port or (443 if url.scheme == "https" else 80)


def split_model(name: str) -> tuple[str, str | None]:
    """Split MODEL@URL into both, the URL None where it is missing. A model's own name may hold an @, too.

    >>> split_model("claude@2025@http://127.0.0.1:8000/v1")
    ('claude@2025', 'http://127.0.0.1:8000/v1')
    >>> split_model("@cf/meta/llama")
    ('@cf/meta/llama', None)
    """
    at = _AT_ADDRESS.search(name) or _AT_HOST.search(name)
    return (name[: at.start()], name[at.end() :]) if at else (name, None)


def public_address(text: str) -> str:
    """Show an address; parts of its path that are not usual may be a key.

    >>> public_address("https://gateway/hunter2/openai/v1")
    'https://gateway/***/openai/v1'
    """
    scheme, separator, rest = text.partition("://")
    host = re.split("[/?#]", rest, maxsplit=1)[0]
    path = re.sub("[^/]+", lambda part: part[0] if _USUAL.fullmatch(part[0]) else "***", rest[len(host) :])
    return scheme + separator + host.rpartition("@")[2] + path
