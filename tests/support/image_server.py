"""An image server on the loopback that answers what a test says."""

import json
from collections.abc import Callable
from email.message import Message
from email.parser import BytesParser

import numpy as np

from goalreel.image import Image
from support.stub_server import StubHandler, StubServer

type Reply = tuple[int, dict | bytes, dict[str, str]]


def picture(width: int, height: int) -> Image:
    """Smooth, so that resizing it there and back changes little; its corners tell the sides apart."""
    across, down = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image(np.stack([across, down, 255 - across], axis=2).astype(np.uint8))


class Server(StubServer):
    """Answers with `reply(path, fields)`; keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.requests: list[tuple[str, dict, Message]] = []
        self.reply: Callable[[str, dict], Reply] = lambda path, fields: (404, {}, {})


class Handler(StubHandler):
    server: Server

    def do_POST(self) -> None:
        with self.server.call():
            fields = self._fields(self.body())
            self.server.requests.append((self.path, fields, self.headers))
            status, body, headers = self.server.reply(self.path, fields)
        self.send(status, body if isinstance(body, bytes) else json.dumps(body).encode(), headers)

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
