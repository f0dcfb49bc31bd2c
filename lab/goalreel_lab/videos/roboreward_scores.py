"""How RoboRewardBench is scored, and how a Critic's verdict becomes a reward from 1 to 5.

The paper (arXiv 2601.00675) reports the mean absolute error, averaged over 23 subsets with equal weights; its
RoboReward-8B has 0.665. A Critic of goalreel gives a probability, or scores from 0 to 10, or only yes or no.
That number p in 0-1 becomes the reward 1 + round(4 p), in equal bins, which are fixed and fitted to nothing.

Preferences, as others report them on 500 pairs whose choice is not published: here all pairs of rollouts of
one subset and one task with different rewards. The higher p is preferred, and a tie counts half.
"""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goalreel.annotator.statistics import (
    Measurement,
    Sums,
    balanced_accuracy_with_interval,
    share,
    with_interval,
)
from goalreel.types import Failure, Verdict
from goalreel_lab.videos.roboreward_data import HIGHEST, LOWEST, RewardRollout

ROBOARENA = "robo_arena"


@dataclass(frozen=True)
class JudgedRollout:
    """A rollout, and how sure the Critic is that it succeeded, 0-1; None where it gave no answer."""

    rollout: RewardRollout
    certainty: float | None
    success: bool = False

    @property
    def error(self) -> int:
        """Give the distance to the reward; without an answer the largest that there can be."""
        reward = self.rollout.reward
        if self.certainty is None:
            return max(reward - LOWEST, HIGHEST - reward)
        return abs(reward_of(self.certainty) - reward)


def reward_of(certainty: float) -> int:
    """Make a reward, 1-5, of a number in 0-1.

    >>> [reward_of(p) for p in (0, 0.12, 0.13, 0.5, 0.87, 0.88, 1)]
    [1, 1, 2, 3, 4, 5, 5]
    """
    return LOWEST + int(4 * certainty + 0.5)


def judged_rollout(rollout: RewardRollout, verdict: Verdict | Failure) -> JudgedRollout:
    """Read a verdict: its probability, else its score for what is shown, else yes or no."""
    if isinstance(verdict, Failure):
        return JudgedRollout(rollout, None)
    if verdict.probability is not None:
        certainty = verdict.probability
    elif verdict.semantics is not None:
        certainty = verdict.semantics / 10
    else:
        certainty = float(verdict.success)
    return JudgedRollout(rollout, certainty, verdict.success)


def roboreward_values(judged: Sequence[JudgedRollout]) -> dict[str, Measurement]:
    """Compute `mae` (the mean over subsets), its parts, `success` (balanced, 5 or less) and `preference`."""
    others = [j for j in judged if j.rollout.subset != ROBOARENA]
    arena = [j for j in judged if j.rollout.subset == ROBOARENA]
    return {
        "mae": _mean_over_subsets(judged),
        "mae_oxe": _mean_over_subsets(others),
        "mae_roboarena": _mean_over_subsets(arena),
        "mae_rollouts": with_interval([(j.error, 1) for j in judged], share),
        "success": balanced_accuracy_with_interval(
            (
                i,
                j.rollout.reward == HIGHEST,
                j.certainty is not None and j.success == (j.rollout.reward == HIGHEST),
            )
            for i, j in enumerate(judged)
        ),
        "preference": _preference(judged),
    }


def _mean_over_subsets(judged: Sequence[JudgedRollout]) -> Measurement:
    subsets = sorted({j.rollout.subset for j in judged})
    rows = np.zeros((len(judged), 2 * len(subsets)))
    for row, j in zip(rows, judged, strict=True):
        at = subsets.index(j.rollout.subset)
        row[2 * at : 2 * at + 2] = j.error, 1

    def mean(sums: Sums) -> Sums:
        means = np.stack([share(sums[..., 2 * i : 2 * i + 2]) for i in range(len(subsets))], axis=-1)
        return share(np.stack([np.nansum(means, -1), (~np.isnan(means)).sum(-1)], axis=-1))

    return with_interval(rows, mean)


def _preference(judged: Sequence[JudgedRollout]) -> Measurement:
    groups: dict[tuple[str, str], list[JudgedRollout]] = defaultdict(list)
    for j in judged:
        groups[j.rollout.subset, j.rollout.recording.instruction].append(j)
    rows = []
    for group in groups.values():
        pairs = [(a, b) for a, b in itertools.combinations(group, 2) if a.rollout.reward != b.rollout.reward]
        if pairs:
            rows.append((sum(_won(a, b) for a, b in pairs), len(pairs)))
    return with_interval(rows, share)


def _won(a: JudgedRollout, b: JudgedRollout) -> float:
    """Say whether the better rollout is preferred: 1, or 0.5 for a tie; a missing answer prefers none."""
    better, worse = (a, b) if a.rollout.reward > b.rollout.reward else (b, a)
    if better.certainty is None or worse.certainty is None:
        return 0.0
    return 0.5 if better.certainty == worse.certainty else float(better.certainty > worse.certainty)
