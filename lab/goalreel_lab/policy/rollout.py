"""One task carried out by a policy: sub-goal after sub-goal, the next one when the last is reached."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from goalreel.tabletop.env import Tabletop
from goalreel.tabletop.scene import SubGoal
from goalreel_lab.bench.closed import go_home
from goalreel_lab.bench.scenes import Walk
from goalreel_lab.policy.acting import Acts, GoalCue
from goalreel_lab.policy.keyposes import approach

EXACT = 0.015
"""So far, in x and y (m), a block may lie from its spot and count as exactly there."""
MOST_POSES = 4
"""Key poses of one try: a policy that never lets go is stopped."""


class Actor(Protocol):
    """What acts: `LeRobotActor`, or a script."""

    acts: Acts

    def reset(self) -> None: ...

    def act(self, env: Tabletop, cue: GoalCue) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class Bounds:
    """How long a policy may take for a sub-goal: tries of key poses, or control steps."""

    tries: int = 3
    steps: int = 150


class PolicyEnd(BaseModel):
    """How a task ended."""

    model_config = ConfigDict(frozen=True)

    measures: ClassVar[tuple[str, ...]] = ("success",)
    """What is measured of such ends (`intervals.measure_seeds`)."""
    success: bool
    """All sub-goals of the instruction hold at the end."""


class Rolled(PolicyEnd):
    """How a task ended in which the simulator said when a sub-goal was reached."""

    measures: ClassVar[tuple[str, ...]] = ("success", "reached", "exact", "length", "first_right")
    reached: int
    """Sub-goals reached in their order, before the first that was not."""
    goals: int
    exact: int
    """Sub-goals reached whose block lies within EXACT of where the true goal image shows it."""
    first_right: bool
    """The first block that a finger touched is the first sub-goal's."""


type OnStep = Callable[[Tabletop, GoalCue], None]
"""Sees every control step of a policy, and what it is told then."""


def no_film(env: Tabletop, cue: GoalCue) -> None:
    """See nothing."""


def roll(
    walk: Walk, actor: Actor, cues: Sequence[GoalCue], bounds: Bounds, on_step: OnStep = no_film
) -> Rolled:
    """Carry out a task; `cues[i]` is what the actor is told of sub-goal i.

    Whether a sub-goal is reached the simulator says, alike for every arm. A policy that samples its actions
    draws the same ones whenever the task is carried out.
    """
    with torch.random.fork_rng(), Tabletop(walk.episode.scene) as env:
        torch.manual_seed(walk.seed)
        hand = PolicyHand(env, cues[0], on_step)
        reached = exact = 0
        for goal, cue, moment in zip(walk.goals, cues, walk.moments[1:], strict=True):
            actor.reset()
            hand.cue = cue
            _pursue(hand, actor, goal, bounds)
            if not env.holds(goal):
                break
            reached += 1
            away = env.layout()[goal.object] - moment.layout[goal.object]
            exact += bool(np.linalg.norm(away[:2]) <= EXACT)
        return Rolled(
            reached=reached,
            goals=len(walk.goals),
            exact=exact,
            success=all(env.holds(g) for g in walk.goals),
            first_right=hand.first == walk.goals[0].object,
        )


class PolicyHand:
    """Steps the environment for what it is told now, and notes which block is touched first."""

    def __init__(self, env: Tabletop, cue: GoalCue, on_step: OnStep) -> None:
        self.env, self.cue, self._on_step = env, cue, on_step
        self.first: str | None = None

    def step(self, action: NDArray[np.float32]) -> None:
        self.env.step(action)
        if self.first is None:
            self.first = next(iter(self.env.touched()), None)
        self._on_step(self.env, self.cue)


def _pursue(hand: PolicyHand, actor: Actor, goal: SubGoal, bounds: Bounds) -> None:
    env = hand.env
    if actor.acts == "steps":
        for _ in range(bounds.steps):
            if env.holds(goal) and env.still(goal.object):
                return
            hand.step(actor.act(env, hand.cue))
        return
    for _ in range(bounds.tries):
        if env.holds(goal):
            return
        try_once(hand, actor, bounds)


def try_once(hand: PolicyHand, actor: Actor, bounds: Bounds) -> None:
    """Let a policy try once, and bring the arm home: key poses until one lets go, or so many control steps.

    The simulator is not asked whether the sub-goal is reached.
    """
    env, cue = hand.env, hand.cue
    actor.reset()
    if actor.acts == "steps":
        for _ in range(bounds.steps):
            hand.step(actor.act(env, cue))
    else:
        for _ in range(MOST_POSES):
            pose = actor.act(env, cue)
            if cue.spot is not None and pose[5] >= 0:
                pose = np.array([*cue.spot, *pose[2:]], pose.dtype)
            for action, _ in approach(env, pose):
                hand.step(action)
            if pose[5] >= 0:
                break
    go_home(env)
