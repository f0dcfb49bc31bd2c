"""`goalreel corpus make`: a corpus of one kind, from the episodes of a split."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from goalreel.datasets.corpora.critic_rows import CRITIQUES, CritiqueRow
from goalreel.datasets.corpora.rows import Corpus, RowKind, write_corpus
from goalreel.errors import InputError
from goalreel.progress import OnCount
from goalreel.tabletop.splits import Split, seeds
from goalreel_lab.corpora.edits import edit_rows
from goalreel_lab.corpora.live import live_rows, whole_rows
from goalreel_lab.corpora.plans import continuation_rows, plan_rows
from goalreel_lab.corpora.rows import (
    CONTINUATIONS,
    EDITS,
    LIVE,
    PLANS,
    VERDICTS,
    WHOLES,
    ContinuationRow,
    EditRow,
    PlanRow,
    VerdictRow,
)
from goalreel_lab.corpora.verdicts import verdict_rows

type CorpusKind = Literal["plans", "continuations", "edits", "verdicts", "live", "wholes", "critiques"]
type LessonRow = PlanRow | ContinuationRow | EditRow | VerdictRow | CritiqueRow
type Maker = Callable[[range, int], Iterator[LessonRow]]
"""(seeds, picture size) -> rows."""
type Varied = Callable[..., Iterator[LessonRow]]
"""A maker that takes `variety` too."""

LESSONS: Mapping[CorpusKind, tuple[RowKind[Any], Varied]] = {
    "plans": (PLANS, plan_rows),
    "continuations": (CONTINUATIONS, continuation_rows),
    "edits": (EDITS, edit_rows),
    "verdicts": (VERDICTS, verdict_rows),
    "live": (LIVE, live_rows),
    "wholes": (WHOLES, whole_rows),
}
"""Kind of corpus -> how its rows are stored, and what makes them."""
SIMULATOR = "simulator"
OF_EDITORS: Mapping[CorpusKind, RowKind[Any]] = {"critiques": CRITIQUES}
"""Kinds whose rows only an editor can make."""


@dataclass(frozen=True)
class CorpusConfig:
    """Settings of a corpus. `first` counts seeds from the split's start; `shard` is episodes a file.

    Raises:
        InputError: no such kind or split, seeds it does not have, or a size or shard out of range.
    """

    kind: CorpusKind
    split: Split
    episodes: int
    size: int = 128
    first: int = 0
    shard: int = 100
    variety: float = 0.0
    """Share of the episodes that look other than plain: shades, light, or another camera."""
    relabelled: float = 0.0
    """Share of the wrong candidates that are the true target of another sub-goal."""
    source: str = SIMULATOR
    """Source of the rows, such as the editor whose mistakes they show."""

    def __post_init__(self) -> None:
        if self.kind not in (*LESSONS, *OF_EDITORS):
            raise InputError(f"no kind {self.kind!r}: choose one of {', '.join((*LESSONS, *OF_EDITORS))}")
        if self.shard < 1 or not 64 <= self.size <= 1024:
            raise InputError(f"need 64 to 1024 px and 1 episode a shard, got {self.size} and {self.shard}")
        if not 0 <= self.variety <= 1:
            raise InputError(f"variety is a share of the episodes, from 0 to 1, got {self.variety}")
        if not 0 <= self.relabelled <= 1:
            raise InputError(f"relabelled is a share of the wrong ones, from 0 to 1, got {self.relabelled}")
        if self.relabelled and (self.kind not in ("verdicts", "wholes") or self.source != SIMULATOR):
            raise InputError(
                "relabelled is for made candidates: for verdicts, without an editor, and for wholes"
            )
        seeds(self.split, self.episodes, self.first)

    @property
    def shards(self) -> dict[str, range]:
        """Name every shard, and give its seeds."""
        every = seeds(self.split, self.episodes, self.first)
        starts = range(0, len(every), self.shard)
        return {f"{self.split}-{i:05d}": every[at : at + self.shard] for i, at in enumerate(starts)}


def make_corpus(
    order: CorpusConfig,
    out: Path,
    *,
    workers: int = 1,
    text: bool = True,
    make: Maker | None = None,
    progress: OnCount = lambda done, total: None,
) -> int:
    """Make what is missing of a corpus; returns the number of its rows.

    `make` takes the place of the kind's own maker and runs in this process; name it in `order.source`.
    Critiques are never written as `text`: they have no reply to learn yet.

    Raises:
        InputError: a kind that takes an editor, without `make`.
        DatasetError: see `write_corpus`.
    """
    settings = asdict(order)
    options = {"variety": order.variety}
    if order.relabelled:
        options["relabelled"] = order.relabelled
    else:
        del settings["relabelled"]  # so that a corpus begun before there were any goes on
    if make is None and order.kind in OF_EDITORS:
        raise InputError(f"{order.kind} are made with an editor: name one")
    kind = OF_EDITORS.get(order.kind) or LESSONS[order.kind][0]
    corpus = Corpus(
        kind=kind,
        split=order.split,
        shards=order.shards,
        make=partial(_rows, make or partial(LESSONS[order.kind][1], **options), order.size),
        request=settings,
        about=_about(order),
    )
    text = text and order.kind not in OF_EDITORS
    return write_corpus(corpus, out, workers=1 if make else workers, text=text, progress=progress)


def _about(order: CorpusConfig) -> str:
    scene = "`task_id` and `step` make a row's scene again."
    if order.kind not in OF_EDITORS:
        scene = (
            "`seed` and `done` make a row's scene again; "
            "`held_out` names the compositions in it that training never shows."
        )
    return (
        f"{order.episodes} episodes ({order.split} split, first {order.first}, {order.size} px, "
        f"variety {order.variety:g}, relabelled {order.relabelled:g}), made by "
        f"`goalreel corpus make` from the {order.source}. {scene}"
    )


def _rows(make: Maker, size: int, part: range) -> Iterator[LessonRow]:
    return make(part, size)
