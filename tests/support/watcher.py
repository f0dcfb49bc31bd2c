"""A chat model that watches by a script: it cuts where the sensors felt a contact. It looks at no picture."""

import json
import re
from itertools import pairwise

from support.chat_server import Reply, Request, said

_CONTACT = re.compile(r"frame (\d+) \([\d.]+ s\): the gripper (has closed|opens)")
_SPAN = re.compile(r"the first starts at (\d+), the last ends at (\d+)")
NAMES = {"has closed": "reach and grasp", "opens": "carry and let go"}


def text_of(request: Request) -> str:
    """All text of a conversation."""
    contents = [message["content"] for message in request.json["messages"]]
    parts = [part for c in contents for part in ([{"text": c}] if isinstance(c, str) else c)]
    return "\n".join(part.get("text", "") for part in parts)


def segments(text: str, **more: object) -> str:
    """A reply of segments from one contact to the next; `more` goes into each."""
    start, end = map(int, _SPAN.findall(text)[-1])
    found = [(int(frame), NAMES[cue]) for frame, cue in _CONTACT.findall(text)]
    cuts = [(start, ""), *found, (end, "move away")]
    rest = {"outcome": "done", "agrees": True, **more}
    spans = [
        {"start": a, "end": b, "name": name, "state": f"{name} is done", **rest}
        for (a, _), (b, name) in pairwise(cuts)
    ]
    return f"<think>felt</think><answer>{json.dumps({'segments': spans})}</answer>"


def watch(request: Request) -> Reply:
    """Answer a watching planner by `segments`, and accept whatever a critic shows."""
    text = text_of(request)
    if "You watch a recorded robot episode" in text:
        return said(segments(text))
    return said(
        '{"holds": "yes", "reason": "seen"}' if "holds" in text else '{"previous_step_success": true}'
    )
