"""The stages of the recipe, in order, on outlines: which samples become rows, and why others do not."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from goalreel.datasets.corpora.balance import balanced
from goalreel.datasets.corpora.continuations import cut_of
from goalreel.datasets.corpora.judgements import judgement
from goalreel.datasets.corpora.sequences import easy_fault, reflection_fault
from goalreel.datasets.corpora.split import rl_threshold, variance
from goalreel.datasets.corpora.trajectories import Outline, Reason, StepSample
from goalreel.datasets.corpora.trend_filter import TrendFault, trend_fault
from goalreel.types import Verdict

type RecipeStage = Literal[
    "trajectories",
    "scores",
    "trends",
    "judgements",
    "sft",
    "rl",
    "plans",
    "continuations",
    "easy",
    "reflection",
    "edits",
]


@dataclass(frozen=True)
class Pick:
    """A sample that becomes a row."""

    board: int
    sample: StepSample
    verdict: Verdict | None = None
    """What the Critic is to answer; None in an RL row."""


@dataclass(frozen=True)
class StepTrend:
    """The filters' result for one step."""

    overall: tuple[float, ...]
    """Scores of its attempts in order."""
    fault: Reason | None
    variance: float
    part: Literal["sft", "rl"] | None
    """None for a step that was dropped."""


@dataclass
class Selection:
    """The samples and storyboards that become rows, and those that do not."""

    sft: list[Pick] = field(default_factory=list)
    rl: list[Pick] = field(default_factory=list)
    plans: list[int] = field(default_factory=list)
    """Storyboards whose plan a Planner learns."""
    cuts: dict[int, int] = field(default_factory=dict)
    """Storyboard -> steps before its cut."""
    easy: list[int] = field(default_factory=list)
    reflection: list[int] = field(default_factory=list)
    edits: dict[int, list[int]] = field(default_factory=dict)
    """Storyboard -> its steps that are rows for an editor."""
    steps: list[StepTrend] = field(default_factory=list)
    threshold: float = 0.0
    """The variance above which a step is for RL."""
    dropped: dict[RecipeStage, Counter[Reason]] = field(default_factory=lambda: defaultdict(Counter))
    dropped_samples: list[tuple[RecipeStage, int, StepSample, Reason]] = field(default_factory=list)
    """Samples that the filters dropped: stage, storyboard, sample, reason."""

    def drop(self, stage: RecipeStage, reason: Reason, board: int, sample: StepSample) -> None:
        """Count a sample that becomes no row."""
        self.dropped[stage][reason] += 1
        self.dropped_samples.append((stage, board, sample, reason))


def select(outlines: Sequence[Outline], *, seed: int = 0, rl_variance: float | None = None) -> Selection:
    """Run every stage on scored outlines.

    Args:
        outlines: the storyboards, in order.
        seed: of the resampling and the cuts.
        rl_variance: steps whose scores vary more are for RL; None gives the paper's two to one.
    """
    chosen = Selection()
    for number, each in enumerate(outlines):
        chosen.dropped["trajectories"].update(each.dropped)
        _planner_rows(chosen, number, each, seed)
        _editor_rows(chosen, number, each)
    _critic_rows(chosen, _steps(chosen, outlines), rl_variance)
    chosen.sft = _balanced(chosen, "sft", chosen.sft, seed)
    chosen.rl = _balanced(chosen, "rl", chosen.rl, seed)
    return chosen


def _editor_rows(chosen: Selection, number: int, each: Outline) -> None:
    """Take the steps whose picture the scorer does not call wrong."""
    chosen.dropped["edits"].update(each.edit_faults)
    wrong = {s.step for s in each.samples if s.success is False and s.attempt == each.chosen[s.step]}
    if steps := [step for step in each.edits if step not in wrong]:
        chosen.edits[number] = steps
    chosen.dropped["edits"]["scorer_disagrees"] += len(each.edits) - len(steps)


def _planner_rows(chosen: Selection, number: int, each: Outline, seed: int) -> None:
    if each.statuses:
        if each.askable:
            chosen.plans.append(number)
        else:
            chosen.dropped["plans"]["marks_without_pictures"] += 1
        cut = cut_of(each, seed, number)
        if isinstance(cut, int):
            chosen.cuts[number] = cut
        else:
            chosen.dropped["continuations"][cut] += 1
    if fault := easy_fault(each):
        chosen.dropped["easy"][fault] += 1
    else:
        chosen.easy.append(number)
    if fault := reflection_fault(each):
        chosen.dropped["reflection"][fault] += 1
    else:
        chosen.reflection.append(number)


type _Place = tuple[int, int, str | None]
"""A storyboard, its step and, of several, the editor: what another draws says nothing of a prompt."""
type _Steps = Mapping[_Place, list[StepSample]]
"""Its scored attempts in order."""


def _steps(chosen: Selection, outlines: Sequence[Outline]) -> _Steps:
    steps: defaultdict[_Place, list[StepSample]] = defaultdict(list)
    for number, each in enumerate(outlines):
        for sample in each.samples:
            if sample.scores is None:
                chosen.drop("scores", "unscored", number, sample)
            else:
                steps[number, sample.step, sample.by].append(sample)
    return steps


def _critic_rows(chosen: Selection, steps: _Steps, rl_variance: float | None) -> None:
    overall = {at: tuple(s.scores.overall for s in step if s.scores) for at, step in steps.items()}
    faults: dict[_Place, TrendFault | None]
    faults = {at: trend_fault(scores) for at, scores in overall.items()}
    spread = {at: variance(scores) for at, scores in overall.items()}
    steady = [spread[at] for at, fault in faults.items() if fault is None]
    chosen.threshold = rl_threshold(steady) if rl_variance is None else rl_variance
    for at, attempts in steps.items():
        fault, rl = faults[at], spread[at] > chosen.threshold
        part = None if fault else "rl" if rl else "sft"
        chosen.steps.append(StepTrend(overall[at], fault, spread[at], part))
        for sample in attempts:
            if fault and not sample.trust:
                chosen.drop("trends", fault, at[0], sample)
            elif sample.success is None:
                chosen.drop("scores", "in_doubt", at[0], sample)
            elif part == "rl":
                chosen.rl.append(Pick(at[0], sample))
            else:
                _judge(chosen, at[0], sample, attempts)


def _judge(chosen: Selection, board: int, sample: StepSample, attempts: Sequence[StepSample]) -> None:
    verdict = judgement(sample, attempts)
    if not isinstance(verdict, Verdict):
        chosen.drop("judgements", verdict, board, sample)
    elif verdict.reasoning:
        chosen.sft.append(Pick(board, sample, verdict))
    else:  # a person's, without a word: to learn it would be to learn not to think
        chosen.rl.append(Pick(board, sample))


def _balanced(chosen: Selection, part: Literal["sft", "rl"], picks: Sequence[Pick], seed: int) -> list[Pick]:
    picks_kept = balanced(picks, lambda p: bool(p.sample.success), lambda p: bool(p.sample.trust), seed)
    stays = {id(pick) for pick in picks_kept}
    for pick in picks:
        if id(pick) not in stays:
            chosen.drop(part, "balance", pick.board, pick.sample)
    return picks_kept
