"""A corpus in a folder: shards made in parallel, each whole or not there; run again to go on.

corpus.json                   what was asked for
data/SPLIT-00000.parquet      a Hugging Face dataset; a shard that is there is finished
sharegpt/                     see `sharegpt`
README.md                     so that `datasets.load_dataset(OUT)` finds the shards
"""

import json
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path

from goalreel.datasets.corpora import sharegpt
from goalreel.datasets.corpora.columns import Kind, Row, features, to_columns
from goalreel.datasets.corpora.edits import edit_rows
from goalreel.datasets.corpora.plans import plan_rows
from goalreel.datasets.corpora.verdicts import verdict_rows
from goalreel.datasets.tabletop.splits import seeds
from goalreel.errors import DatasetError
from goalreel.files import atomic, exclusive, sweep, write_bytes

type Make = Callable[[range, int], Iterator[Row]]
"""(seeds, picture size) -> rows."""

_ROW_GROUP = 100
"""Rows: `datasets` may read no less at a time."""
MAKERS: dict[Kind, Make] = {"plans": plan_rows, "edits": edit_rows, "verdicts": verdict_rows}


@dataclass(frozen=True)
class Order:
    """What to make. `first` counts seeds from the split's start; `shard` is episodes a file.

    Raises:
        ValueError: no such kind or split, seeds it does not have, or a size or shard out of range.
    """

    kind: Kind
    split: str
    episodes: int
    size: int = 128
    first: int = 0
    shard: int = 100
    source: str = "simulator"
    """Where the rows come from, such as the editor whose mistakes they show."""

    def __post_init__(self) -> None:
        if self.kind not in MAKERS:
            raise ValueError(f"no kind {self.kind!r}: choose one of {', '.join(MAKERS)}")
        if self.shard < 1 or not 64 <= self.size <= 1024:
            raise ValueError(f"need 64 to 1024 px and 1 episode a shard, got {self.size} and {self.shard}")
        seeds(self.split, self.episodes, self.first)

    @property
    def parts(self) -> list[tuple[str, range]]:
        """Every shard's name and seeds."""
        every = seeds(self.split, self.episodes, self.first)
        starts = range(0, len(every), self.shard)
        return [(f"{self.split}-{i:05d}", every[at : at + self.shard]) for i, at in enumerate(starts)]


def write_corpus(
    order: Order,
    out: Path,
    *,
    workers: int = 1,
    text: bool = True,
    make: Make | None = None,
    progress: Callable[[int], None] = lambda episodes: None,
) -> int:
    """Make what is missing of a corpus; the number of its rows. `text`: write ShareGPT JSON too.

    `make` takes the place of the kind's own maker and runs in this process; name it in `Order.source`.
    `progress` is told the episodes done.

    Raises:
        DatasetError: the folder holds another corpus, another run writes there, or a worker died.
    """
    with exclusive(out / ".lock", out):
        sweep(out)
        _same_order(order, out, text)
        todo = [(name, part) for name, part in order.parts if not _file(out, name).exists()]
        done = order.episodes - sum(len(part) for _, part in todo)
        progress(done)
        for episodes in _work(order, out, todo, workers, text, make):
            done += episodes
            progress(done)
        if text:
            sharegpt.join(out / "sharegpt", order.kind)
        return _finish(order, out)


def _work(
    order: Order,
    out: Path,
    todo: list[tuple[str, range]],
    workers: int,
    text: bool,
    make: Make | None,
) -> Iterator[int]:
    """Make shards; the episodes of each when it is done."""
    if make is not None or workers == 1 or len(todo) < 2:
        for name, part in todo:
            yield _shard(order, out, name, part, text, make)
        return
    context = multiprocessing.get_context("spawn")  # a forked renderer would share its display
    with ProcessPoolExecutor(min(workers, len(todo)), context) as pool:
        jobs = [pool.submit(_shard, order, out, name, part, text, None) for name, part in todo]
        try:
            for job in as_completed(jobs):
                yield job.result()
        except BrokenProcessPool as e:
            raise DatasetError(f"{out}: a worker died: run the same command again to go on") from e
        finally:
            pool.shutdown(cancel_futures=True)


def _shard(order: Order, out: Path, name: str, part: range, text: bool, make: Make | None) -> int:
    """Write one shard, its Parquet file last; how many episodes it took."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = list((make or MAKERS[order.kind])(part, order.size))
    if text:
        sharegpt.write_part(out / "sharegpt", name, rows)
    schema = features(order.kind).arrow_schema  # `datasets` reads its features back from the metadata
    table = pa.Table.from_pylist([to_columns(row) for row in rows], schema)
    with atomic(_file(out, name)) as tmp:
        pq.write_table(table, tmp, row_group_size=_ROW_GROUP)
    return len(part)


def _same_order(order: Order, out: Path, text: bool) -> None:
    told = json.dumps({**asdict(order), "text": text}, indent=1) + "\n"
    path = out / "corpus.json"
    if path.exists() and path.read_text() != told:
        raise DatasetError(f"{out} holds a corpus that was asked for otherwise: choose another --out")
    write_bytes(path, told.encode())


def _finish(order: Order, out: Path) -> int:
    import pyarrow.parquet as pq

    rows = sum(pq.read_metadata(_file(out, name)).num_rows for name, _ in order.parts)
    card = (
        f"---\nconfigs:\n- config_name: {order.kind}\n  data_files:\n  - split: {order.split}\n"
        f"    path: data/{order.split}-*.parquet\n---\n\n"
        f"{rows} rows of {order.episodes} episodes ({order.split} split, first {order.first}, {order.size} "
        f"px), made by `goalreel corpus make` from the {order.source}. `seed` and `done` make a row's scene "
        "again; `held_out` names the compositions in it that training never shows.\n"
    )
    write_bytes(out / "README.md", card.encode())
    return rows


def _file(out: Path, name: str) -> Path:
    return out / "data" / f"{name}.parquet"
