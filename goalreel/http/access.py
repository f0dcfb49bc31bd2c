"""The parts that the HTTP servers of goalreel share: their sockets, tokens and first checks.

A server without a token answers to the names of this machine alone. A page in a browser can point a name of
its own at 127.0.0.1, but it cannot forge the Host header.
"""

import asyncio
import errno
import hmac
import ipaddress
import re
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from goalreel.errors import InputError

if TYPE_CHECKING:
    from starlette.types import Message, Receive

UNANSWERED = 424
"""`goalreel serve` works, but its model failed at this very request, which was not refused."""
TOKEN_VARIABLE = "GOALREEL_TOKEN"
BODY_S, BODY_RATE = 20.0, 16_384.0
"""A body may take `BODY_S` seconds, and one more for each `BODY_RATE` bytes that came."""
LATE = "the request did not arrive in time"


def is_loopback(host: str) -> bool:
    """Tell whether `host` can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def hostname(header: str) -> str:
    """A Host header without its port.

    >>> hostname("[::1]:8000")
    '::1'
    """
    if header.startswith("["):
        return header.partition("]")[0].removeprefix("[")
    return header.partition(":")[0]


def check_token(token: str | None, host: str, subject: str) -> None:
    """Check that a server on `host` may do with this token; `subject` begins the message, "a page" say.

    Raises:
        InputError: there is no token and `host` is not loopback, or no header can carry the token.
    """
    if not token and not is_loopback(host):
        raise InputError(f"{subject} on {host} needs a token: set {TOKEN_VARIABLE}, or use 127.0.0.1")
    if token and not re.fullmatch(r"[!-~]+", token):
        raise InputError(f"{TOKEN_VARIABLE} may hold letters, digits and signs of ASCII only, no space")


def listen(host: str, port: int) -> socket.socket:
    """Open the socket of a server; port 0 takes a free one.

    Raises:
        InputError: the port is taken or kept for root, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as e:
        if e.errno == errno.EADDRINUSE:
            problem = f"port {port} of {host} is taken: end what listens there, or choose another with --port"
        elif e.errno == errno.EACCES:
            problem = f"port {port} is kept for root: choose one from 1024 on with --port"
        else:
            problem = f"{host} is not an address of this machine ({e.strerror}): choose another with --host"
        raise InputError(problem) from e


def address_of(host: str, port: int) -> str:
    """Return the address of a server, with an IPv6 host in brackets."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_authorized(headers: Mapping[str, str], token: str | None) -> bool:
    """Tell whether a request has the token or, if the server has none, is for a name of this machine."""
    if not token:
        return is_loopback(hostname(headers.get("host", "localhost")))
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    is_token = hmac.compare_digest(credentials.strip().encode("latin-1"), token.encode())
    return scheme.lower() == "bearer" and is_token


def is_foreign(headers: Mapping[str, str]) -> bool:
    """Tell whether a browser sends this request for the page of another site.

    A page may send a form or plain text to any address without asking. A client that is no browser sends
    neither of these headers.
    """
    origin = headers.get("origin")
    elsewhere = origin is not None and origin.partition("://")[2] != headers.get("host")
    return elsewhere or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")


def is_too_long(headers: Mapping[str, str], limit: int) -> bool:
    """Tell whether a request's Content-Length is above `limit` bytes, or no number."""
    length = headers.get("content-length", "0")
    return not length.isdecimal() or len(length) > 15 or int(length) > limit


def limit_body(
    receive: "Receive",
    limit: int,
    on_excess: "Callable[[int], Message]",
    on_end: Callable[[], None] = lambda: None,
) -> "Receive":
    """Bound a body in bytes, also one that does not say its length, and in time.

    `on_excess` gives the message in place of what is too much (status 413) or late (408). `on_end` is called
    when the body is whole.
    """
    start, size, whole = asyncio.get_running_loop().time(), 0, False

    async def receive_bounded() -> "Message":
        nonlocal size, whole
        try:
            async with asyncio.timeout_at(None if whole else start + BODY_S + size / BODY_RATE):
                message = await receive()
        except TimeoutError:
            return on_excess(408)
        size += len(message.get("body", b""))
        if size > limit:
            return on_excess(413)
        whole = not message.get("more_body")
        if whole and message["type"] == "http.request":
            on_end()
        return message

    return receive_bounded
