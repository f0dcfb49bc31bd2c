"""One process for the review page."""

import socket
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

CLOSE_SECONDS = 2
"""For requests under way when it ends."""


def serve_review(app: FastAPI, listening: socket.socket) -> None:
    """Serve the page until Ctrl-C, after which this returns, or another signal ends it."""
    config = uvicorn.Config(
        app, log_config=None, server_header=False, timeout_graceful_shutdown=CLOSE_SECONDS, lifespan="off"
    )
    with suppress(KeyboardInterrupt):  # uvicorn raises it when the last answer is sent
        uvicorn.Server(config).run(sockets=[listening])
