"""Write a corpus into a folder: shards are made in parallel, each whole or not there; run again to resume.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalreel.datasets.corpora.rows import SUCCESS, RowKind, features, messages_of, to_columns
from goalreel.datasets.parquet import read_metadata
from goalreel.errors import DatasetError
from goalreel.files import atomic, exclusive, find, sweep, write_bytes
from goalreel.image import Image
from goalreel.progress import OnCount

log = logging.getLogger(__name__)

_ROW_GROUP = 100
"""Rows: `datasets` may read no less at a time."""
ONE_SIDED = 0.05
"""A share of right rows, or of wrong ones, that is warned of."""
_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "system_tag": "system",
}
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
        _same_corpus(corpus, out, text)
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
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = list(corpus.make(corpus.shards[name]))
    if text:
        _write_text(out / "sharegpt", name, corpus.kind, rows)
    schema = features(corpus.kind).arrow_schema  # `datasets` reads its features back from the metadata
    table = pa.Table.from_pylist([to_columns(corpus.kind, row) for row in rows], schema)
    with atomic(_file(out, name)) as tmp:
        pq.write_table(table, tmp, row_group_size=_ROW_GROUP)
    return name


def _same_corpus(corpus: Corpus[Any], out: Path, text: bool) -> None:
    request = json.dumps({**corpus.request, "text": text}, indent=1) + "\n"
    path = out / "corpus.json"
    if path.exists() and path.read_text() != request:
        raise DatasetError(f"{out} holds a corpus made with other options: choose another --out")
    write_bytes(path, request.encode())


def _finish(corpus: Corpus[Any], out: Path) -> int:

    rows = sum(read_metadata(_file(out, name)).num_rows for name in corpus.shards)
    summary = f"{rows} rows"
    if corpus.kind.judged:
        right = sum(_right(_file(out, name)) for name in corpus.shards)
        summary += f", {right} of them right,"
        if rows and not ONE_SIDED < right / rows < 1 - ONE_SIDED:
            log.warning(
                "%s: of %d rows %d are right: a critic trained on this learns to accept everything",
                out,
                rows,
                right,
            )
    card = (
        f"---\nconfigs:\n- config_name: {corpus.kind.name}\n  data_files:\n  - split: {corpus.split}\n"
        f"    path: data/{corpus.split}-*.parquet\n---\n\n{summary} of {corpus.about}\n"
    )
    write_bytes(out / "README.md", card.encode())
    return rows


def _right(file: Path) -> int:
    import pyarrow.parquet as pq

    return pq.read_table(file, columns=[SUCCESS])[SUCCESS].to_pylist().count(True)


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
    parts = find(folder / "parts", "*.json")
    rows = [row for part in parts for row in json.loads(part.read_text())]
    write_bytes(folder / f"{kind.name}.json", json.dumps(rows, ensure_ascii=False, indent=0).encode())
    if kind.lesson is None:
        return
    columns = {"messages": "messages", "images": "images"}
    about = {"file_name": f"{kind.name}.json", "formatting": "sharegpt", "columns": columns, "tags": _TAGS}
    info = {f"goalreel_{kind.name}": about}
    write_bytes(folder / "dataset_info.json", (json.dumps(info, indent=1) + "\n").encode())


def _as_json[R](kind: RowKind[R], row: R, shard: str, pictures: dict[Image, str]) -> dict[str, Any]:
    """Write the row as JSON; add its pictures to those of the shard."""

    def path(image: Image) -> str:
        return pictures.setdefault(image, f"images/{shard}/{len(pictures):05d}.png")

    entry: dict[str, Any] = {}
    if kind.messages is not None:
        messages, images = kind.messages(row)
        entry = {"messages": messages, "images": [path(image) for image in images]}
    elif kind.lesson is not None:
        messages, images = messages_of(kind.lesson(row))
        entry = {"messages": messages, "images": [path(image) for image in images]}
    values = kind.encode(row)
    shown = {name: values[name] for name in kind.json_columns}
    return entry | {name: path(v) if isinstance(v, Image) else v for name, v in shown.items()}
