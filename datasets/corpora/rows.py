"""Rows of training corpora: how each kind is stored as a Hugging Face dataset, and what is learned from it.

Conversations have the columns `messages` and `images`, as `datasets` and TRL know them: an `<image>` in a
content stands for the next picture.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from goalreel.chat.conversation import MARK, Conversation, Message, MessagePart
from goalreel.errors import DatasetError, InputError, first_line
from goalreel.files import find
from goalreel.image import Image

if TYPE_CHECKING:
    from datasets import Features

type Lesson = tuple[Conversation, str]
"""A conversation, and the reply to learn."""
type Column = str | tuple["Column"] | Mapping[str, "Column"]
"""A type by its name at Hugging Face; `image` is a picture; (type,) is a list of it."""

PICTURE = "image"
SUCCESS = "success"
"""The column with a row's verdict."""
TALK: Mapping[str, Column] = {"messages": ({"role": "string", "content": "string"},), "images": (PICTURE,)}
"""The columns of a lesson."""
_TYPES = {str: "string", str | None: "string", int: "int32", float: "float32", bool: "bool", Image: PICTURE}


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
        """True if rows are verdicts."""
        return SUCCESS in self.columns


def dataclass_kind[R](
    row: type[R], name: str, json_columns: tuple[str, ...], lesson: Callable[[R], Lesson] | None = None
) -> RowKind[R]:
    """Make the kind of row whose columns are the fields of a dataclass."""
    types = get_type_hints(row)
    columns = {field.name: _TYPES[types[field.name]] for field in fields(row)}  # pyrefly: ignore[bad-argument-type]
    return RowKind(name, columns, _fields_of, partial(_made, row), json_columns, lesson)


def _fields_of(row: Any) -> dict[str, Any]:
    return dict(vars(row))


def _made[R](row: type[R], values: Mapping[str, Any]) -> R:
    return row(**values)


@dataclass(frozen=True)
class TalkRow:
    """A conversation about one storyboard."""

    task_id: str
    done: int
    """Steps done before it is asked."""
    lesson: Lesson


def talks(name: str) -> RowKind[TalkRow]:
    """Make the kind of row called `name` that holds conversations."""
    columns: dict[str, Column] = {"task_id": "string", "done": "int32", **TALK}
    return RowKind(name, columns, _encode, _decode, ("task_id", "done"), attrgetter("lesson"))


def _encode(row: TalkRow) -> dict[str, Any]:
    return {"task_id": row.task_id, "done": row.done, **encode_lesson(row.lesson)}


def _decode(values: Mapping[str, Any]) -> TalkRow:
    return TalkRow(values["task_id"], values["done"], decode_lesson(values))


def encode_lesson(lesson: Lesson) -> dict[str, Any]:
    """Write a lesson as the columns TALK."""
    messages, images = messages_of(lesson)
    return {"messages": messages, "images": images}


def decode_lesson(values: Mapping[str, Any]) -> Lesson:
    """Read the lesson that `encode_lesson` wrote."""
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


def messages_of(lesson: Lesson) -> tuple[list[dict[str, str]], list[Image]]:
    """List the messages with a mark in the place of each image, and the images in order."""
    conversation, reply = lesson
    images = [p for message in conversation for p in message.parts if isinstance(p, Image)]
    messages = [
        {"role": m.role, "content": "".join(MARK if isinstance(p, Image) else p for p in m.parts)}
        for m in conversation
    ]
    return [*messages, {"role": "assistant", "content": reply}], images


def features(kind: RowKind[Any]) -> "Features":
    """Describe the columns of a kind of row to Hugging Face."""
    from datasets import Features, Value
    from datasets import Image as Picture

    def feature(column: Column) -> object:
        if isinstance(column, str):
            return Picture() if column == PICTURE else Value(column)
        if isinstance(column, tuple):
            return [feature(column[0])]
        return {name: feature(each) for name, each in column.items()}

    return Features({name: feature(column) for name, column in kind.columns.items()})


def to_columns[R](kind: RowKind[R], row: R) -> dict[str, Any]:
    """Write a row as plain values; pictures as PNG bytes in the form that `datasets` stores."""
    return {name: _stored(value) for name, value in kind.encode(row).items()}


def _stored(value: Any) -> Any:
    if isinstance(value, Image):
        return {"bytes": value.png(), "path": None}
    return [_stored(each) for each in value] if isinstance(value, list | tuple) else value


def from_columns[R](kind: RowKind[R], values: Mapping[str, Any]) -> R:
    """Read the row that `to_columns` wrote."""
    return kind.decode({name: _loaded(column, values[name]) for name, column in kind.columns.items()})


def _loaded(column: Column, value: Any) -> Any:
    if column == PICTURE:
        return Image.decode(value["bytes"])
    return [_loaded(PICTURE, each) for each in value] if column == (PICTURE,) else value


def shards_of(folder: Path, how: str) -> list[Path]:
    """List the files of a corpus, in order; `how` says which command writes one.

    Raises:
        InputError: there are none.
    """
    shards = find(folder / "data", "*.parquet")
    if not shards:
        raise InputError(f"{folder} holds no corpus: `goalreel corpus {how}` writes one")
    return shards


def read_rows[R](folder: Path, kind: RowKind[R]) -> Iterator[R]:
    """Read the rows of a corpus that `goalreel corpus make` wrote, in order; those finished before a kill.

    Raises:
        InputError: there are none.
        DatasetError: they are of another kind.
    """
    import pyarrow.parquet as pq

    for shard in shards_of(folder, f"make --kind {kind.name}"):
        file = pq.ParquetFile(shard)
        if missing := kind.columns.keys() - set(file.schema_arrow.names):
            raise DatasetError(f"{shard} has no {', '.join(sorted(missing))}: make the corpus again")
        for batch in file.iter_batches(batch_size=64):
            yield from (from_columns(kind, values) for values in batch.to_pylist())


class StoredRows[R]:
    """Rows of one kind in Parquet files, by number; a row's pictures are decoded when it is read.

    Raises:
        InputError: they hold no rows of that kind.
    """

    def __init__(self, kind: RowKind[R], shards: Sequence[Path]) -> None:
        import datasets
        import pyarrow
        from datasets.exceptions import DatasetGenerationError

        files: list[Any] = [str(shard) for shard in shards]
        try:
            stored: Any = datasets.Dataset.from_parquet(files, columns=list(kind.columns))
            stored = stored.cast(features(kind))
        except (ValueError, pyarrow.ArrowInvalid, DatasetGenerationError) as e:
            reason = first_line(e.__cause__ or e)[:200]
            raise InputError(f"{files[0]} and others hold no {kind.name}: {reason}") from e
        for name, column in kind.columns.items():
            if column == PICTURE:
                stored = stored.cast_column(name, datasets.Image(decode=False))
        self._kind, self._stored = kind, stored

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, number: int) -> R:
        return from_columns(self._kind, self._stored[number])

    def column(self, name: str) -> list[Any]:
        """Read one column of all rows."""
        return list(self._stored[name])
