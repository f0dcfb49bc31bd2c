"""The interface of a kind of row: its columns, encoding and decoding, and what is learned from it.

Convert rows to columns of a Hugging Face dataset, and back; pictures are PNG.

Whole conversations as rows: the request with its pictures, and the reply to learn.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalreel.chat.conversation import Conversation, Message, MessagePart
from goalreel.chat.interleave import MARK
from goalreel.errors import DatasetError
from goalreel.image import Image

if TYPE_CHECKING:
    from datasets import Features


type Lesson = tuple[Conversation, str]
"""What is asked, and the reply to learn."""
type Column = str | tuple["Column"] | Mapping[str, "Column"]
"""A type by its name at Hugging Face; `image` is a picture; (type,) is a list of it."""

PICTURE = "image"
SUCCESS = "success"
"""The column of a kind of verdicts that says which they are."""


@dataclass(frozen=True)
class RowKind[R]:
    """One kind of row, `R`. Its functions stand at the top of a module: workers find them by name."""

    name: str
    columns: Mapping[str, Column]
    encode: Callable[[R], dict[str, Any]]
    """A row as the value of every column, a picture as an `Image`."""
    decode: Callable[[Mapping[str, Any]], R]
    """The row that `encode` made the values from."""
    json_columns: tuple[str, ...]
    """The columns that ShareGPT JSON keeps, a picture as its path."""
    lesson: Callable[[R], Lesson] | None = None
    """The conversation that is learned from a row; None for rows that are no conversation."""
    messages: Callable[[R], tuple[list[dict[str, str]], list[Image]]] | None = None
    """The turns of a row that has pictures in a reply too, and all pictures in order."""

    @property
    def judged(self) -> bool:
        """Whether a row is a verdict."""
        return SUCCESS in self.columns

    @property
    def pictures(self) -> tuple[str, ...]:
        """The columns that hold a picture."""
        return tuple(name for name, column in self.columns.items() if column == PICTURE)

    @property
    def picture_lists(self) -> tuple[str, ...]:
        """The columns that hold a list of pictures."""
        return tuple(name for name, column in self.columns.items() if column == (PICTURE,))


def features(kind: RowKind[Any]) -> "Features":
    """The columns of a kind of row, as Hugging Face describes them."""
    from datasets import Features

    return Features({name: _feature(column) for name, column in kind.columns.items()})


def _feature(column: Column) -> object:
    from datasets import Image as Picture
    from datasets import Value

    if isinstance(column, str):
        return Picture() if column == PICTURE else Value(column)
    if isinstance(column, tuple):
        return [_feature(column[0])]
    return {name: _feature(each) for name, each in column.items()}


def to_columns[R](kind: RowKind[R], row: R) -> dict[str, Any]:
    """The row as plain values; pictures as PNG bytes in the form that `datasets` stores."""
    values = kind.encode(row)
    lists = {name: [_stored(image) for image in values[name]] for name in kind.picture_lists}
    return values | {name: _stored(values[name]) for name in kind.pictures} | lists


def _stored(image: Image) -> dict[str, Any]:
    return {"bytes": image.png(), "path": None}


def from_columns[R](kind: RowKind[R], values: Mapping[str, Any]) -> R:
    """The row that `to_columns` made the values from."""
    pictures = {name: Image.decode(values[name]["bytes"]) for name in kind.pictures}
    lists = {name: [Image.decode(v["bytes"]) for v in values[name]] for name in kind.picture_lists}
    return kind.decode({**values, **pictures, **lists})


def read_rows[R](folder: Path, kind: RowKind[R]) -> Iterator[R]:
    """Read the rows of a corpus that `goalreel corpus make` wrote, in order; those finished before a kill.

    Raises:
        DatasetError: there are none, or an older goalreel wrote them.
    """
    import pyarrow.parquet as pq

    shards = sorted((folder / "data").glob("[!.]*.parquet"))  # what a killed run left half-written has a dot
    if not shards:
        raise DatasetError(f"{folder} holds no corpus: `goalreel corpus make --kind {kind.name}` writes one")
    for shard in shards:
        file = pq.ParquetFile(shard)
        if missing := kind.columns.keys() - set(file.schema_arrow.names):
            columns = ", ".join(sorted(missing))
            raise DatasetError(f"{shard} has no {columns}: an older goalreel made it; make the corpus again")
        for batch in file.iter_batches(batch_size=64):
            yield from (from_columns(kind, values) for values in batch.to_pylist())


@dataclass(frozen=True)
class TalkRow:
    """A conversation about one storyboard."""

    task_id: str
    done: int
    """Steps behind us where it is asked."""
    lesson: Lesson


TALK: Mapping[str, Column] = {"messages": ({"role": "string", "content": "string"},), "images": (PICTURE,)}
"""The columns of a lesson, as `datasets` and TRL know them: an `<image>` in a content is the next picture."""


def messages_of(lesson: Lesson) -> tuple[list[dict[str, str]], list[Image]]:
    """The messages with a mark in the place of each image, and the images in order."""
    conversation, reply = lesson
    images = [p for message in conversation for p in message.parts if isinstance(p, Image)]
    messages = [
        {"role": m.role, "content": "".join(MARK if isinstance(p, Image) else p for p in m.parts)}
        for m in conversation
    ]
    return [*messages, {"role": "assistant", "content": reply}], images


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
