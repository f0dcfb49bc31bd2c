"""One process: uvicorn, and a SIGTERM that loses nothing."""

import socket
import time
from types import FrameType

from fastapi import FastAPI

from goalreel.http.server import BoundedServer

CLOSE_SECONDS = 5
"""After the drain, for connections to end."""


class DrainingServer(BoundedServer):
    """On the first SIGTERM or SIGINT new work is answered 503 and /health says Draining, while requests and
    storyboards under way are finished, for `drain_seconds` at most; a second signal exits at once.
    """

    def __init__(self, app: FastAPI) -> None:
        self._service, self._jobs = app.state.service, app.state.jobs
        settings = self._service.settings
        super().__init__(app, host=settings.host, port=settings.port, timeout_graceful_shutdown=CLOSE_SECONDS)
        self._drain_seconds = settings.drain_seconds
        self._deadline = 0.0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain; uvicorn calls this on SIGINT and SIGTERM."""
        if self._service.draining:
            self.should_exit = self.force_exit = True
        self._service.draining = True
        self._deadline = time.monotonic() + self._drain_seconds

    async def on_tick(self, counter: int) -> bool:
        """Tick as `BoundedServer` does; go on while work is under way."""
        if self._service.draining:
            busy = self._service.under_way or self._jobs.busy
            self.should_exit = self.should_exit or not busy or time.monotonic() >= self._deadline
        return await super().on_tick(counter)


def serve_app(app: FastAPI, listening: socket.socket) -> None:
    """Serve an application on a socket until a signal ends it, as DrainingServer does."""
    DrainingServer(app).run(sockets=[listening])
