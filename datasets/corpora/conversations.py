"""Whole conversations as rows: the request with its pictures, and the reply to learn."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from goalreel.chat.conversation import Message, MessagePart
from goalreel.chat.interleave import MARK
from goalreel.datasets.corpora.kind import PICTURE, Column, Lesson, RowKind
from goalreel.datasets.corpora.sharegpt import messages_of
from goalreel.image import Image


@dataclass(frozen=True)
class TalkRow:
    """A conversation about one storyboard."""

    task_id: str
    done: int
    """Steps behind us where it is asked."""
    lesson: Lesson


TALK: Mapping[str, Column] = {"messages": ({"role": "string", "content": "string"},), "images": (PICTURE,)}
"""The columns of a lesson, as `datasets` and TRL know them: an `<image>` in a content is the next picture."""


def encode_lesson(lesson: Lesson) -> dict[str, Any]:
    """A lesson as the columns TALK."""
    messages, images = messages_of(lesson)
    return {"messages": messages, "images": images}


def decode_lesson(values: Mapping[str, Any]) -> Lesson:
    """The lesson that `encode_lesson` made the values from."""
    images, (*request, reply) = iter(values["images"]), values["messages"]
    messages = (Message(m["role"], tuple(_parts(m["content"], images))) for m in request)
    return tuple(messages), reply["content"]


def _parts(text: str, images: Iterator[Image]) -> Iterator[MessagePart]:
    first, *others = text.split(MARK)
    if first:
        yield first
    for following in others:
        yield next(images)
        if following:
            yield following


def talks(name: str) -> RowKind[TalkRow]:
    """The kind of row called `name` that holds conversations."""
    return RowKind(
        name=name,
        columns={"task_id": "string", "done": "int32", **TALK},
        encode=_encode,
        decode=_decode,
        json_columns=("task_id", "done"),
        lesson=attrgetter("lesson"),
    )


def said_in_short(names: Sequence[str], done: int) -> str:
    """Write the reasoning of a plan whose record has none: the steps done, and those that remain."""
    steps = "1 step remains" if len(names) == 1 else f"{len(names)} steps remain"
    return f"{f'{done} done, ' if done else ''}{steps}: {'; '.join(names)}."


def _encode(row: TalkRow) -> dict[str, Any]:
    return {"task_id": row.task_id, "done": row.done, **encode_lesson(row.lesson)}


def _decode(values: Mapping[str, Any]) -> TalkRow:
    return TalkRow(values["task_id"], values["done"], decode_lesson(values))
