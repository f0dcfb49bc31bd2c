"""uvicorn with bounds on its connections, so that slow clients lock nobody out.

uvicorn itself waits for a header and for a body without end, until the process has no descriptor left.
"""

import asyncio
import resource
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp

MAX_HEADER_BYTES = 64 * 1024
BACKLOG = 128
"""Connections that are accepted in one go: they are descriptors already before they are counted."""


def _answer(status: str, message: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    return f"{head}Content-Length: {len(message)}\r\n\r\n{message}".encode("ascii")


LATE = _answer("408 Request Timeout", "the request did not arrive in time")
FULL = _answer("503 Service Unavailable", "too many connections are open: try again")


def _half_of_descriptors() -> int:
    return min(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2, 4096)


@dataclass(frozen=True)
class ConnectionBounds:
    """How long a client may take to send a request, in seconds, and how many connections may be open."""

    header_s: float = 10.0
    """For the whole header, from the start of the connection or the end of the last answer."""
    body_s: float = 20.0
    """For the body, besides a second for each `body_rate` bytes that came."""
    body_rate: float = 16_384.0
    connections: int = field(default_factory=_half_of_descriptors)
    """Open at once. For one more, the address that has the most of them loses its slowest."""


class Connection(H11Protocol):
    """A connection that knows how long its client has been slow."""

    def __init__(self, *args: Any, admit: "Callable[[Connection], bool]", rate: float, **more: Any) -> None:
        super().__init__(*args, **more)
        self._admit, self._rate = admit, rate
        self._since = self._moved = time.monotonic()
        self._received = self._unsent = 0

    @property
    def address(self) -> str:
        """The client's address, without its port."""
        return self.client[0] if self.client else ""

    @property
    def is_sending(self) -> bool:
        """Whether it has the header of a request, and not yet its body."""
        return self.cycle is not None and not self.cycle.response_complete and self.cycle.more_body

    @property
    def is_answered(self) -> bool:
        """Whether a request is being answered, or the answer is on its way."""
        working = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        return working or self.transport.get_write_buffer_size() > 0

    @property
    def slow_since(self) -> float:
        """The monotonic time up to which the client kept pace; infinite while it waits for us."""
        if self.is_answered:
            return self._moved if self.transport.get_write_buffer_size() else float("inf")
        if self.is_sending:
            return self._since + self._received / self._rate
        return max(self._since, self._moved)

    def look(self, bounds: ConnectionBounds) -> None:
        """End the connection if its request is late, and note whether its answer gets on."""
        now, unsent = time.monotonic(), self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self._moved = unsent, now
        allowed = bounds.body_s if self.is_sending else bounds.header_s
        if not self.is_answered and now - self.slow_since > allowed:
            self.end(LATE)

    def end(self, answer: bytes) -> None:
        """Close the connection. A client that has sent a part of a request, and got no answer, gets this."""
        has_begun = not self.cycle.response_started if self.is_sending else self._received > 0
        self._close(answer if has_begun else b"")

    def _close(self, answer: bytes) -> None:
        self.connections.discard(self)  # it counts no longer, although its end takes another turn of the loop
        if self.transport.get_write_buffer_size():
            self.transport.abort()
            return
        if answer and not self.transport.is_closing():
            self.transport.write(answer)
        self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Take the connection, if there is room."""
        super().connection_made(transport)
        if not self._admit(self):
            self._close(FULL)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request; its body's time begins with the end of its header."""
        previous_cycle = self.cycle
        super().data_received(data)
        if self.cycle is previous_cycle:
            self._received += len(data)
        else:
            self._begin(len(data))

    def on_response_complete(self) -> None:
        """End an answer; the next request's time begins."""
        self._begin()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Note that the client got a part of its answer."""
        self._moved = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the client got a part of its answer."""
        self._moved = time.monotonic()
        super().resume_writing()

    def _begin(self, received: int = 0) -> None:
        self._since, self._received = time.monotonic(), received


class BoundedServer(uvicorn.Server):
    """An HTTP server whose connections have bounds; `options` are those of `uvicorn.Config`."""

    def __init__(self, app: "ASGIApp", bounds: ConnectionBounds | None = None, **options: Any) -> None:
        self.bounds = bounds or ConnectionBounds()
        # One protocol wherever it runs: uvicorn's other one does not bound the header.
        protocol = partial(Connection, admit=self._admit, rate=self.bounds.body_rate)
        config = uvicorn.Config(
            app,
            http=cast(type[asyncio.Protocol], protocol),
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            ws="none",
            backlog=BACKLOG,
            server_header=False,
            log_config=None,
            **options,
        )
        super().__init__(config)

    async def on_tick(self, counter: int) -> bool:
        """End what is late; uvicorn asks ten times a second whether to go on."""
        for connection in self._open():
            connection.look(self.bounds)
        return await super().on_tick(counter)

    def _open(self) -> list[Connection]:
        return list(cast(set[Connection], self.server_state.connections))

    def _admit(self, connection: Connection) -> bool:
        """Make room for a new connection, if none is left: False where no other client is slow."""
        others = [c for c in self._open() if c is not connection]
        if len(others) < self.bounds.connections:
            return True
        number = Counter(c.address for c in others)
        slow = [c for c in others if c.slow_since < float("inf")]
        if not slow:
            return False
        slowest = max(slow, key=lambda c: (number[c.address], -c.slow_since))
        slowest.end(FULL)
        return True
