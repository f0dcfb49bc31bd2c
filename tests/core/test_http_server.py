"""Slow clients at a real server: what they get, and what they take from others."""

import asyncio
import contextlib
import socket
import threading
import time
from contextlib import ExitStack

import httpx
import pytest
from support.serving_models import running
from support.wait import until

from goalreel.http.server import MAX_HEADER_BYTES, ConnectionBounds

HOURS = 9999.0
SLOW = {
    "nothing": b"",
    "half a header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    "half a body": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf",
    "half a chunk": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
    "one request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


def bounds(connections: int, seconds: float = HOURS) -> ConnectionBounds:
    return ConnectionBounds(header_s=seconds, body_s=seconds, connections=connections)


class App:
    """Reads the body, waits where `/wait` is asked for, and answers with `size` bytes."""

    def __init__(self, size: int = 2) -> None:
        self.size, self.released, self.entered = size, threading.Event(), threading.Semaphore(0)

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            return
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.disconnect":
            return
        self.entered.release()
        if scope["path"] == "/wait":
            await asyncio.to_thread(self.released.wait, 60)
        headers = [(b"content-length", b"%d" % self.size)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(self.size)})


def connect(url: str, sent: bytes, address: str = "127.0.0.1") -> socket.socket:
    port = int(url.rpartition(":")[2])
    connection = socket.create_connection(("127.0.0.1", port), 60, source_address=(address, 0))
    with contextlib.suppress(OSError):  # it may have been ended already
        connection.sendall(sent)
    return connection


def ended(connection: socket.socket) -> bytes:
    """What came until the server closed the connection."""
    got = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(2**16):
            got += part
    return bytes(got)


@pytest.mark.parametrize("kind", SLOW)
def test_slow_clients_take_no_place_from_others(kind):
    with running(App(), bounds(40)) as (url, server), ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(connect(url, SLOW[kind]))
        assert httpx.post(url, content=b"in one go", timeout=60).status_code == 200
        assert len(server.server_state.connections) <= 40


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("nothing", b""),
        ("half a header", b"408 Request Timeout"),
        ("half a body", b"408 Request Timeout"),
        ("half a chunk", b"408 Request Timeout"),
        ("one request", b"200 OK"),
    ],
)
def test_a_request_has_its_time_and_the_client_is_told(kind, answer):
    with running(App(), bounds(40, 0.1)) as (url, server), connect(url, SLOW[kind]) as slow:
        status, _, rest = ended(slow).partition(b"\r\n")
        assert answer in status
        assert b" 408 " not in rest
        until(lambda: not server.server_state.connections)


def test_a_drip_does_not_prolong_a_header():
    with running(App(), bounds(40, 0.1)) as (url, server), connect(url, SLOW["half a header"]) as slow:
        until(lambda: server.server_state.connections)
        with contextlib.suppress(OSError):
            while server.server_state.connections:
                slow.sendall(b"x")
                time.sleep(0.01)
        assert not server.server_state.connections


def test_a_body_that_gets_on_has_more_time():
    limits = ConnectionBounds(header_s=HOURS, body_s=0.05, body_rate=0.001)  # a byte is worth 1,000 s
    with running(App(), limits) as (url, _), connect(url, SLOW["half a body"]) as slow:
        time.sleep(0.3)
        slow.sendall(bytes(96))
        assert slow.recv(100).startswith(b"HTTP/1.1 200 OK")


def test_a_header_without_end_is_refused():
    with running(App(), bounds(40)) as (url, _), connect(url, SLOW["half a header"]) as slow:
        with contextlib.suppress(OSError):
            slow.sendall(bytes(MAX_HEADER_BYTES * 2).replace(b"\0", b"x"))
        assert b"408" not in ended(slow)


def test_the_address_with_most_connections_loses_its_slowest():
    with running(App(), bounds(20)) as (url, server), ExitStack() as stack:
        old = stack.enter_context(connect(url, SLOW["half a header"], "127.0.0.2"))
        until(lambda: server.server_state.connections)
        for _ in range(60):
            stack.enter_context(connect(url, SLOW["half a header"]))
        until(lambda: len(server.server_state.connections) == 20)
        old.sendall(b"\r\n\r\n")
        assert old.recv(100).startswith(b"HTTP/1.1 200 OK")


def test_who_waits_for_an_answer_is_not_ended():
    app = App()
    with running(app, bounds(3, 0.05)) as (url, _), ExitStack() as stack:
        asked = [
            stack.enter_context(connect(url, b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")) for _ in range(3)
        ]
        for _ in asked:
            assert app.entered.acquire(timeout=60)
        refused = stack.enter_context(connect(url, b""))
        assert b"503 Service Unavailable" in ended(refused)
        app.released.set()
        for connection in asked:
            assert connection.recv(100).startswith(b"HTTP/1.1 200 OK")


def test_a_client_may_be_slow_to_read_until_its_place_is_needed():
    size = 20_000_000
    with running(App(size), bounds(1, 0.05)) as (url, server), ExitStack() as stack:
        reader = stack.enter_context(connect(url, SLOW["one request"]))
        time.sleep(0.3)
        assert len(ended(reader)) > size
        stalled = stack.enter_context(connect(url, SLOW["one request"]))
        until(lambda: [c for c in server.server_state.connections if c.transport.get_write_buffer_size()])
        assert httpx.head(url, timeout=60).status_code == 200
        assert len(ended(stalled)) < size
