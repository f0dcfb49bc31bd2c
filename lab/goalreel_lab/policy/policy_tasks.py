"""Tasks of policies, by condition, and their words as a vector."""

import math
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from goalreel.tabletop.env import REACH, Tabletop
from goalreel.tabletop.expert import Move, clear_yaw, let_go, take_hold
from goalreel.tabletop.grammar import JOINS, Mission, TabletopEpisode, join, sample_missions
from goalreel.tabletop.scene import COLOURS, KINDS, Floats, SubGoal, find_spot, sample_scene
from goalreel_lab.corpora.composition import PAIRS

type Condition = Literal["seen", "new_pair", "new_word", "long", "unnamed"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition.__value__)
"""`seen`: 1 to 3 sub-goals as in training. `new_pair`: with a block and a place that training never joins.
`new_word`: with NEW_WORD, which training shows but never speaks of or moves. `long`: 4 or 5 sub-goals, where
training has 3 at most. `unnamed`: an instruction that names no block, such as to sort them by colour."""
NEW_WORD = "purple block"
LONGEST, LONGEST_TRAINED = 5, 3
UNNAMED = ("sort", "clear_all")
"""Missions whose plainest words name no block."""

IMAGES, STATE = "observation.images.", "observation.state"
ENVIRONMENT = "observation.environment_state"
"""Words as a vector, for policies that read no text."""

_PHRASES = (*KINDS, *UNNAMED)
_OBJECTS = tuple(f"{c} block" for c in COLOURS)
_TARGETS = (*_OBJECTS, *(f"{c} bowl" for c in COLOURS))
_SLOT = len(_PHRASES) + len(_OBJECTS) + len(_TARGETS)
WORDS = LONGEST * _SLOT
"""Numbers in a vector of words."""


def sample_task(condition: Condition, seed: int) -> TabletopEpisode:
    """Draw the task of a seed, the same for ever: a scene, an instruction and its ordered sub-goals."""
    rng = np.random.default_rng([seed, CONDITIONS.index(condition)])
    low, high = {"long": (LONGEST_TRAINED + 1, LONGEST), "unnamed": (2, LONGEST_TRAINED)}.get(
        condition, (1, LONGEST_TRAINED)
    )
    count = int(rng.integers(low, high + 1))
    while True:
        scene = sample_scene(rng, int(rng.integers(max(3, count), 7)), bowls=int(rng.integers(1, 4)))
        missions = scene and sample_missions(rng, scene, scene.layout(), count)
        if scene and missions and _fits(condition, missions):
            text = join([m.text for m in missions], int(rng.integers(JOINS)))
            return TabletopEpisode(seed, scene, text, tuple(missions))


def _fits(condition: Condition, missions: Sequence[Mission]) -> bool:
    goals = [goal for mission in missions for goal in mission.goals]
    match condition:
        case "new_pair":
            return any(g in PAIRS for g in goals) and not any(_speaks_of_new(g) for g in goals)
        case "new_word":
            return any(g.object == NEW_WORD for g in goals) and not any(g in PAIRS for g in goals)
        case "unnamed":
            return len(missions) == 1 and missions[0].kind in UNNAMED and trained(goals)
        case _:
            return trained(goals)


def trained(goals: Sequence[SubGoal]) -> bool:
    """Tell whether demonstrations may have these sub-goals: no pair and no word that is held out."""
    return not any(g in PAIRS or _speaks_of_new(g) for g in goals)


def _speaks_of_new(goal: SubGoal) -> bool:
    return NEW_WORD in (goal.object, goal.target)


def sub_task(goal: SubGoal) -> NDArray[np.float32]:
    """Encode one sub-goal, (WORDS,): what, which block, where to, one-hot in the first of LONGEST slots."""
    return _vector([_slot(goal.kind, goal)])


def sub_goal_of(vector: NDArray[np.float32]) -> SubGoal:
    """Read the sub-goal that `sub_task` encoded, (WORDS,).

    >>> sub_goal_of(sub_task(SubGoal("inside", "red block", "blue bowl"))).text
    'put the red block in the blue bowl'
    """
    phrase, thing, target = np.flatnonzero(vector[:_SLOT])
    first = len(_PHRASES)
    return SubGoal(KINDS[phrase], _OBJECTS[thing - first], _TARGETS[target - first - len(_OBJECTS)])


def instruction(missions: Sequence[Mission]) -> NDArray[np.float32]:
    """Encode all that is asked for, (WORDS,), a slot a clause; a mission of UNNAMED names nothing."""
    slots = []
    for mission in missions:
        names_objects = mission.kind not in UNNAMED
        slots += [_slot(g.kind, g) for g in mission.goals] if names_objects else [_slot(mission.kind, None)]
    return _vector(slots)


def _vector(slots: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    vector = np.zeros((LONGEST, _SLOT), np.float32)
    vector[: len(slots)] = slots
    return vector.ravel()


def _slot(phrase: str, goal: SubGoal | None) -> NDArray[np.float32]:
    slot = np.zeros(_SLOT, np.float32)
    slot[_PHRASES.index(phrase)] = 1
    if goal is not None:
        slot[len(_PHRASES) + _OBJECTS.index(goal.object)] = 1
        slot[len(_PHRASES) + len(_OBJECTS) + _TARGETS.index(goal.target)] = 1
    return slot


KEY_POSE_NAMES = ("x", "y", "z", "cos_2yaw", "sin_2yaw", "gripper")


def key_poses(env: Tabletop, goal: SubGoal) -> NDArray[np.float32]:
    """Compute the two key poses (2, 6) by which the expert would reach a sub-goal from here."""
    layout, turned = env.layout(), env.block_yaw(goal.object)
    at = layout[goal.object]
    grip = clear_yaw(layout, goal.object, at, turned, env.yaw)
    spot, _ = find_spot(layout, goal)
    square = env.block_yaw(goal.target) if goal.kind == "on" else 0.0
    put = clear_yaw(layout, goal.object, spot, grip + square - turned, grip)
    return np.stack([_pose(at, 0.002, grip, -1), _pose(spot, 0.005, put, 1)])


def _pose(centre: Floats, above: float, yaw: float, gripper: float) -> NDArray[np.float32]:
    x, y, z = centre
    return np.array([x, y, z + above, math.cos(2 * yaw), math.sin(2 * yaw), gripper], np.float32)


def approach(env: Tabletop, pose: NDArray[np.floating]) -> Iterator[Move]:
    """Yield actions of `Tabletop.step` that carry out a key pose (6,), clipped to what the arm reaches.

    To it from above, the gripper as commanded, up again; with an open hand home.
    """
    tip = np.clip(np.asarray(pose[:3], np.float64), *REACH)
    yaw = math.atan2(float(pose[4]), float(pose[3])) / 2
    if pose[5] < 0:
        return take_hold(env, tip, max(tip[2] + 0.09, 0.15), yaw)
    return let_go(env, tip, max(tip[2] + 0.08, 0.16), yaw)
