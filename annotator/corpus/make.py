"""Make training rows from stored storyboards. A second run resumes where the first stopped.

OUT/settings.json    the settings, which must be the same in a second run
OUT/sft/             the Critic's answers to learn: see `goalreel.datasets.corpora.write`
OUT/rl/              scored attempts to sample the Critic's answers on
OUT/plans/           the Planner's: a task in, the plan out
OUT/continuations/   the Planner's: a beginning in, the rest of the plan out
OUT/easy/            whole trajectories, accepted attempts alone
OUT/reflection/      whole trajectories with their rejected attempts
OUT/edits/           the editor's: the picture before a step, the prompt, the picture after it
OUT/report.json      numbers, and OUT/index.html shows them
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from goalreel.annotator.corpus.boards import NamedScorer, StoredBoard, score_boards
from goalreel.annotator.corpus.report import CorpusReport, write_report
from goalreel.chat.dialects import OWN, Dialect
from goalreel.datasets.corpora.critic_rows import (
    CRITIQUES,
    JUDGEMENTS,
    JudgementRow,
    critique_row,
    judgement_lesson,
)
from goalreel.datasets.corpora.edits import STORED_EDITS, StoredEdit, edit_row
from goalreel.datasets.corpora.planner_rows import (
    CONTINUATIONS,
    EASY,
    PLANS,
    REFLECTION,
    continuation_row,
    plan_row,
    sequence_row,
)
from goalreel.datasets.corpora.recipe import Pick, Selection, select
from goalreel.datasets.corpora.rows import RowKind, TalkRow
from goalreel.datasets.corpora.unified import UNIFIED_EASY, UNIFIED_REFLECTION, unified_row
from goalreel.datasets.corpora.write import Corpus, write_corpus
from goalreel.errors import DatasetError
from goalreel.files import digest, exclusive, sweep, write_bytes
from goalreel.progress import OnProgress
from goalreel.types import Storyboard

SHARD = 100
"""Storyboards in one file."""

type _Rows = Callable[[int, Storyboard], Iterable[Any]]
"""(storyboard's number, storyboard) -> its rows."""


@dataclass(frozen=True)
class RecipeOrder:
    """The settings by which storyboards become a corpus."""

    scorer: NamedScorer
    seed: int = 0
    """The seed of resampling and cuts."""
    rl_variance: float | None = None
    """Steps whose scores vary more are for reinforcement; None takes the third that varies most."""
    dialect: Dialect = OWN
    """In whose words the agents are asked."""
    unified: bool = False
    """Write whole trajectories for models that plan, draw and judge in one reply."""


def make_from_storyboards(
    boards: Sequence[StoredBoard],
    order: RecipeOrder,
    out: Path,
    *,
    progress: OnProgress = lambda stage, done, total: None,
) -> CorpusReport:
    """Score storyboards, filter them, and write the missing rows of the corpora in `out`.

    Raises:
        DatasetError: `out` holds another corpus or other files, another run writes there, a storyboard has
            disappeared, or the disk is full.
        UserError: the scorer cannot be called; a second run resumes.
    """
    check_empty(out)
    with exclusive(out / ".lock", out):
        sweep(out)
        settings = _asked(boards, order)
        agree(out, settings)
        outlines = score_boards(boards, order.scorer, out, lambda done, total: progress("score", done, total))
        chosen = select(outlines, seed=order.seed, rl_variance=order.rl_variance)
        report = CorpusReport.of(outlines, chosen, order.scorer.name)
        for kind, folder, numbers, make in _parts(boards, chosen, order):
            rows = _write(kind, out / folder, boards, numbers, make, settings, progress)
            report.rows[folder] = rows
        write_report(report, chosen, [(board.task_id, board.load) for board in boards], out)
        return report


def _asked(boards: Sequence[StoredBoard], order: RecipeOrder) -> dict[str, Any]:
    verdicts = [
        json.dumps([[*at, v.model_dump(mode="json")] for at, v in sorted(b.human_verdicts.items())])
        for b in boards
    ]
    parts = [
        part for board, verdict in zip(boards, verdicts, strict=True) for part in (board.digest, verdict)
    ]
    settings = {
        "storyboards": len(boards),
        "digest": digest(*parts),
        "scorer": order.scorer.name,
        "seed": order.seed,
        "rl_variance": order.rl_variance,
    }
    # Left out where they are the default, so that a corpus begun before there were any goes on.
    if order.dialect is not OWN:
        settings["dialect"] = order.dialect.name
    return settings | ({"unified": True} if order.unified else {})


def check_empty(out: Path) -> None:
    if out.is_file():
        raise DatasetError(f"{out}: is a file: choose another --out")
    if out.is_dir() and any(out.iterdir()) and not (out / ".lock").exists():
        raise DatasetError(f"{out}: holds files that goalreel did not write: choose another --out")


def agree(out: Path, settings: Mapping[str, Any]) -> None:
    path, text = out / "settings.json", json.dumps(settings, indent=1) + "\n"
    if (path.exists() and path.read_text() != text) or (out / "corpus.json").exists():
        raise DatasetError(f"{out} holds a corpus made with other options: choose another --out")
    write_bytes(path, text.encode())


def _parts(
    boards: Sequence[StoredBoard], chosen: Selection, order: RecipeOrder
) -> Iterator[tuple[RowKind[Any], str, list[int], _Rows]]:
    """(kind of row, folder, storyboards with such rows, the function that makes the rows)."""
    sft, rl = _by_board(chosen.sft), _by_board(chosen.rl)

    def judged(number: int, board: Storyboard) -> Iterator[JudgementRow]:
        for pick in sft[number]:
            if pick.verdict is not None:
                row = critique_row(board, boards[number].task_id, pick.sample)
                yield JudgementRow(row, pick.verdict)

    def planned(number: int, board: Storyboard) -> list[TalkRow]:
        return [plan_row(board, boards[number].task_id, order.dialect)]

    def continued(number: int, board: Storyboard) -> list[TalkRow]:
        return [continuation_row(board, boards[number].task_id, chosen.cuts[number], order.dialect)]

    def edited(number: int, board: Storyboard) -> list[StoredEdit]:
        stored = boards[number]
        return [edit_row(board, stored.task_id, step, stored.human_verdicts) for step in chosen.edits[number]]

    def sequences(rejected: bool) -> _Rows:
        if order.unified:
            return lambda number, board: [unified_row(board, boards[number].task_id, rejected=rejected)]
        return lambda number, board: [
            sequence_row(board, boards[number].task_id, rejected=rejected, dialect=order.dialect)
        ]

    lesson = partial(judgement_lesson, dialect=order.dialect)
    yield replace(JUDGEMENTS, lesson=lesson), "sft", sorted(sft), judged
    yield (
        CRITIQUES,
        "rl",
        sorted(rl),
        lambda number, board: [critique_row(board, boards[number].task_id, p.sample) for p in rl[number]],
    )
    yield PLANS, "plans", chosen.plans, planned
    yield CONTINUATIONS, "continuations", sorted(chosen.cuts), continued
    easy, reflection = (UNIFIED_EASY, UNIFIED_REFLECTION) if order.unified else (EASY, REFLECTION)
    yield easy, "easy", chosen.easy, sequences(False)
    yield reflection, "reflection", chosen.reflection, sequences(True)
    yield STORED_EDITS, "edits", sorted(chosen.edits), edited


def _by_board(picks: Sequence[Pick]) -> dict[int, list[Pick]]:
    picks_of: defaultdict[int, list[Pick]] = defaultdict(list)
    for pick in picks:
        picks_of[pick.board].append(pick)
    return dict(picks_of)


def _write(
    kind: RowKind[Any],
    out: Path,
    boards: Sequence[StoredBoard],
    numbers: Sequence[int],
    make: _Rows,
    settings: Mapping[str, Any],
    progress: OnProgress,
) -> int:
    def rows(part: range) -> Iterator[Any]:
        for place in part:
            yield from make(numbers[place], boards[numbers[place]].load())

    starts = range(0, max(len(numbers), 1), SHARD)
    corpus = Corpus(
        kind=kind,
        split="train",
        shards={f"train-{i:05d}": range(len(numbers))[at : at + SHARD] for i, at in enumerate(starts)},
        make=rows,
        request={**settings, "kind": kind.name},
        about=f"{len(numbers)} storyboards, scored by {settings['scorer']}, "
        "made by `goalreel corpus from-storyboards`.",
    )
    text = kind.lesson is not None or kind.messages is not None
    return write_corpus(
        corpus,
        out,
        text=text and kind is not CRITIQUES,
        progress=lambda done, total: progress(out.name, done, total),
    )
