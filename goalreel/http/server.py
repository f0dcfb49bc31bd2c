"""uvicorn with bounds: on connections, and on the size and time of a header."""

import asyncio
import resource
import time
from collections.abc import AsyncIterator
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

MAX_HEADER_BYTES = 64 * 1024
HEADER_S = 10.0
"""A connection ends where no whole header came for so long after it began, or after its last answer."""
_streams: list[asyncio.Timeout] = []


async def one_of_many(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pass a stream of events on; where streams have half of the connections, the oldest ends."""
    limit = asyncio.timeout(None)
    try:
        async with limit:
            _streams.append(limit)
            if len(_streams) > max_connections() / 2:
                _streams.pop(0).reschedule(0)
            async for message in stream:
                yield message
    except TimeoutError:
        if not limit.expired():
            raise
    finally:
        if limit in _streams:
            _streams.remove(limit)


def max_connections() -> int:
    """Half of the files that this process may open."""
    return min(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2, 4096)


class BoundedServer(uvicorn.Server):
    """An HTTP server whose connections have bounds; `options` are those of `uvicorn.Config`."""

    def __init__(self, app: ASGIApp, *, header_s: float = HEADER_S, **options: Any) -> None:
        self._header_s = header_s
        self._idle: dict[tuple[Any, Any, int], float] = {}
        """Time at which a connection was first seen without a request, after which one, with what to send."""
        defaults: dict[str, Any] = {"limit_concurrency": max_connections(), "timeout_keep_alive": 10}
        config = uvicorn.Config(
            app,
            http="h11",  # the other protocol does not bound the header
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            ws="none",
            server_header=False,
            log_config=None,
            **(defaults | options),
        )
        super().__init__(config)

    async def on_tick(self, counter: int) -> bool:
        """End connections whose header is late, or whose last answer is not taken, ten times a second."""
        now = time.monotonic()
        connections = ((c, c.cycle, c.transport) for c in cast(set[Any], self.server_state.connections))
        idle = [
            (c, cycle, transport.get_write_buffer_size())
            for c, cycle, transport in connections
            if cycle is None or cycle.response_complete or transport.is_closing()
        ]
        self._idle = {key: self._idle.get(key, now) for key in idle}
        for (connection, *_), since in self._idle.items():
            if now - since > self._header_s:
                connection.transport.abort()
        return await super().on_tick(counter)
