"""The stages of the recipe, in order, on outlines: which samples become rows, and why others do not.

InterleaveThinker, section 3.2. The paper names the faults and no threshold; POOR and FALL are goalreel's own.
It splits steps 2 to 1 between fine-tuning and reinforcement by the variance of their scores: here the
threshold is the quantile that gives that. It resamples, and does not say how: here rows of the larger side
are left out, since repeated pictures would be learned by heart within two epochs, and would make the same
group twice in GRPO.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from goalreel.datasets.corpora.critic_rows import judgement
from goalreel.datasets.corpora.trajectories import GOOD, Outline, Reason, StepSample, TrendFault
from goalreel.types import ACCEPTED, Verdict

log = logging.getLogger(__name__)

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

POOR = 5.0
"""A step whose best attempt scores less is of low quality throughout."""
FALL = 0.5
"""From the first attempt to the last a score may fall by this: a judge is not steadier."""
_BALANCE_STREAM, _CUT_STREAM = 5, 6
"""Streams of random numbers, apart for the same seed."""


def trend_fault(overall: Sequence[float]) -> TrendFault | None:
    """Say why a step is dropped, by its attempts' overall scores in order; None where it is kept.

    >>> [trend_fault(s) for s in ([4, 7], [8], [3, 4.9], [9, 6.5], [6, 9, 5.8], [5, 5.5])]
    [None, None, 'low_quality', 'negative_trend', 'degradation', 'low_quality']
    """
    first, last, best = overall[0], overall[-1], max(overall)
    if best < POOR:
        return "low_quality"
    if last < first - FALL:
        return "negative_trend"
    if last >= GOOD:
        return None
    return "degradation" if best >= GOOD else "low_quality"


def rl_threshold(variances: Sequence[float]) -> float:
    """Find the variance above which steps are for RL: a third of them, fewer where many are equal.

    >>> rl_threshold([0, 0, 1, 2, 3, 4])
    2.0
    >>> rl_threshold([0, 0, 0, 0, 0, 4])
    0.0
    """
    return float(sorted(variances)[round(2 / 3 * len(variances)) - 1]) if variances else 0.0


def cut_of(outline: Outline, seed: int, number: int) -> int | Reason:
    """Draw by `seed` how many steps, accepted or in words, lie before the cut; or say why there is none."""
    last = min(outline.accepted, len(outline.statuses) - 1)
    if len(outline.statuses) < 2:
        return "one_step"
    if last < 1:
        return "first_step_not_accepted"
    if not outline.askable:
        return "marks_without_pictures"
    return int(np.random.default_rng([seed, number, _CUT_STREAM]).integers(1, last + 1))


def easy_fault(outline: Outline) -> Reason | None:
    """Say why a storyboard is no sequence; None where every step was accepted, and the scorer agrees."""
    if not outline.statuses:
        return "no_plan"
    if not all(status in (*ACCEPTED, "text") for status in outline.statuses):
        return "incomplete"
    if not set(ACCEPTED) & set(outline.statuses):
        return "words_only"
    if not outline.askable:
        return "marks_without_pictures"
    chosen_samples = [s for s in outline.samples if outline.chosen[s.step] == s.attempt]
    if any(s.scores is None for s in chosen_samples):
        return "unscored"
    return None if all(s.success for s in chosen_samples) else "scorer_disagrees"


def reflection_fault(outline: Outline) -> Reason | None:
    """Say why a storyboard is no sequence with rejected attempts."""
    if fault := easy_fault(outline):
        return fault
    rejected = any(s.verdict is not None and not s.verdict.success for s in outline.samples)
    return None if rejected else "nothing_rejected"


@dataclass(frozen=True)
class Pick:
    """A sample that becomes a row."""

    board: int
    sample: StepSample
    verdict: Verdict | None = None
    """The answer to learn; None in an RL row."""


def balanced(picks: Sequence[Pick], seed: int) -> list[Pick]:
    """Choose as many accepted picks as rejected ones; those that a person judged are always kept."""
    sides = [[pick for pick in picks if pick.sample.success is side] for side in (True, False)]
    rng = np.random.default_rng([seed, _BALANCE_STREAM])
    chosen = list[Pick]()
    for side in sides:
        sure = [pick for pick in side if pick.sample.trust]
        others = [pick for pick in side if not pick.sample.trust]
        free = max(min(map(len, sides)) - len(sure), 0)
        chosen += sure + [others[i] for i in rng.permutation(len(others))[:free]]
    return chosen


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
    parts: Counter[str] = field(default_factory=Counter)
    """Steps for `sft` and for `rl`."""
    threshold: float = 0.0
    """The variance above which a step is for RL."""
    dropped: dict[RecipeStage, Counter[Reason]] = field(default_factory=lambda: defaultdict(Counter))
    unbalanced: dict[str, list[Pick]] = field(default_factory=dict)
    """The rows for `sft` and `rl` before one side of them is left out."""


def select(
    outlines: Sequence[Outline], *, seed: int = 0, rl_variance: float | None = None, filtered: bool = True
) -> Selection:
    """Run every stage on scored outlines.

    Args:
        outlines: the storyboards, in order.
        seed: of the resampling and the cuts.
        rl_variance: steps whose scores vary more are for RL; None gives the paper's two to one.
        filtered: leave out steps by the trend of their scores; False is the paper's arm without that filter.
    """
    chosen = Selection()
    for number, each in enumerate(outlines):
        chosen.dropped["trajectories"].update(each.dropped)
        _planner_rows(chosen, number, each, seed)
        _editor_rows(chosen, number, each)
    _critic_rows(chosen, outlines, rl_variance, filtered)
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
    faults: list[tuple[RecipeStage, list[int], Reason | None]] = [
        ("easy", chosen.easy, easy_fault(each)),
        ("reflection", chosen.reflection, reflection_fault(each)),
    ]
    if each.statuses:
        faults.append(("plans", chosen.plans, None if each.askable else "marks_without_pictures"))
        cut = cut_of(each, seed, number)
        if isinstance(cut, int):
            chosen.cuts[number] = cut
        else:
            chosen.dropped["continuations"][cut] += 1
    for stage, numbers, fault in faults:
        if fault is None:
            numbers.append(number)
        else:
            chosen.dropped[stage][fault] += 1


def _critic_rows(
    chosen: Selection, outlines: Sequence[Outline], rl_variance: float | None, filtered: bool
) -> None:
    steps = defaultdict[tuple[int, int], list[StepSample]](list)  # storyboard and step -> scored attempts
    for number, each in enumerate(outlines):
        for sample in each.samples:
            if sample.scores is None:
                chosen.dropped["scores"]["unscored"] += 1
            else:
                steps[number, sample.step].append(sample)
    overall = {at: tuple(s.scores.overall for s in step if s.scores) for at, step in steps.items()}
    faults = {at: trend_fault(scores) if filtered else None for at, scores in overall.items()}
    spread = {at: float(np.var(scores)) for at, scores in overall.items()}
    steady = [spread[at] for at, fault in faults.items() if fault is None]
    chosen.threshold = rl_threshold(steady) if rl_variance is None else rl_variance
    for at, attempts in steps.items():
        fault, for_rl = faults[at], spread[at] > chosen.threshold
        if not fault:
            chosen.parts["rl" if for_rl else "sft"] += 1
        for sample in attempts:
            if fault and not sample.trust:
                chosen.dropped["trends"][fault] += 1
            elif sample.success is None:
                chosen.dropped["scores"]["in_doubt"] += 1
            elif for_rl and not fault:
                chosen.rl.append(Pick(at[0], sample))
            else:
                _judge(chosen, at[0], sample, attempts)


def _judge(chosen: Selection, board: int, sample: StepSample, attempts: Sequence[StepSample]) -> None:
    verdict = judgement(sample, attempts)
    if not isinstance(verdict, Verdict):
        chosen.dropped["judgements"][verdict] += 1
    elif verdict.reasoning:
        chosen.sft.append(Pick(board, sample, verdict))
    else:  # a person's, without a word: to learn it would be to learn not to think
        chosen.rl.append(Pick(board, sample))


def _balanced(chosen: Selection, part: Literal["sft", "rl"], picks: Sequence[Pick], seed: int) -> list[Pick]:
    iterations: defaultdict[int, list[Pick]] = defaultdict(list)
    for pick in picks:
        iterations[pick.sample.attempt].append(pick)
    groups = list(iterations.values())
    if groups and not any(len({p.sample.success for p in group}) == 2 for group in groups):
        log.warning("%s: the iteration tells the verdict: plan steps that come off at once, too", part)
        groups = [list(picks)]
    stays = {id(pick) for group in groups for pick in balanced(group, seed)}
    kept = [pick for pick in picks if id(pick) in stays]
    chosen.unbalanced[part] = list(picks)
    if len(kept) < len(picks):
        chosen.dropped[part]["balance"] += len(picks) - len(kept)
    return kept
