"""Labels of demonstrated steps, frame by frame, spoilt as lab/docs/label-worth.md says."""

from dataclasses import dataclass

import numpy as np
import torch
from demos import POSE, THINGS, Demos
from numpy.typing import NDArray
from torch import Tensor

from goalreel.tabletop.env import STATE_NAMES
from goalreel.tabletop.scene import SubGoal
from goalreel_lab.policy.policy_tasks import ENVIRONMENT, STATE, WORDS, sub_goal_of, sub_task

type Numbers = NDArray[np.float32]
SPANS = (18, 19, 14)
"""Frames of a step: until the hand has closed on the block, has opened again, is home. The expert's means."""
PICKING, PLACING, FRAMES = np.cumsum(SPANS).tolist()
SHIFT, INVENTED = 10, 17
"""Frames by which a cut is shifted, and of an invented step."""
FAULTS = ("wrong_object", "swapped", "shifted", "merged", "split", "invented")
OWN, BEFORE, AFTER, PART, NONE = range(5)
"""Label of a frame: its step's, its neighbours', its block alone, none of a single step."""
MEAN, SPREAD = np.array([0.52, 0.0, 0.03, 0.0, 0.0]), np.array([0.1, 0.15, 0.03, 0.7, 0.7])
TOLD = 2 * (POSE - 1) + WORDS
_, _BLOCKS, _TARGETS = np.flatnonzero(sub_task(SubGoal("inside", THINGS[0], THINGS[0])))
"""Places of the first block and the first target in a vector of words."""


def tell(poses: Numbers, words: Numbers) -> Numbers:
    """Make what the policy is told, (TOLD,): where the named block and its target are, and the words.

    `poses` is a row of `Demos.poses`. What the words do not name is told as zeros.
    """
    named = np.zeros((2, POSE - 1))
    for at in np.flatnonzero(words):
        if at >= _BLOCKS:
            first = _TARGETS if at >= _TARGETS else _BLOCKS
            named[int(at >= _TARGETS)] = (poses[at - first, 1:] - MEAN) / SPREAD
    return np.concatenate([named.ravel(), words]).astype(np.float32)


def without_target(words: Numbers) -> Numbers:
    """Leave only the block, as "pick up the red block" does."""
    only = np.zeros_like(words)
    only[_BLOCKS:_TARGETS] = words[_BLOCKS:_TARGETS]
    return only


@dataclass(frozen=True)
class Samples:
    """Frames that ask for key poses: those with the same label and key poses to come are one row."""

    told: Tensor
    """(N, TOLD)."""
    actions: Tensor
    """(N, 2, 6)."""
    late: Tensor
    """(N,) bool: the block is held, only the second key pose is still to come."""
    frames: Tensor
    """(N,): how many frames a row stands for."""

    def rows(self, count: int, generator: torch.Generator) -> Tensor:
        return torch.multinomial(self.frames, count, replacement=True, generator=generator)

    def inputs(self, rows: Tensor) -> dict[str, Tensor]:
        done = torch.stack([self.late[rows], torch.zeros(len(rows), dtype=torch.bool)], 1)
        state = torch.zeros(len(rows), len(STATE_NAMES))
        return {STATE: state, ENVIRONMENT: self.told[rows], "action_is_pad": done}


class Labels:
    """Labels of the first `count` demonstrated steps; a scene is an episode."""

    def __init__(self, steps: Demos, count: int, seed: int) -> None:
        count = min(count, len(steps.live))
        self._steps, self._rng = steps, np.random.default_rng(seed)
        self._words: list[Numbers] = [*steps.sub_tasks[:count]]
        self.standing = np.repeat(np.arange(count)[:, None], FRAMES, 1)
        """(steps, FRAMES): the entry of the words that stand over a frame."""
        self.follows = np.append(False, steps.live[1:count] == steps.goal[: count - 1] + 1)
        """True where another step of the scene comes before."""
        self._scene = np.cumsum(~self.follows)

    def spoil(self, fault: str, rate: float) -> None:
        """Give a share of the steps a fault; a `swapped` one has two steps."""
        pair = fault == "swapped"
        able = self.follows if fault in ("swapped", "shifted", "merged") else np.ones_like(self.follows)
        left, taken = round(rate * len(able) / (1 + pair)), np.zeros(len(able), bool)
        for step in self._rng.permutation(np.flatnonzero(able)):
            if left and not taken[step - pair : step + 1].any():
                taken[step - pair : step + 1] = True
                self._fault(fault, int(step))
                left -= 1

    def _fault(self, fault: str, step: int) -> None:
        label = self.standing
        match fault:
            case "wrong_object":
                label[step] = self._add(self._misnamed(step))
            case "swapped":
                label[[step - 1, step]] = label[[step, step - 1]]
            case "shifted" if self._rng.random() < 0.5:
                label[step, :SHIFT] = label[step - 1, -1]
            case "shifted":
                label[step - 1, -SHIFT:] = label[step, 0]
            case "merged":
                label[step] = label[step - 1, -1]
            case "split":
                label[step, :PICKING] = self._add(without_target(self._words[step]))
            case "other":
                label[step] = self._add(self._another(step))
            case "invented":
                start = int(self._rng.integers(FRAMES - INVENTED + 1))
                label[step, start : start + INVENTED] = self._add(self._another(step))

    def copy_from(self, profiles: NDArray[np.int64]) -> None:
        """Label each step as a measured one was, whose FRAMES frames are OWN and so on."""
        last = len(self.standing) - 1
        for step, profile in enumerate(profiles[self._rng.integers(len(profiles), size=last + 1)]):
            if (profile == PART).any():
                self.standing[step, profile == PART] = self._add(without_target(self._words[step]))
            if (profile == NONE).any():
                self.standing[step, profile == NONE] = self._add(np.zeros(WORDS, np.float32))
            if self.follows[step]:
                self.standing[step, profile == BEFORE] = step - 1
            if step < last and self.follows[step + 1]:
                self.standing[step, profile == AFTER] = step + 1

    def _add(self, words: Numbers) -> int:
        self._words.append(words)
        return len(self._words) - 1

    def _misnamed(self, step: int) -> Numbers:
        """Name another block or, as often, another target that is there."""
        goal, poses = sub_goal_of(self._words[step]), self._steps.poses[self._steps.live[step]]
        there = {name for name, pose in zip(THINGS, poses, strict=True) if pose[0]}
        there -= {goal.object, goal.target}
        blocks = sorted(name for name in there if name.endswith("block"))
        targets = sorted(there.difference(blocks)) if goal.target.endswith("bowl") else blocks
        if self._rng.random() < 0.5 or not targets:
            return sub_task(SubGoal(goal.kind, str(self._rng.choice(blocks)), goal.target))
        return sub_task(SubGoal(goal.kind, goal.object, str(self._rng.choice(targets))))

    def _another(self, step: int) -> Numbers:
        """Give the words of another step of the scene that asks for something else."""
        near = np.flatnonzero(self._scene == self._scene[step])
        others = [i for i in near if (self._words[i] != self._words[step]).any()]
        return self._words[int(self._rng.choice(others))] if others else self._misnamed(step)

    def samples(self) -> Samples:
        """Count the frames that ask for key poses, by step, label and what is still to come."""
        rows = [
            (step, entry, late, frames)
            for step, labels in enumerate(self.standing)
            for late, span in ((False, slice(PICKING)), (True, slice(PICKING, PLACING)))
            for entry, frames in zip(*np.unique(labels[span], return_counts=True), strict=True)
        ]
        steps, entries, late, frames = (np.array(column) for column in zip(*rows, strict=True))
        poses = self._steps.poses[self._steps.live[steps]]
        told = np.stack([tell(at, self._words[entry]) for at, entry in zip(poses, entries, strict=True)])
        actions = torch.from_numpy(self._steps.actions[steps])
        weights = torch.from_numpy(frames).float()
        return Samples(torch.from_numpy(told), actions, torch.from_numpy(late), weights)

    @property
    def mislabelled(self) -> float:
        """The share of the asking frames over which other words stand than those of their step."""
        own = np.arange(len(self.standing))[:, None]
        return float((self.standing != own)[:, :PLACING].mean())
