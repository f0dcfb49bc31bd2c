"""A real HTTP server on 127.0.0.1 that speaks as much of the OpenAI chat protocol as a test tells it to."""

import json
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from goalreel.chat.conversation import TokenReply


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


class ChatServer:
    """`answer` makes the reply to each request; what came in is in `requests`, `busiest` at once."""

    def __init__(self, answer: Callable[[Request], Reply]) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.busiest = 0
        self.closing = threading.Event()
        self._busy = 0
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def hang(self, _: Request | None = None) -> Reply:
        self.closing.wait(60)
        return Reply(500)

    def reply(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            self._busy += 1
            self.busiest = max(self.busiest, self._busy)
        try:
            return self.answer(request)
        finally:
            with self._lock:
                self._busy -= 1


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = server.reply(Request(self.path, headers, body))
            try:
                self._send(reply)
            except OSError:
                self.close_connection = True  # the client has given up, as it should

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            blanks = 60 if reply.drip else 0
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body) + blanks))
            self.end_headers()
            for _ in range(blanks):
                self.wfile.write(b" ")
                if server.closing.wait(0.05):
                    return
            self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
