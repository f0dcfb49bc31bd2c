"""A real server's bounds: on connections, on headers, and on the time of a body."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.responses import StreamingResponse
from support.serving_models import running
from support.wait import until

from goalreel.http import access, server
from goalreel.http.server import MAX_HEADER_BYTES

HALF_BODY = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf"


async def app(scope, receive, send):
    """Read the body, wait where `/wait` is asked for, and answer."""
    if scope["type"] == "lifespan":
        return

    def refuse(status):
        raise HTTPException(status)

    receive = access.limit_body(receive, 1000, refuse)
    while (await receive()).get("more_body"):
        pass
    if scope["path"] == "/wait":
        await asyncio.sleep(0.5)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


told = ExceptionMiddleware(app)


def connect(url: str, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 60)
    connection.sendall(sent)
    return connection


def ended(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    got = bytearray()
    with suppress(ConnectionResetError):
        while part := connection.recv(2**16):
            got += part
    return bytes(got)


@pytest.mark.parametrize(
    "sent", [HALF_BODY, HALF_BODY.replace(b"Content-Length: 100", b"Transfer-Encoding: chunked")]
)
def test_a_body_has_its_time_and_the_client_is_told(sent, monkeypatch):
    monkeypatch.setattr(access, "BODY_S", 0.1)
    with running(told) as (url, _), connect(url, sent.replace(b"\nhalf", b"\n9\r\nhalf")) as slow:
        assert b"408 Request Timeout" in ended(slow)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
@pytest.mark.parametrize("before", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_a_header_has_its_time_which_no_drip_prolongs(before, sent):
    with running(app, header_s=0.3) as (url, server), connect(url, before + sent) as slow:
        until(lambda: server.server_state.connections)
        with suppress(OSError):
            while server.server_state.connections:
                slow.sendall(b"x" if sent else b"")
                time.sleep(0.01)
        assert (b"200 OK" in ended(slow)) == bool(before)


def test_a_connection_that_is_used_stays_open():
    with running(app, header_s=0.3) as (url, server), httpx.Client(base_url=url, timeout=60) as client:
        client.get("/")
        (first,) = server.server_state.connections
        for _ in range(10):
            time.sleep(0.1)
            assert client.get("/").status_code == 200
        assert client.get("/wait").status_code == 200
        assert server.server_state.connections == {first}


def test_a_stream_that_nobody_reads_ends_with_its_connection(monkeypatch):
    """Its client leaves it in the buffers, so that a close in order would wait for ever."""
    monkeypatch.setattr(server, "max_connections", lambda: 2)

    async def history() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0)
            yield bytes(2**20)

    async def streams(scope, receive, send):
        if scope["type"] == "http":
            await StreamingResponse(server.one_of_many(history()))(scope, receive, send)

    with running(streams, header_s=0.3, limit_concurrency=9) as (url, running_server), ExitStack() as stack:
        connections = running_server.server_state.connections
        for number in range(1, 3):
            stack.enter_context(connect(url, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
            until(lambda n=number: sum(c.transport.get_write_buffer_size() > 0 for c in [*connections]) == n)
        until(lambda: len(connections) == 1)


def test_an_answer_may_take_longer_than_a_body(monkeypatch):
    monkeypatch.setattr(access, "BODY_S", 0.1)
    with running(told) as (url, _):
        assert httpx.post(f"{url}/wait", content=b"whole", timeout=60).status_code == 200


def test_who_comes_beyond_the_bound_is_told():
    with running(app, limit_concurrency=3) as (url, running_server), ExitStack() as stack:
        for number in (1, 2):  # one by one: those that come together would all count as the third
            stack.enter_context(connect(url, HALF_BODY))
            until(lambda number=number: len(running_server.server_state.tasks) == number)
        assert httpx.get(url, timeout=60).status_code == 503


def test_a_header_without_end_is_refused():
    with running(app) as (url, _), connect(url, b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ") as slow:
        with suppress(OSError):
            slow.sendall(b"x" * MAX_HEADER_BYTES * 2)
        assert b"200 OK" not in ended(slow)
