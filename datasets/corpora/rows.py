"""Rows of training corpora: how each kind is stored, what is learned from it, and the folder of a corpus.

Conversations have the columns `messages` and `images`, as `datasets` and TRL know them: an `<image>` in a
content stands for the next picture. Shards are made in parallel, each whole or not there.

corpus.json                   the settings of the corpus
data/SPLIT-00000.parquet      a Hugging Face dataset; a shard that exists is finished
sharegpt/NAME.json            the rows as LLaMA-Factory reads them (messages and images), or by their columns
sharegpt/images/, parts/      pictures, and the rows of each shard
README.md                     so that `datasets.load_dataset(OUT)` finds the shards
"""

import json
import logging
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, fields
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from goalreel.chat.conversation import MARK, Conversation, Message, MessagePart
from goalreel.datasets.parquet import read_metadata, read_table
from goalreel.errors import DatasetError, InputError, first_line
from goalreel.files import atomic, check_file, exclusive, find, read_file, sweep, write_bytes
from goalreel.image import Image
from goalreel.progress import OnCount

if TYPE_CHECKING:
    from datasets import Features

log = logging.getLogger(__name__)

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


def dataclass_kind[R](
    row: type[R], name: str, json_columns: tuple[str, ...], lesson: Callable[[R], Lesson] | None = None
) -> RowKind[R]:
    """Make the kind of row whose columns are the fields of a dataclass."""
    types = get_type_hints(row)
    columns = {field.name: _TYPES[types[field.name]] for field in fields(row)}  # pyrefly: ignore[bad-argument-type]
    return RowKind(name, columns, vars, partial(_made, row), json_columns, lesson)


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
    from datasets import Features, Image as Picture, Value

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
    """List the files of a corpus, in order; raises InputError without any, with `how` one is written."""
    shards = [check_file(path) for path in find(folder / "data", "*.parquet")]
    if not shards:
        raise InputError(f"{folder} holds no corpus: `goalreel corpus {how}` writes one")
    return shards


class StoredRows[R]:
    """Rows of one kind in Parquet files, decoded when they are read; raises InputError for other rows."""

    def __init__(self, kind: RowKind[R], shards: Sequence[Path]) -> None:
        import datasets
        from datasets.exceptions import DatasetGenerationError

        files: list[Any] = [str(shard) for shard in shards]
        try:
            stored: Any = datasets.Dataset.from_parquet(files, columns=list(kind.columns))
            stored = stored.cast(features(kind))
        except (ValueError, pa.ArrowInvalid, DatasetGenerationError) as e:
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


_TAGS = {f"{name}_tag": name for name in ("role", "content", "user", "assistant", "system")}
"""The names of a message's parts, for LLaMA-Factory."""


@dataclass(frozen=True)
class Corpus[R]:
    """A corpus to write: rows of one kind, from numbered episodes, some a shard."""

    kind: RowKind[R]
    split: str
    shards: Mapping[str, range]
    """Name -> its episodes."""
    make: Callable[[range], Iterable[R]]
    """Makes the rows of some episodes. Workers find it by name."""
    request: Mapping[str, Any]
    """The settings in `corpus.json`, by which this corpus is told from others."""
    about: str
    """The card's text after the number of rows."""


def shard_ranges(count: int, size: int = 100) -> dict[str, range]:
    """Name the shards of `count` items in order, `size` to a file; one shard at least."""
    starts = range(0, max(count, 1), size)
    return {f"train-{i:05d}": range(count)[at : at + size] for i, at in enumerate(starts)}


def write_corpus[R](
    corpus: Corpus[R],
    out: Path,
    *,
    workers: int = 1,
    text: bool = True,
    progress: OnCount = lambda done, total: None,
) -> int:
    """Make what is missing of a corpus; returns the number of its rows.

    `text` writes ShareGPT JSON too. `progress` counts episodes.

    Raises:
        DatasetError: the folder holds another corpus, another run writes there, or a worker died.
    """
    with exclusive(out / ".lock", out):
        sweep(out)
        request, path = json.dumps({**corpus.request, "text": text}, indent=1) + "\n", out / "corpus.json"
        if path.exists() and read_file(path).decode() != request:
            raise DatasetError(f"{out} holds a corpus made with other options: choose another --out")
        write_bytes(path, request.encode())
        todo = [name for name in corpus.shards if not _file(out, name).exists()]
        total = sum(map(len, corpus.shards.values()))
        done = total - sum(len(corpus.shards[name]) for name in todo)
        progress(done, total)
        for name in _work(corpus, out, todo, workers, text):
            done += len(corpus.shards[name])
            progress(done, total)
        if text:
            _join_text(out / "sharegpt", corpus.kind)
        return _finish(corpus, out)


def _work(corpus: Corpus[Any], out: Path, todo: list[str], workers: int, text: bool) -> Iterator[str]:
    """Make shards, and yield the name of each when it is done."""
    if workers == 1 or len(todo) < 2:
        for name in todo:
            yield _shard(corpus, out, name, text)
        return
    context = multiprocessing.get_context("spawn")  # a forked renderer would share its display
    with ProcessPoolExecutor(min(workers, len(todo)), context) as pool:
        shards = [pool.submit(_shard, corpus, out, name, text) for name in todo]
        try:
            for shard in as_completed(shards):
                yield shard.result()
        except BrokenProcessPool as e:
            raise DatasetError(f"{out}: a worker died: run the same command again to resume") from e
        finally:
            pool.shutdown(cancel_futures=True)


def _shard[R](corpus: Corpus[R], out: Path, name: str, text: bool) -> str:
    """Write one shard, its Parquet file last; returns its name."""
    rows = list(corpus.make(corpus.shards[name]))
    if text:
        _write_text(out / "sharegpt", name, corpus.kind, rows)
    schema = features(corpus.kind).arrow_schema  # `datasets` reads its features back from the metadata
    table = pa.Table.from_pylist([to_columns(corpus.kind, row) for row in rows], schema)
    with atomic(_file(out, name)) as tmp:
        pq.write_table(table, tmp, row_group_size=100)  # `datasets` may read no less at a time
    return name


def _finish(corpus: Corpus[Any], out: Path) -> int:
    """Write the card; returns the number of rows."""
    rows = sum(read_metadata(_file(out, name)).num_rows for name in corpus.shards)
    summary = f"{rows} rows"
    if SUCCESS in corpus.kind.columns:
        parts = (read_table(_file(out, name), [SUCCESS])[SUCCESS] for name in corpus.shards)
        right = sum(part.to_pylist().count(True) for part in parts)
        summary += f", {right} of them right,"
        if rows and not 0.05 < right / rows < 0.95:
            what = "%s: of %d rows %d are right: a critic trained on this learns to accept everything"
            log.warning(what, out, rows, right)
    card = (
        f"---\nconfigs:\n- config_name: {corpus.kind.name}\n  data_files:\n  - split: {corpus.split}\n"
        f"    path: data/{corpus.split}-*.parquet\n---\n\n{summary} of {corpus.about}\n"
    )
    write_bytes(out / "README.md", card.encode())
    return rows


def _file(out: Path, name: str) -> Path:
    return out / "data" / f"{name}.parquet"


def _write_text[R](folder: Path, name: str, kind: RowKind[R], rows: Sequence[R]) -> None:
    """Write a shard's pictures, then its rows. A picture used by several rows is stored once."""
    pictures: dict[Image, str] = {}
    entries = [_as_json(kind, row, name, pictures) for row in rows]
    (folder / "images" / name).mkdir(parents=True, exist_ok=True)
    for picture, path in pictures.items():
        (folder / path).write_bytes(picture.png())
    write_bytes(folder / "parts" / f"{name}.json", json.dumps(entries, ensure_ascii=False).encode())


def _join_text(folder: Path, kind: RowKind[Any]) -> None:
    """Make one file of all shards, and for conversations their description for LLaMA-Factory."""
    rows = [row for part in find(folder / "parts", "*.json") for row in json.loads(read_file(part))]
    write_bytes(folder / f"{kind.name}.json", json.dumps(rows, ensure_ascii=False, indent=0).encode())
    if kind.lesson is not None:
        about: dict[str, Any] = {"file_name": f"{kind.name}.json", "formatting": "sharegpt"}
        about |= {"columns": {name: name for name in TALK}, "tags": _TAGS}
        text = json.dumps({f"goalreel_{kind.name}": about}, indent=1) + "\n"
        write_bytes(folder / "dataset_info.json", text.encode())


def _as_json[R](kind: RowKind[R], row: R, shard: str, pictures: dict[Image, str]) -> dict[str, Any]:
    """Write the row as JSON; add its pictures to those of the shard."""

    def path(image: Image) -> str:
        return pictures.setdefault(image, f"images/{shard}/{len(pictures):05d}.png")

    entry, values = dict[str, Any](), kind.encode(row)
    told = messages_of(kind.lesson(row)) if kind.lesson and not kind.messages else None
    if kind.messages:
        told = kind.messages(row)
    if told:
        entry = {"messages": told[0], "images": [path(image) for image in told[1]]}
    shown = {name: values[name] for name in kind.json_columns}
    return entry | {name: path(v) if isinstance(v, Image) else v for name, v in shown.items()}
