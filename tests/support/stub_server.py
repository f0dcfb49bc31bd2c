"""An HTTP server on the loopback that answers what a test says."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class StubServer(ThreadingHTTPServer):
    """Answers within `with`, in a thread of its own."""

    daemon_threads = True

    def __init__(self, handler: type["StubHandler"]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.lock = threading.Lock()
        self.busy = self.busiest = 0
        """Calls that are being answered, now and at most."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call while it is answered."""
        with self.lock:
            self.busy += 1
            self.busiest = max(self.busiest, self.busy)
        try:
            yield
        finally:
            with self.lock:
                self.busy -= 1


class StubHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def send(self, status: int, body: bytes, headers: Mapping[str, object] = {}) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle(self) -> None:
        # A client that gives up leaves in the middle of a reply.
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, *_: object) -> None:
        pass
