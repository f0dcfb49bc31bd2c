"""A stand-in for a vision-language model that goalreel's watch and lerobot-annotate ask alike, over HTTP.

Its replies are well formed, take `delay_s`, and say nothing about any picture. On request a share of them is
garbage or HTTP 500, drawn from the conversation, so that a repeated question is drawn anew.
"""

import base64
import hashlib
import json
import re
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

sys.path.append(str(Path(__file__).parents[1]))
from common import JsonServer, chat_completion

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
"""A phrase of a prompt of lerobot 0.6.1 -> the answer to it."""


def answer(text: str) -> tuple[str, str]:
    """Tell the kind of question in a conversation, and the reply to it."""
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
    contacts = [(int(frame), _NAMES[cue]) for frame, cue in _CONTACT.findall(text)]
    spans = [
        {"start": a, "end": b, "name": name, "state": f"{name} is done", "outcome": "done", "agrees": True}
        for (a, _), (b, name) in pairwise([(start, ""), *contacts, (end, "move away")])
    ]
    return f"<think>felt</think><answer>{json.dumps({'segments': spans})}</answer>"


def _segment(text: str) -> str:
    span = re.search(r"\[0\.0, ([0-9.]+)\] seconds", text)
    seconds = float(span[1]) if span else 1.0
    cuts = [0.0, 0.4 * seconds, 0.8 * seconds, seconds]
    names = ["pick up the object", "put the object at its goal", "move away"]
    spans = [{"text": n, "start": a, "end": b} for n, (a, b) in zip(names, pairwise(cuts), strict=True)]
    return json.dumps({"subtasks": spans})


@dataclass
class Requests:
    """What one client has requested so far."""

    calls: Counter[str] = field(default_factory=Counter)
    characters: int = 0
    pictures: int = 0
    picture_bytes: int = 0
    garbage: int = 0
    errors: int = 0


class StandIn:
    """The server, on a port of its own; `requests` counts since the last `reset`."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._gate = threading.Semaphore(AT_ONCE)
        self._lock = threading.Lock()
        self.reset()
        self._server = JsonServer(self._reply)

    def reset(self, garbage: float = 0.0, errors: float = 0.0) -> None:
        """Count from zero; these shares of the replies are garbage, or HTTP 500, from now on."""
        self.requests = Requests()
        self._garbage, self._errors = garbage, errors
        self._times: Counter[str] = Counter()

    @property
    def url(self) -> str:
        """Give the base URL of the API."""
        return f"{self._server.url}/v1"

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()

    def _reply(self, path: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        text, pictures = _read(request["messages"])
        kind, content = answer(text)
        with self._lock:
            self._times[text] += 1
            fault = self._fault(f"{text}{self._times[text]}")
            self.requests.calls[kind] += 1
            self.requests.characters += len(text)
            self.requests.pictures += len(pictures)
            self.requests.picture_bytes += sum(pictures)
            self.requests.errors += fault == "error"
            self.requests.garbage += fault == "garbage"
        with self._gate:
            time.sleep(self._delay_s)
        if fault == "error":
            return 500, {"error": {"message": "internal"}}
        return 200, chat_completion("I am sorry, here { is [" if fault == "garbage" else content)

    def _fault(self, text: str) -> str | None:
        share = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 2**32
        if share < self._errors:
            return "error"
        return "garbage" if share < self._errors + self._garbage else None


def _read(messages: list[dict[str, Any]]) -> tuple[str, list[int]]:
    """Join all text, and list the size of each picture in bytes."""
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
