"""A stand-in for a vision-language model that goalreel's watch and lerobot-annotate ask alike, over HTTP.

Its replies are well formed, take `delay_s`, and say nothing about any picture: a share of them is garbage or
HTTP 500 where told, drawn from the conversation, so that a repeat is drawn anew.
"""

import base64
import hashlib
import json
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any, Self

AT_ONCE = 16
_CONTACT = re.compile(r"frame (\d+) \([\d.]+ s\): the gripper (has closed|opens)")
_SPAN = re.compile(r"the first starts at (\d+), the last ends at (\d+)")
_NAMES = {"has closed": "reach and grasp", "opens": "carry and let go"}
_ACCEPTED = '<answer>{"previous_step_success": true, "holds": "yes", "reason": "seen"}</answer>'
_VQA: dict[str, Any] = {
    "bbox": {"detections": [{"label": "block", "bbox_format": "xyxy", "bbox": [10, 10, 20, 20]}]},
    "keypoint": {"label": "block", "point_format": "xy", "point": [10, 10]},
    "count": {"label": "block", "count": 1},
    "attribute": {"label": "block", "attribute": "color", "value": "red"},
    "spatial": {"subject": "block", "relation": "on", "object": "table"},
}
_LEROBOT: dict[str, dict[str, Any]] = {
    "OBSERVATION pass": {"description": "The gripper closes, something is moved, the gripper opens."},
    "alternative phrasings": {"rephrasings": [f"phrasing {i}" for i in range(10)]},
    "compressed semantic memory": {"memory": "I picked up the object."},
    "the robot would speak back": {"text": "Got it."},
    "interjection": {"interjection": "Now do the next thing.", "speech": "OK."},
    "describe in ONE concise sentence": {"task": "move the object to its place"},
}
"""A phrase of a prompt of lerobot 0.6.1 -> what it asks for."""


def answer(text: str) -> tuple[str, str]:
    """What is asked in a conversation, in a word, and the reply."""
    if "You watch a recorded robot episode" in text:
        return "watch", _watch(text)
    if "Reconstruct the sequence" in text:
        return "segment", _segment(text)
    if kind := re.search(r'question of type "(\w+)"', text):
        return "vqa", json.dumps({"question": "Where is it?", "answer": _VQA[kind[1]]})
    for phrase, reply in _LEROBOT.items():
        if phrase in text:
            return next(iter(reply)), json.dumps(reply)
    return "judge", _ACCEPTED


def _watch(text: str) -> str:
    start, end = map(int, _SPAN.findall(text)[-1])
    found = [(int(frame), _NAMES[cue]) for frame, cue in _CONTACT.findall(text)]
    spans = [
        {"start": a, "end": b, "name": name, "state": f"{name} is done"}
        for (a, _), (b, name) in pairwise([(start, ""), *found, (end, "move away")])
    ]
    return f"<think>felt</think><answer>{json.dumps({'segments': spans})}</answer>"


def _segment(text: str) -> str:
    found = re.search(r"\[0\.0, ([0-9.]+)\] seconds", text)
    seconds = float(found[1]) if found else 1.0
    cuts = [0.0, 0.4 * seconds, 0.8 * seconds, seconds]
    names = ["pick up the object", "put the object at its goal", "move away"]
    spans = [{"text": n, "start": a, "end": b} for n, (a, b) in zip(names, pairwise(cuts), strict=True)]
    return json.dumps({"subtasks": spans})


@dataclass
class Asked:
    """What one client has asked so far."""

    calls: Counter[str] = field(default_factory=Counter)
    characters: int = 0
    pictures: int = 0
    picture_bytes: int = 0
    garbage: int = 0
    errors: int = 0


class StandIn:
    """The server, on a port of its own; `asked` counts since the last `begin`."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._gate = threading.Semaphore(AT_ONCE)
        self._lock = threading.Lock()
        self.begin()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True

    def begin(self, garbage: float = 0.0, errors: float = 0.0) -> None:
        """Count from zero; these shares of the replies are garbage, or HTTP 500, from now on."""
        self.asked = Asked()
        self._garbage, self._errors = garbage, errors
        self._times: Counter[str] = Counter()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def reply(self, messages: list[dict[str, Any]]) -> tuple[int, str]:
        """The status and the text for a conversation, after the delay."""
        text, pictures = _read(messages)
        kind, said = answer(text)
        with self._lock:
            self._times[text] += 1
            drawn = _share(f"{text}{self._times[text]}")
            wrong = "errors" if drawn < self._errors else ""
            wrong = wrong or ("garbage" if drawn < self._errors + self._garbage else "")
            self.asked.calls[kind] += 1
            self.asked.characters += len(text)
            self.asked.pictures += len(pictures)
            self.asked.picture_bytes += sum(pictures)
            self.asked.errors += wrong == "errors"
            self.asked.garbage += wrong == "garbage"
        with self._gate:
            time.sleep(self._delay_s)
        return (500, "") if wrong == "errors" else (200, "I am sorry, here { is [" if wrong else said)


def _read(messages: list[dict[str, Any]]) -> tuple[str, list[int]]:
    """All text, and the size of each picture in bytes."""
    texts: list[str] = []
    pictures: list[int] = []
    for message in messages:
        content: Any = message["content"]
        parts: list[dict[str, Any]] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else content
        )
        for part in parts:
            if part["type"] == "text":
                texts.append(part["text"])
            else:
                pictures.append(len(base64.b64decode(part["image_url"]["url"].partition(",")[2])))
    return "\n".join(texts), pictures


def _share(text: str) -> float:
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 2**32


def _handler(server: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200, {"object": "list", "data": [{"id": "stand-in", "object": "model"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, text = server.reply(body["messages"])
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            fine = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
            self._send(status, fine if status == 200 else {"error": {"message": "internal"}})

        def _send(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
