"""A real HTTP server on 127.0.0.1 that speaks as much of the OpenAI chat protocol as a test tells it to."""

import json
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from goalreel.chat.conversation import TokenReply
from support.stub_server import StubHandler, StubServer


@dataclass
class Reply:
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    drip: bool = False
    """Send a blank every 50 ms before the body, as some servers do to keep a connection open."""


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    json: dict

    @property
    def text(self) -> str:
        """The text of the last turn."""
        content = self.json["messages"][-1]["content"]
        return content if isinstance(content, str) else "".join(p.get("text", "") for p in content)


def said(text: str | None, **more: object) -> Reply:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop", **more}
    return Reply(body=json.dumps({"id": "1", "object": "chat.completion", "choices": [choice]}).encode())


def logprobs(reply: TokenReply) -> dict:
    """The tokens of a reply as the protocol has them, with their bytes as hosted models give them."""

    def one(text: str, chance: float) -> dict:
        return {"token": text, "logprob": math.log(chance), "bytes": list(text.encode())}

    return {
        "content": [
            {
                **one(token.text, token.alternatives[token.text]),
                "top_logprobs": [one(text, chance) for text, chance in token.alternatives.items()],
            }
            for token in reply.tokens
        ]
    }


def error(status: int, message: str, param: str | None = None, **headers: str) -> Reply:
    body = {"error": {"message": message, "type": "error", "param": param, "code": None}}
    return Reply(status, json.dumps(body).encode(), headers)


class ChatServer(StubServer):
    """`answer` makes the reply to each request; what came in is in `requests`."""

    def __init__(self, answer: Callable[[Request], Reply]) -> None:
        super().__init__(ChatHandler)
        self.answer = answer
        self.requests: list[Request] = []
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        super().__exit__()

    def hang(self, _: Request | None = None) -> Reply:
        self.closing.wait(60)
        return Reply(500)


class ChatHandler(StubHandler):
    server: ChatServer

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, json.loads(self.body()))
        self.server.requests.append(request)
        with self.server.call():
            reply = self.server.answer(request)
        headers = {"Content-Type": "application/json", **reply.headers}
        if not reply.drip:
            return self.send(reply.status, reply.body, headers)
        blanks = 60
        self.send(reply.status, b"", {"Content-Length": len(reply.body) + blanks, **headers})
        for _ in range(blanks):
            self.wfile.write(b" ")
            if self.server.closing.wait(0.05):
                return None
        self.wfile.write(reply.body)
