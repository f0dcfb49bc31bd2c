"""Make training rows from stored storyboards. A second run resumes where the first stopped.

OUT/settings.json    the settings, which must be the same in a second run
OUT/sft/             the Critic's answers to learn
OUT/rl/              scored attempts to sample the Critic's answers on
OUT/plans/           the Planner's: a task in, the plan out
OUT/continuations/   the Planner's: a beginning in, the rest of the plan out
OUT/easy/            whole trajectories, accepted attempts alone
OUT/reflection/      whole trajectories with their rejected attempts
OUT/edits/           the editor's: the picture before a step, the prompt, the picture after it
OUT/report.json      numbers
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, get_args

from goalreel.annotator.corpus.boards import NamedScorer, StoredBoard, score_boards
from goalreel.chat.dialects import OWN, Dialect
from goalreel.datasets.corpora.critic_rows import (
    CRITIQUES,
    JUDGEMENTS,
    critique_row,
    judgement_lesson,
    judgement_row,
)
from goalreel.datasets.corpora.planner_rows import (
    CONTINUATIONS,
    EASY,
    PLANS,
    REFLECTION,
    UNIFIED_EASY,
    UNIFIED_REFLECTION,
    continuation_row,
    plan_row,
    sequence_row,
    unified_row,
)
from goalreel.datasets.corpora.recipe import Pick, RecipeStage, Selection, select
from goalreel.datasets.corpora.rows import Corpus, RowKind, shard_ranges, write_corpus
from goalreel.datasets.corpora.trajectories import STORED_EDITS, Outline, StepSample, edit_row
from goalreel.errors import DatasetError
from goalreel.files import digest, exclusive, read_file, sweep, write_bytes
from goalreel.progress import OnProgress
from goalreel.types import Storyboard

STAGES: tuple[RecipeStage, ...] = get_args(RecipeStage.__value__)
type _MakeRows = Callable[[int, Storyboard], Iterable[Any]]
"""(storyboard's number, storyboard) -> its rows."""


@dataclass(frozen=True)
class RecipeConfig:
    """The settings by which storyboards become a corpus."""

    scorer: NamedScorer
    seed: int = 0
    """The seed of resampling and cuts."""
    rl_variance: float | None = None
    """Steps whose scores vary more are for reinforcement; None takes the third that varies most."""
    dialect: Dialect = OWN
    """The wording of the agents' prompts."""
    unified: bool = False
    """Write whole trajectories for models that plan, draw and judge in one reply."""
    filtered: bool = True
    """Leave out steps by the trend of their scores."""


@dataclass
class CorpusReport:
    """The rows that storyboards became, and what was dropped for which reason."""

    scorer: str
    storyboards: int
    steps: int
    samples: int
    rl_variance: float
    """The variance of scores above which steps are for RL."""
    parts: dict[str, int]
    """Steps for `sft` and for `rl`."""
    success: dict[str, list[int]]
    """Rows accepted and rejected: of all that are scored, then of a part before and after balance."""
    dropped: dict[str, dict[str, int]]
    """RecipeStage -> reason -> how many."""
    damaged: int = 0
    """Storyboards that cannot be read."""
    rows: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, outlines: Sequence[Outline], chosen: Selection, scorer: str) -> Self:
        samples = [s for each in outlines for s in each.samples]
        return cls(
            scorer=scorer,
            storyboards=len(outlines),
            damaged=sum("damaged" in each.dropped for each in outlines),
            steps=sum(len(each.statuses) for each in outlines),
            samples=len(samples),
            rl_variance=chosen.threshold,
            parts={part: chosen.parts[part] for part in ("sft", "rl")},
            success=_success(samples, chosen),
            dropped={
                stage: {reason: n for reason, n in chosen.dropped[stage].items() if n}
                for stage in STAGES
                if any(chosen.dropped.get(stage, {}).values())
            },
        )

    def worst(self) -> str:
        """The reason for which most attempts were dropped, and how many; empty where none was."""
        reasons = Counter[str]()
        for stage in ("trajectories", "scores", "trends", "judgements", "sft", "rl"):
            reasons.update(self.dropped.get(stage, {}))
        return next((f"{reason} ({count})" for reason, count in reasons.most_common(1)), "")


def _success(samples: Sequence[StepSample], chosen: Selection) -> dict[str, list[int]]:
    groups = {"scored": samples}
    for part, picks in (("sft", chosen.sft), ("rl", chosen.rl)):
        groups[f"{part} before"] = [pick.sample for pick in chosen.unbalanced[part]]
        groups[part] = [pick.sample for pick in picks]
    return {
        name: [sum(s.success is side for s in group) for side in (True, False)]
        for name, group in groups.items()
    }


def make_from_storyboards(
    boards: Sequence[StoredBoard],
    config: RecipeConfig,
    out: Path,
    *,
    progress: OnProgress = lambda stage, done, total: None,
) -> CorpusReport:
    """Score storyboards, filter them, and write the missing rows of the corpora in `out`."""
    check_empty(out)
    with exclusive(out / ".lock", out):
        sweep(out)
        settings = _settings(boards, config)
        check_settings(out, settings)
        outlines = score_boards(boards, config.scorer, out, partial(progress, "score"))
        chosen = select(outlines, seed=config.seed, rl_variance=config.rl_variance, filtered=config.filtered)
        report = CorpusReport.of(outlines, chosen, config.scorer.name)
        for folder, kind, numbers, make in _parts(boards, chosen, config):
            report.rows[folder] = write_corpus(
                Corpus(
                    kind=kind,
                    split="train",
                    shards=shard_ranges(len(numbers)),
                    make=partial(_rows, boards, numbers, make),
                    request={**settings, "kind": kind.name},
                    about=f"{len(numbers)} storyboards, scored by {config.scorer.name}, "
                    "made by `goalreel corpus from-storyboards`.",
                ),
                out / folder,
                text=folder not in ("rl", "edits"),
                progress=partial(progress, folder),
            )
        write_bytes(out / "report.json", (json.dumps(asdict(report), indent=1) + "\n").encode())
        return report


def _settings(boards: Sequence[StoredBoard], config: RecipeConfig) -> dict[str, Any]:
    parts: list[str] = []
    for board in boards:
        verdicts = [[*at, v.model_dump(mode="json")] for at, v in sorted(board.human_verdicts.items())]
        parts += [board.digest, json.dumps(verdicts)]
    return {
        "storyboards": len(boards),
        "digest": digest(*parts),
        "scorer": config.scorer.name,
        "seed": config.seed,
        "rl_variance": config.rl_variance,
        "dialect": config.dialect.name,
        "unified": config.unified,
        "filtered": config.filtered,
    }


def check_empty(out: Path) -> None:
    """Refuse a folder with files of others."""
    if out.is_file():
        raise DatasetError(f"{out}: is a file: choose another --out")
    if out.is_dir() and any(out.iterdir()) and not (out / ".lock").exists():
        raise DatasetError(f"{out}: holds files that goalreel did not write: choose another --out")


def check_settings(out: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings of a run into its folder, and refuse others than those there."""
    path, text = out / "settings.json", json.dumps(settings, indent=1) + "\n"
    if (path.exists() and read_file(path).decode() != text) or (out / "corpus.json").exists():
        raise DatasetError(f"{out} holds a corpus made with other options: choose another --out")
    write_bytes(path, text.encode())


def _parts(
    boards: Sequence[StoredBoard], chosen: Selection, config: RecipeConfig
) -> Iterator[tuple[str, RowKind[Any], Sequence[int], _MakeRows]]:
    """Yield each corpus: its folder, the kind of row, the storyboards with such rows, and what makes them."""
    sft, rl = _by_board(chosen.sft), _by_board(chosen.rl)
    ids, dialect = [board.task_id for board in boards], config.dialect

    def judged(n: int, board: Storyboard) -> list[Any]:
        return [judgement_row(board, ids[n], p.sample, p.verdict) for p in sft[n] if p.verdict is not None]

    def whole(n: int, board: Storyboard, *, rejected: bool) -> list[Any]:
        if config.unified:
            return [unified_row(board, ids[n], rejected=rejected)]
        return [sequence_row(board, ids[n], rejected=rejected, dialect=dialect)]

    def edited(n: int, board: Storyboard) -> list[Any]:
        return [edit_row(board, ids[n], step, boards[n].human_verdicts) for step in chosen.edits[n]]

    easy, reflection = (UNIFIED_EASY, UNIFIED_REFLECTION) if config.unified else (EASY, REFLECTION)
    judgements = replace(JUDGEMENTS, lesson=partial(judgement_lesson, dialect=dialect))
    yield "sft", judgements, sorted(sft), judged
    yield "rl", CRITIQUES, sorted(rl), lambda n, board: [critique_row(board, ids[n], p.sample) for p in rl[n]]
    yield "plans", PLANS, chosen.plans, lambda n, board: [plan_row(board, ids[n], dialect)]
    cuts = chosen.cuts
    yield (
        *("continuations", CONTINUATIONS, sorted(cuts)),
        lambda n, board: [continuation_row(board, ids[n], cuts[n], dialect)],
    )
    yield "easy", easy, chosen.easy, partial(whole, rejected=False)
    yield "reflection", reflection, chosen.reflection, partial(whole, rejected=True)
    yield "edits", STORED_EDITS, sorted(chosen.edits), edited


def _rows(
    boards: Sequence[StoredBoard], numbers: Sequence[int], make: _MakeRows, part: range
) -> Iterator[Any]:
    for place in part:
        yield from make(numbers[place], boards[numbers[place]].load())


def _by_board(picks: Sequence[Pick]) -> dict[int, list[Pick]]:
    picks_of: dict[int, list[Pick]] = {}
    for pick in picks:
        picks_of.setdefault(pick.board, []).append(pick)
    return picks_of
