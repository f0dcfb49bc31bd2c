"""The tasks of an arm: who is shown what, and how each is carried out."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from goalreel.models.model_set import ModelSet
from goalreel.types import Critic, Planner, Storyboard
from goalreel_lab.bench.loop import boards
from goalreel_lab.bench.scenes import Walk
from goalreel_lab.policy.arms import GATES, GoalArm, cues_of, pictures_of
from goalreel_lab.policy.gate import GateEnd, GateRules, roll_gated
from goalreel_lab.policy.rollout import Actor, Bounds, GoalCue, OnStep, Rolled, roll

type ArmEnd = Rolled | GateEnd


@dataclass(frozen=True)
class ArmModels:
    """Models that arms need."""

    model_set: ModelSet
    """Makes storyboards; its answers are kept."""
    planner: Planner
    """Continues plans within a task, whose end is kept whole."""
    live_critic: Critic
    """Looks at live views within a task."""


@dataclass(frozen=True)
class ArmTask:
    """A task under an arm."""

    seed: int
    shown: str
    """Digest of what a policy is shown, and of the models that look."""
    end_type: type[Rolled] | type[GateEnd]
    carry_out: Callable[[Actor, OnStep], ArmEnd]


def arm_tasks(
    arm: GoalArm, walks: Sequence[Walk], models: ArmModels | None, words: bool, bounds: Bounds
) -> list[ArmTask]:
    """Make what an arm shows, and the tasks with it.

    Args:
        models: for the arms of `PREDICTED`.
        words: whether a sub-task's words come with its goal image.
    """
    if arm in GATES:
        assert models is not None
        model_set, preset = models.model_set, models.model_set.provenance.preset
        rules = GateRules(arm, model_set, models.planner, models.live_critic, words, bounds)
        storyboards = boards(
            walks, model_set.planner, model_set.editor, model_set.critic, preset.max_attempts, preset.keep
        )
        return [_gated(walk, board, rules) for walk, board in zip(walks, storyboards, strict=True)]
    pictures = pictures_of(arm, walks, models.model_set if models else None)
    return [_rolled(w, cues_of(arm, w, p, words), bounds) for w, p in zip(walks, pictures, strict=True)]


def _rolled(walk: Walk, cues: Sequence[GoalCue], bounds: Bounds) -> ArmTask:
    digest = hashlib.sha256()
    for cue in cues:
        digest.update(b"" if cue.picture is None else cue.picture.pixels.tobytes())

    def carry_out(actor: Actor, on_step: OnStep) -> Rolled:
        return roll(walk, actor, cues, bounds, on_step)

    return ArmTask(walk.seed, digest.hexdigest()[:16], Rolled, carry_out)


def _gated(walk: Walk, board: Storyboard, rules: GateRules) -> ArmTask:
    keys, preset = rules.model_set.provenance.keys(), rules.model_set.provenance.preset
    digest = hashlib.sha256(f"{keys} {preset.max_attempts} {preset.keep}".encode())
    for step in board.steps:
        digest.update(step.step.model_dump_json().encode())
        digest.update(b"" if step.goal_image is None else step.goal_image.pixels.tobytes())
    return ArmTask(walk.seed, digest.hexdigest()[:16], GateEnd, partial(roll_gated, walk, board, rules))
