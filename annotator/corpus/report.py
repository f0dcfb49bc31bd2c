"""The report of a corpus from storyboards: numbers in report.json, and a page that shows them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, get_args

from goalreel.annotator.report.cards import data_uri
from goalreel.annotator.report.write import write_numbers
from goalreel.datasets.corpora.critic_rows import BETTER
from goalreel.datasets.corpora.recipe import FALL, POOR, RecipeStage, Selection, TrendFault
from goalreel.datasets.corpora.trajectories import GOOD, Outline, StepSample, picture, source_of
from goalreel.types import Storyboard

_MARKS = ("semantics", "quality", "overall")
_SHOWN, _SIDE = 3, 192
"""Examples of a kind, and their longest side in pixels."""

STAGES: tuple[RecipeStage, ...] = get_args(RecipeStage.__value__)
type Named = tuple[str, Callable[[], Storyboard]]
"""A storyboard's name, and how it is read."""


@dataclass
class CorpusReport:
    """Distributions before and after the filters, and what was dropped for which reason."""

    scorer: str
    storyboards: int
    steps: int
    samples: int
    thresholds: dict[str, float]
    """Ours, as the paper names none."""
    scores: dict[str, dict[str, list[int]]]
    """Mark -> `before` and `after` -> attempts by whole points, the last with 9 to 10."""
    trends: dict[str, int]
    """Steps that were kept, and dropped by reason."""
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
        """Count what a selection made of outlines."""
        samples = [s for each in outlines for s in each.samples]
        chosen_samples = [pick.sample for pick in (*chosen.sft, *chosen.rl)]
        marks = {
            mark: {"before": _bins(samples, mark), "after": _bins(chosen_samples, mark)} for mark in _MARKS
        }
        return cls(
            scorer=scorer,
            storyboards=len(outlines),
            damaged=sum("damaged" in each.dropped for each in outlines),
            steps=sum(len(each.statuses) for each in outlines),
            samples=len(samples),
            thresholds={
                "good": GOOD,
                "poor": POOR,
                "fall": FALL,
                "better": BETTER,
                "rl_variance": chosen.threshold,
            },
            scores=marks,
            trends={
                name: sum((step.fault or "kept") == name for step in chosen.steps)
                for name in ("kept", *get_args(TrendFault.__value__))
            },
            parts={part: sum(step.part == part for step in chosen.steps) for part in ("sft", "rl")},
            success=_success(samples, chosen),
            dropped={
                stage: {reason: n for reason, n in chosen.dropped[stage].items() if n}
                for stage in STAGES
                if any(chosen.dropped.get(stage, {}).values())
            },
        )

    @property
    def critic_rows(self) -> int:
        """Rows for the Critic, of both kinds."""
        return self.rows.get("sft", 0) + self.rows.get("rl", 0)

    def worst(self) -> str:
        """The reason for which most attempts were dropped, and how many; empty where none was."""
        reasons = Counter[str]()
        for stage in ("trajectories", "scores", "trends", "judgements", "sft", "rl"):
            reasons.update(self.dropped.get(stage, {}))
        return next((f"{reason} ({count})" for reason, count in reasons.most_common(1)), "")


def _bins(samples: Iterable[StepSample], mark: str) -> list[int]:
    counts = [0] * 10
    for scores in (s.scores for s in samples if s.scores is not None):
        counts[min(int(getattr(scores, mark)), 9)] += 1
    return counts


def _success(samples: Sequence[StepSample], chosen: Selection) -> dict[str, list[int]]:
    sides = {"scored": _sides(samples)}
    for part, picks in (("sft", chosen.sft), ("rl", chosen.rl)):
        after = [pick.sample for pick in picks]
        dropped = [
            sample
            for stage, _, sample, reason in chosen.dropped_samples
            if (stage, reason) == (part, "balance")
        ]
        sides |= {f"{part} before": _sides([*after, *dropped]), part: _sides(after)}
    return sides


def _sides(samples: Sequence[StepSample]) -> list[int]:
    return [sum(s.success is side for s in samples) for side in (True, False)]


def write_report(report: CorpusReport, chosen: Selection, boards: Sequence[Named], out: Path) -> None:
    """Write report.json and index.html, with pictures of a few attempts of each fate."""
    write_numbers(report, out, Path(__file__).parent, examples=list(_examples(chosen, boards)))


def _examples(chosen: Selection, boards: Sequence[Named]) -> Iterator[dict[str, Any]]:
    """A few attempts of each fate, with their pictures."""
    fates: dict[str, list[tuple[int, StepSample, str]]] = {}
    for pick in chosen.sft:
        answer = "accept" if pick.sample.success else "reject"
        prompt = "" if pick.verdict is None else pick.verdict.refined_prompt or ""
        fates.setdefault(f"SFT: {answer}", []).append((pick.board, pick.sample, prompt))
    for pick in chosen.rl:
        fates.setdefault("RL", []).append((pick.board, pick.sample, ""))
    for _, board, sample, reason in chosen.dropped_samples:
        fates.setdefault(f"dropped: {reason}", []).append((board, sample, ""))
    for fate, members in fates.items():
        yield {"fate": fate, "count": len(members), "shown": [_card(*m, boards) for m in members[:_SHOWN]]}


def _card(number: int, sample: StepSample, better: str, boards: Sequence[Named]) -> dict[str, Any]:
    name, load = boards[number]
    board = load()
    source = source_of(board, sample.step)
    return {
        "name": f"{name}, step {sample.step + 1}, attempt {sample.attempt + 1}",
        "source": None if source is None else data_uri(source, _SIDE),
        "picture": data_uri(picture(board, sample), _SIDE),
        "prompt": sample.prompt,
        "better": better,
        "scores": sample.scores,
        "trust": sample.trust,
    }
