"""One process for the review page."""

import socket
from contextlib import suppress

from fastapi import FastAPI

from goalreel.http.server import BoundedServer

CLOSE_SECONDS = 2
"""For requests under way when it ends."""


def serve_review(app: FastAPI, listening: socket.socket) -> None:
    """Serve the page until Ctrl-C, after which this returns, or another signal ends it."""
    server = BoundedServer(app, timeout_graceful_shutdown=CLOSE_SECONDS, lifespan="off")
    with suppress(KeyboardInterrupt):  # uvicorn raises it when the last answer is sent
        server.run(sockets=[listening])
