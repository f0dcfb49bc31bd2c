"""Arms of a study: what a policy is told of its sub-goals."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from goalreel.image import Image
from goalreel.models.model_set import ModelSet
from goalreel.types import Storyboard
from goalreel_lab.bench.loop import NoCritic, TruePlanner, boards
from goalreel_lab.bench.scenes import Walk
from goalreel_lab.policy.policy_tasks import WORDS, instruction, sub_task
from goalreel_lab.policy.rollout import GoalCue

type GateArm = Literal["open", "gate", "truth"]
GATES: tuple[GateArm, ...] = get_args(GateArm.__value__)
"""The models' storyboard, one step after the other. `open`: one try a step. `gate`: the Critic says from the
live view when a step is reached. `truth`: the simulator says it (`lab/goalreel_lab/policy/gate.py`)."""
type GoalArm = (
    Literal["instruction", "text", "true", "predicted", "predicted_once", "placebo", "black", "spot"]
    | GateArm
)
ARMS: tuple[GoalArm, ...] = (
    "instruction", "text", "true", "predicted", "predicted_once", "placebo", "black", "spot", *GATES
)  # fmt: skip
"""`instruction`: all of it in words, no picture. `text`: the present sub-task in words, no picture. `true`:
its true goal image. `predicted`: as editor and Critic make it. `predicted_once`: the editor's first attempt.
`placebo`: the goal image of another task. `black`: no picture where there could be one. `spot`: words, and
the coordinates where to let go, which a policy of key poses is made to use: the most that they can give."""
PICTURED: tuple[GoalArm, ...] = ("true", "predicted", "predicted_once", "placebo", *GATES)
"""They show a picture; whether the sub-task's words come with it is the caller's choice."""
PREDICTED: tuple[GoalArm, ...] = ("predicted", "predicted_once", *GATES)
"""They need models."""
SILENT = np.zeros(WORDS, np.float32)


def cues_of(arm: GoalArm, walk: Walk, pictures: Sequence[Image | None], with_words: bool) -> list[GoalCue]:
    """Make the cue of each sub-goal of a walk; `pictures` are the goal images of a pictured arm."""
    if arm == "instruction":
        instruction_cue = GoalCue(walk.episode.instruction, instruction(walk.episode.missions))
        return [instruction_cue] * len(walk.goals)
    if arm == "spot":
        return [
            GoalCue(goal.text, sub_task(goal), spot=spot_of(walk, i)) for i, goal in enumerate(walk.goals)
        ]
    if arm not in PICTURED:
        return [GoalCue(goal.text, sub_task(goal)) for goal in walk.goals]
    return [
        GoalCue(goal.text if with_words else "", sub_task(goal) if with_words else SILENT, picture)
        for goal, picture in zip(walk.goals, pictures, strict=True)
    ]


def spot_of(walk: Walk, index: int) -> tuple[float, float]:
    """Give x and y (m) where the true goal image of a sub-goal shows its block."""
    x, y, _ = walk.moments[index + 1].layout[walk.goals[index].object]
    return float(x), float(y)


def pictures_of(arm: GoalArm, walks: Sequence[Walk], model_set: ModelSet | None) -> list[list[Image | None]]:
    """Make the goal images of every walk's sub-goals; None where there is none.

    Predicted ones are a storyboard: rendered ahead, each from the one before, by the true orders, so that
    editor and Critic alone count. A step without any picture keeps the one before.
    """
    match arm:
        case "true":
            return [[m.picture for m in walk.moments[1:]] for walk in walks]
        case "placebo":
            return [_others(walk, walks[i - 1]) for i, walk in enumerate(walks)]
        case "predicted" | "predicted_once":
            assert model_set is not None
            once = arm == "predicted_once"
            critic = NoCritic() if once else model_set.critic
            planner, preset = TruePlanner({w.task.id: w for w in walks}), model_set.provenance.preset
            attempts = 1 if once else preset.max_attempts
            storyboards = boards(walks, planner, model_set.editor, critic, attempts, preset.keep)
            return [_shown(w, b) for w, b in zip(walks, storyboards, strict=True)]
        case _:
            return [[None] * len(walk.goals) for walk in walks]


def _others(walk: Walk, other: Walk) -> list[Image | None]:
    """Take another task's goal images, the last of them for all that it has not."""
    pictures = [m.picture for m in other.moments[1:]]
    return [pictures[min(i, len(pictures) - 1)] for i in range(len(walk.goals))]


def _shown(walk: Walk, board: Storyboard) -> list[Image | None]:
    pictures: list[Image | None] = []
    picture: Image | None = walk.moments[0].picture
    for step in board.steps:
        picture = step.goal_image or picture
        pictures.append(picture)
    return pictures
