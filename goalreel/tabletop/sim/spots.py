"""Where to set a block down so that a sub-goal becomes true and nothing else is disturbed."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from goalreel.tabletop.sim.predicates import DIRECTIONS, SubGoal
from goalreel.tabletop.sim.scene import BOWL_FLOOR, BOWL_RADIUS, HALF, WORKSPACE, SceneLayout, is_bowl

BLOCK_CLEARANCE = 0.090
"""Least distance between centres, so that open fingers fit beside a neighbour (m)."""
BOWL_CLEARANCE = BOWL_RADIUS + 0.043
REACH = 0.03
"""How far beyond the starting area a block may be set down (m)."""


def find_spot(layout: SceneLayout, goal: SubGoal) -> tuple[NDArray[np.float64], float]:
    """Find where the block's centre should come to rest, (3,), and the room to spare there in m.

    Negative room means that something stands too close. Of several places the first with 2 cm to spare is
    taken, else the roomiest.
    """
    best, room = None, -np.inf
    for place in spots(layout, goal):
        clearance = room_at(layout, goal, place)
        if clearance > room:
            best, room = place, clearance
        if room >= 0.02:
            break
    assert best is not None
    return best, float(room)


def spots(layout: SceneLayout, goal: SubGoal) -> Iterator[NDArray[np.float64]]:
    """Yield places that satisfy the goal, best first."""
    target = layout[goal.target]
    if goal.kind == "inside":
        yield np.array([*target[:2], BOWL_FLOOR + HALF])
    elif goal.kind == "on":
        yield target + np.array([0, 0, 2 * HALF])
    elif goal.kind == "out_of":
        grid = [
            np.array([x, y, HALF]) for x in np.arange(0.38, 0.68, 0.03) for y in np.arange(-0.27, 0.28, 0.03)
        ]
        # Nearest first, but rather towards the front camera than hidden behind the bowl.
        yield from sorted(grid, key=lambda p: np.linalg.norm(p[:2] - target[:2]) - 0.5 * p[0])
    else:
        nearest = BOWL_CLEARANCE + 0.005 if is_bowl(goal.target) else BLOCK_CLEARANCE + 0.005
        for distance in np.arange(nearest, nearest + 0.055, 0.01):
            yield np.array([*(target[:2] + distance * DIRECTIONS[goal.kind]), HALF])


def room_at(layout: SceneLayout, goal: SubGoal, place: NDArray[np.float64]) -> float:
    """Compute the metres to spare around a place (3,) for the goal's block.

    They are to its neighbours, and to the edge of the reachable area.
    """
    if goal.kind in ("inside", "on"):
        own_stack = {n for n, p in layout.items() if np.linalg.norm(p[:2] - layout[goal.target][:2]) < 0.03}
    else:
        own_stack = set()
    edge = min(min(v - low, high - v) for v, (low, high) in zip(place[:2], WORKSPACE, strict=True)) + REACH
    gaps = [
        float(np.linalg.norm(place[:2] - p[:2])) - (BOWL_CLEARANCE if is_bowl(n) else BLOCK_CLEARANCE)
        for n, p in layout.items()
        if n != goal.object and n not in own_stack
    ]
    return float(min([edge, *gaps]))
