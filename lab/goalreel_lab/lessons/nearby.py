"""Places for a block just within, and just outside, the tolerance of a sub-goal's predicate."""

import math
from collections.abc import Iterator

import numpy as np

from goalreel.tabletop.scene import (
    BESIDE_MAX,
    BESIDE_SLACK,
    BOWL_FLOOR,
    BOWL_RADIUS,
    DIRECTIONS,
    HALF,
    WORKSPACE,
    Floats,
    SceneLayout,
    SubGoal,
    is_bowl,
)

SURE = 0.015
"""How far from the predicate's limit a place is chosen (m): more than a picture's reading is off."""
BEYOND = 0.045
"""How far outside the limit a near miss may be (m)."""

type BlockPlace = tuple[Floats, float]
"""A block's centre (3,) in m and its yaw in rad."""


def hits(rng: np.random.Generator, layout: SceneLayout, goal: SubGoal, count: int) -> Iterator[BlockPlace]:
    """Yield places where the sub-goal holds, not only where the expert would put the block."""
    for _ in range(count):
        yield _hit(rng, layout[goal.target], goal), float(rng.uniform(-0.6, 0.6))


def misses(rng: np.random.Generator, layout: SceneLayout, goal: SubGoal, count: int) -> Iterator[BlockPlace]:
    """Yield places where it just does not hold; none for `out_of`, which has no near side."""
    if goal.kind == "out_of":
        return
    for _ in range(count):
        spot = _miss(rng, layout[goal.target], goal)
        if _on_table(spot):
            yield spot, float(rng.uniform(-0.6, 0.6))


def _hit(rng: np.random.Generator, target: Floats, goal: SubGoal) -> Floats:
    if goal.kind == "inside":
        return _around(rng, target, rng.uniform(0, 0.012), BOWL_FLOOR + HALF)
    if goal.kind == "on":
        return _around(rng, target, rng.uniform(0, 0.010), target[2] + 2 * HALF)
    if goal.kind == "out_of":
        (x, y) = (rng.uniform(low, high) for low, high in WORKSPACE)
        return np.array([x, y, HALF])
    along = rng.uniform(_nearest(goal), BESIDE_MAX - SURE)
    return _beside(target, goal, along, rng.uniform(-1, 1) * (BESIDE_SLACK - SURE))


def _miss(rng: np.random.Generator, target: Floats, goal: SubGoal) -> Floats:
    if goal.kind == "inside":
        return _around(rng, target, BOWL_RADIUS + 1.5 * HALF + rng.uniform(0, BEYOND - SURE), HALF)
    if goal.kind == "on":
        return _around(rng, target, 2 * HALF + rng.uniform(0.008, BEYOND - SURE), HALF)
    outside = rng.uniform(SURE, BEYOND)
    if rng.random() < 0.5:
        return _beside(target, goal, BESIDE_MAX + outside, rng.uniform(-1, 1) * (BESIDE_SLACK - SURE))
    side = math.copysign(BESIDE_SLACK + outside, rng.uniform(-1, 1))
    return _beside(target, goal, rng.uniform(_nearest(goal), BESIDE_MAX - SURE), side)


def _nearest(goal: SubGoal) -> float:
    return (BOWL_RADIUS if is_bowl(goal.target) else HALF) + 1.5 * HALF + 0.002


def _around(rng: np.random.Generator, target: Floats, distance: float, height: float) -> Floats:
    angle = rng.uniform(-math.pi, math.pi)
    return np.array([target[0] + distance * math.cos(angle), target[1] + distance * math.sin(angle), height])


def _beside(target: Floats, goal: SubGoal, along: float, across: float) -> Floats:
    x, y = DIRECTIONS[goal.kind]
    offset = along * np.array([x, y]) + across * np.array([-y, x])
    return np.array([*(target[:2] + offset), HALF])


def _on_table(spot: Floats) -> bool:
    """Tell whether objects may stand there, in full view of the front camera."""
    return all(low - SURE <= v <= high + SURE for v, (low, high) in zip(spot[:2], WORKSPACE, strict=True))
