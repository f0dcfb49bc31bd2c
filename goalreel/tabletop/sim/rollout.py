"""Runs an episode: the expert, or another policy, through every sub-goal in order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goalreel.tabletop.sim.env import Tabletop
from goalreel.tabletop.sim.expert import Move, pick_and_place
from goalreel.tabletop.sim.predicates import SubGoal

type Policy = Callable[[Tabletop, SubGoal], Iterator[Move]]


@dataclass(frozen=True)
class ControlStep:
    """One control step: what is about to be done (`action`, (5,)), in which sub-goal and phase."""

    goal: int
    phase: str
    action: NDArray[np.float32]


def rollout(
    env: Tabletop, goals: tuple[SubGoal, ...], policy: Policy = pick_and_place
) -> Iterator[ControlStep]:
    """Yield every step BEFORE its action is carried out, so that a picture taken then belongs to it."""
    for index, goal in enumerate(goals):
        for action, phase in policy(env, goal):
            yield ControlStep(index, phase, action)
            env.step(action)
