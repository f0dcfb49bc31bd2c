"""Shards of ShareGPT rows, messages and images, as LLaMA-Factory reads them; for edits source and target.

Pictures go to `images/`, each shard's rows to `parts/`; `join` makes one file and `dataset_info.json`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from goalreel.datasets.corpora.columns import Kind, Row
from goalreel.datasets.corpora.lessons import Lesson, plan_lesson, verdict_lesson
from goalreel.datasets.corpora.rows import EditRow, PlanRow
from goalreel.files import write_bytes
from goalreel.image import Image
from goalreel.planners.interleave import MARK

_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "system_tag": "system",
}


def write_part(folder: Path, name: str, rows: Sequence[Row]) -> None:
    """Write a shard's pictures, then its rows. A picture used by several rows is stored once."""
    pictures: dict[Image, str] = {}
    told = [_told(row, name, pictures) for row in rows]
    (folder / "images" / name).mkdir(parents=True, exist_ok=True)
    for picture, path in pictures.items():
        (folder / path).write_bytes(picture.png())
    write_bytes(folder / "parts" / f"{name}.json", json.dumps(told, ensure_ascii=False).encode())


def join(folder: Path, kind: Kind) -> None:
    """One file of all shards, and what LLaMA-Factory has to know of it."""
    parts = sorted((folder / "parts").glob("*.json"))
    rows = [row for part in parts for row in json.loads(part.read_text())]
    write_bytes(folder / f"{kind}.json", json.dumps(rows, ensure_ascii=False, indent=0).encode())
    if kind == "edits":
        return
    columns = {"messages": "messages", "images": "images"}
    about = {"file_name": f"{kind}.json", "formatting": "sharegpt", "columns": columns, "tags": _TAGS}
    info = {f"goalreel_{kind}": about}
    write_bytes(folder / "dataset_info.json", (json.dumps(info, indent=1) + "\n").encode())


def messages_of(lesson: Lesson) -> tuple[list[dict[str, str]], list[Image]]:
    """The messages with a mark in the place of each image, and the images in order."""
    conversation, reply = lesson
    images = [p for message in conversation for p in message.parts if isinstance(p, Image)]
    messages = [
        {"role": m.role, "content": "".join(MARK if isinstance(p, Image) else p for p in m.parts)}
        for m in conversation
    ]
    return [*messages, {"role": "assistant", "content": reply}], images


def _told(row: Row, shard: str, pictures: dict[Image, str]) -> dict[str, Any]:
    def path(image: Image) -> str:
        return pictures.setdefault(image, f"images/{shard}/{len(pictures):05d}.png")

    origin = {"seed": row.origin.seed, "done": row.origin.done, "held_out": row.origin.held_out}
    if isinstance(row, EditRow):
        pair = {"source": path(row.source), "target": path(row.target)}
        return {**pair, "prompt": row.prompt, "register": row.register, **origin}
    messages, images = messages_of(plan_lesson(row) if isinstance(row, PlanRow) else verdict_lesson(row))
    return {"messages": messages, "images": [path(image) for image in images], **origin}
