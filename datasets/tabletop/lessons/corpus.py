"""`goalreel corpus make`: a corpus of one kind, from the episodes of a split."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from goalreel.datasets.corpora.kind import RowKind
from goalreel.datasets.corpora.write import Corpus, write_corpus
from goalreel.datasets.tabletop.lessons.edits import edit_rows
from goalreel.datasets.tabletop.lessons.kinds import EDITS, PLANS, VERDICTS
from goalreel.datasets.tabletop.lessons.plans import plan_rows
from goalreel.datasets.tabletop.lessons.rows import EditRow, PlanRow, VerdictRow
from goalreel.datasets.tabletop.lessons.verdicts import verdict_rows
from goalreel.datasets.tabletop.splits import Split, seeds
from goalreel.errors import InputError
from goalreel.progress import OnCount

type CorpusKind = Literal["plans", "edits", "verdicts"]
type Maker = Callable[[range, int], Iterator[PlanRow | EditRow | VerdictRow]]
"""(seeds, picture size) -> rows."""

LESSONS: Mapping[CorpusKind, tuple[RowKind[Any], Maker]] = {
    "plans": (PLANS, plan_rows),
    "edits": (EDITS, edit_rows),
    "verdicts": (VERDICTS, verdict_rows),
}
"""Kind of corpus -> how its rows are stored, and what makes them."""


@dataclass(frozen=True)
class CorpusOrder:
    """What to make. `first` counts seeds from the split's start; `shard` is episodes a file.

    Raises:
        InputError: no such kind or split, seeds it does not have, or a size or shard out of range.
    """

    kind: CorpusKind
    split: Split
    episodes: int
    size: int = 128
    first: int = 0
    shard: int = 100
    source: str = "simulator"
    """Where the rows come from, such as the editor whose mistakes they show."""

    def __post_init__(self) -> None:
        if self.kind not in LESSONS:
            raise InputError(f"no kind {self.kind!r}: choose one of {', '.join(LESSONS)}")
        if self.shard < 1 or not 64 <= self.size <= 1024:
            raise InputError(f"need 64 to 1024 px and 1 episode a shard, got {self.size} and {self.shard}")
        seeds(self.split, self.episodes, self.first)

    @property
    def shards(self) -> dict[str, range]:
        """Every shard's name and seeds."""
        every = seeds(self.split, self.episodes, self.first)
        starts = range(0, len(every), self.shard)
        return {f"{self.split}-{i:05d}": every[at : at + self.shard] for i, at in enumerate(starts)}


def make_corpus(
    order: CorpusOrder,
    out: Path,
    *,
    workers: int = 1,
    text: bool = True,
    make: Maker | None = None,
    progress: OnCount = lambda done, total: None,
) -> int:
    """Make what is missing of a corpus; returns the number of its rows.

    `make` takes the place of the kind's own maker and runs in this process; name it in `order.source`.

    Raises:
        DatasetError: see `write_corpus`.
    """
    kind, own = LESSONS[order.kind]
    corpus = Corpus(
        kind=kind,
        split=order.split,
        shards=order.shards,
        make=partial(_rows, make or own, order.size),
        asked=asdict(order),
        about=_about(order),
    )
    return write_corpus(corpus, out, workers=1 if make else workers, text=text, progress=progress)


def _about(order: CorpusOrder) -> str:
    return (
        f"{order.episodes} episodes ({order.split} split, first {order.first}, {order.size} px), made by "
        f"`goalreel corpus make` from the {order.source}. `seed` and `done` make a row's scene again; "
        "`held_out` names the compositions in it that training never shows."
    )


def _rows(make: Maker, size: int, part: range) -> Iterator[PlanRow | EditRow | VerdictRow]:
    return make(part, size)
