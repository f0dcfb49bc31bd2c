"""A goalreel model server in a thread of this process."""

import socket
import threading
from typing import Self

import uvicorn

from goalreel.serving.app import create_app
from goalreel.serving.settings import Models, ServeSettings

HOST = "127.0.0.1"
CLOSE_SECONDS = 1


class ModelServer:
    """Serves models on loopback as soon as it is created; `url` is its address.

    Raises:
        OSError: the port is in use.
    """

    def __init__(self, models: Models, port: int) -> None:
        self._socket = socket.create_server((HOST, port))
        self.url = f"http://{HOST}:{self._socket.getsockname()[1]}"
        app = create_app(models, ServeSettings(batch_wait_ms=0))
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=CLOSE_SECONDS)
        self._server = uvicorn.Server(config)
        # Outside the main thread uvicorn installs no signal handlers.
        serve = self._server.run
        self._thread = threading.Thread(target=serve, args=([self._socket],), name="models", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(CLOSE_SECONDS)
        self._socket.close()
