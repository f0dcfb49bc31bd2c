"""Training examples of scarce words: all demonstrations, of which the first have words.

lab/docs/policy-experiments.md fixes the arms.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from fit import LIVE, MISSING, Bank
from torch import Tensor

from goalreel.datasets.writing.pipeline import SUBGOAL
from goalreel.tabletop.env import STATE_NAMES
from goalreel_lab.policy.policy_tasks import ENVIRONMENT, STATE

type ScarceArm = Literal["worded", "mix", "auto", "goals"]
ARMS: tuple[ScarceArm, ...] = get_args(ScarceArm.__value__)
"""`worded`: the demonstrations with words alone. `mix`: all, words where there are some. `auto`: all with
words, some of them wrong. `goals`: all with goal images, words where there are some."""
WRONG = 0.39
"""Share of the words that an automatic annotator has wrong: the best labeller of WGO-Bench has 61 % right."""


@dataclass(frozen=True)
class ScarceExamples:
    """Samples for one arm; the first `worded` of them have words."""

    data: Bank
    arm: ScarceArm
    worded: int

    @property
    def first(self) -> int:
        """Say how many samples are seen: the first of them."""
        return self.worded if self.arm == "worded" else len(self.data)

    def rows(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw samples; where some have no words, half a batch is of those that have."""
        rows = torch.randint(self.first, (count,), generator=generator)
        if self.arm in ("mix", "goals"):
            half = count // 2
            rows[:half] = torch.randint(self.worded, (half,), generator=generator)
        return rows

    def inputs(self, rows: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """Give words and goal images as the arm has them.

        Where a sample of `goals` has both, now and then one is left out; one without words keeps its image.
        """
        count, spoken = len(rows), rows < self.worded
        goal = self.data.black.expand(count, -1, -1, -1)
        vector = self._auto_words[rows] if self.arm == "auto" else self.data.sub_tasks[rows]
        if self.arm == "goals":
            silent, blind = torch.rand(2, count, generator=generator) < MISSING[:, None]
            blind &= spoken
            goal = torch.where(blind[:, None, None, None], self.data.black, self.data.goal[rows])
            spoken = spoken & ~(silent & ~blind)
        if self.arm != "auto":
            vector = torch.where(spoken[:, None], vector, 0.0)
        return {
            LIVE: self.data.live[rows].float(),
            SUBGOAL: goal.float(),
            STATE: torch.zeros(count, len(STATE_NAMES)),
            ENVIRONMENT: vector,
        }

    @cached_property
    def _auto_words(self) -> Tensor:
        """Give 39 % of the samples behind the worded ones the words of another sub-goal, once and for all."""
        generator = torch.Generator().manual_seed(0)
        truth = self.data.sub_tasks
        wrong = torch.rand(len(truth), generator=generator) < WRONG
        wrong[: self.worded] = False
        words = truth.clone()
        while len(same := torch.nonzero(wrong & (words == truth).all(1)).flatten()):
            words[same] = truth[torch.randint(len(truth), (len(same),), generator=generator)]
        return words
