"""One process for the review page: its socket, and uvicorn on it."""

import socket

import uvicorn
from fastapi import FastAPI

CLOSE_SECONDS = 2
"""For requests under way when it ends."""


def listen(host: str, port: int) -> socket.socket:
    """The socket of an address, so that it is known to be free before a dataset is read; port 0 takes any.

    Raises:
        OSError: the address is taken, or not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def serve_review(app: FastAPI, listening: socket.socket) -> None:
    """Serve the page until a signal ends it."""
    config = uvicorn.Config(
        app, log_config=None, server_header=False, timeout_graceful_shutdown=CLOSE_SECONDS, lifespan="off"
    )
    uvicorn.Server(config).run(sockets=[listening])
