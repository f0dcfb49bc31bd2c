"""Write ShareGPT rows (messages and images) as LLaMA-Factory reads them; other rows by their columns.

Pictures go to `images/`, the rows of each shard to `parts/`. `join` makes one file and `dataset_info.json`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from goalreel.chat.interleave import MARK
from goalreel.datasets.corpora.kind import Lesson, RowKind
from goalreel.files import write_bytes
from goalreel.image import Image

_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "system_tag": "system",
}


def write_part[R](folder: Path, name: str, kind: RowKind[R], rows: Sequence[R]) -> None:
    """Write a shard's pictures, then its rows. A picture used by several rows is stored once."""
    pictures: dict[Image, str] = {}
    entries = [_as_json(kind, row, name, pictures) for row in rows]
    (folder / "images" / name).mkdir(parents=True, exist_ok=True)
    for picture, path in pictures.items():
        (folder / path).write_bytes(picture.png())
    write_bytes(folder / "parts" / f"{name}.json", json.dumps(entries, ensure_ascii=False).encode())


def join(folder: Path, kind: RowKind[Any]) -> None:
    """Make one file of all shards, and for conversations what LLaMA-Factory has to know of it."""
    parts = sorted((folder / "parts").glob("*.json"))
    rows = [row for part in parts for row in json.loads(part.read_text())]
    write_bytes(folder / f"{kind.name}.json", json.dumps(rows, ensure_ascii=False, indent=0).encode())
    if kind.lesson is None:
        return
    columns = {"messages": "messages", "images": "images"}
    about = {"file_name": f"{kind.name}.json", "formatting": "sharegpt", "columns": columns, "tags": _TAGS}
    info = {f"goalreel_{kind.name}": about}
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


def _as_json[R](kind: RowKind[R], row: R, shard: str, pictures: dict[Image, str]) -> dict[str, Any]:
    """The row as JSON holds it; adds its pictures to those of the shard."""

    def path(image: Image) -> str:
        return pictures.setdefault(image, f"images/{shard}/{len(pictures):05d}.png")

    values = kind.encode(row)
    entry: dict[str, Any] = {}
    if kind.messages is not None:
        messages, images = kind.messages(row)
        entry = {"messages": messages, "images": [path(image) for image in images]}
    elif kind.lesson is not None:
        messages, images = messages_of(kind.lesson(row))
        entry = {"messages": messages, "images": [path(image) for image in images]}
    for name in kind.json_columns:
        entry[name] = path(values[name]) if name in kind.pictures else values[name]
    return entry
