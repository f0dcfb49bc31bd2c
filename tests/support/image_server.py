"""An image server on the loopback that answers what a test says."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

import numpy as np

from goalreel.image import Image

type Reply = tuple[int, dict | bytes, dict[str, str]]


def picture(width: int, height: int) -> Image:
    """Smooth, so that resizing it there and back changes little; its corners tell the sides apart."""
    across, down = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image(np.stack([across, down, 255 - across], axis=2).astype(np.uint8))


class Server(ThreadingHTTPServer):
    """Answers with `reply(path, fields)`; keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, dict, Message]] = []
        self.reply: Callable[[str, dict], Reply] = lambda path, fields: (404, {}, {})
        self.stored = b""
        """What a GET is answered with."""
        self.busy = self.busiest = 0
        self.connections = 0
        """How many were made."""
        self.lock = threading.Lock()

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Answer in a thread of its own."""
        thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            self.server_close()
            thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.busy += 1
            self.server.busiest = max(self.server.busiest, self.server.busy)
        fields = self._fields(body)
        self.server.requests.append((self.path, fields, self.headers))
        reply = self.server.reply(self.path, fields)
        with self.server.lock:
            self.server.busy -= 1
        self._answer(*reply)

    def do_GET(self) -> None:
        self.server.requests.append((self.path, {}, self.headers))
        self._answer(200, self.server.stored, {})

    def _fields(self, body: bytes) -> dict:
        if self.headers["Content-Type"] == "application/json":
            return json.loads(body)
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        parts = BytesParser().parsebytes(head + body).get_payload()
        fields: dict = {}
        for part in parts:
            name, value = part.get_param("name", header="Content-Disposition"), part.get_payload(decode=True)
            if name.endswith("[]"):
                fields.setdefault(name, []).append(value)
            else:
                fields[name] = value
        return fields

    def _answer(self, status: int, body: dict | bytes, headers: dict[str, str]) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def handle(self) -> None:
        # A client that gives up leaves in the middle of a reply.
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, *args: object) -> None:
        pass
