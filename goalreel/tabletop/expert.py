"""The scripted expert: pick and place, for one sub-goal or to a given spot, as a generator of actions.

It reads the environment before every action and never steps it; its caller does:

    for action, phase in pick_and_place(env, goal):
        env.step(action)
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from goalreel.tabletop.env import HOME_TIP, Tabletop
from goalreel.tabletop.scene import BOWL_RADIUS, HALF, Floats, SceneLayout, SubGoal, find_spot, is_bowl

PHASES = ("reach", "grasp", "lift", "move", "place", "retreat")
OPEN, CLOSED = 0.8, -1.0
"""Gripper commands; OPEN leaves 11 mm on either side of a block, and room inside a bowl."""
CRUISE = 0.21
"""Fingertip height at which a held block passes over a tower of three (m)."""
SPEED, TURN = 0.035, 0.30
"""Largest step of the fingertip (m) and of the yaw (rad) in one action."""
PALM, FINGERS = 0.085, 0.050
"""Reach of the palm, and of the open fingers, to either side (m)."""
LONGEST = 40
"""No leg of a phase takes longer than this many actions."""

type Move = tuple[NDArray[np.float32], str]


def pick_and_place(env: Tabletop, goal: SubGoal) -> Iterator[Move]:
    """Yield actions (5,) float32 with their phase; the last leaves the arm at home, the hand empty."""

    def where() -> tuple[Floats, float]:
        spot, _ = find_spot(env.layout(), goal)
        return spot, env.block_yaw(goal.target) if goal.kind == "on" else 0.0

    return carry(env, goal.object, where)


def carry(env: Tabletop, block: str, where: Callable[[], tuple[Floats, float]]) -> Iterator[Move]:
    """Yield actions (5,) float32 with their phase that carry a block to a spot.

    `where` is asked once the block is lifted: the centre (3,) in m and the yaw (rad) wanted.
    """
    at = env.layout()[block]
    grip_yaw = clear_yaw(env.layout(), block, at, env.block_yaw(block), env.yaw)
    yield from take_hold(env, at + np.array([0, 0, 0.002]), max(at[2] + 0.09, 0.15), grip_yaw)

    layout = env.layout()
    spot, square = where()
    turn = square - env.block_yaw(block)
    place_yaw = clear_yaw(layout, block, spot, env.yaw + turn, env.yaw)
    grasp_offset = env.tip - layout[block]
    grasp_offset[:2] = _rotate(grasp_offset[:2], place_yaw - env.yaw)
    above = spot + grasp_offset
    yield from let_go(env, above + np.array([0, 0, 0.003]), max(above[2] + 0.08, 0.16), place_yaw)


def take_hold(env: Tabletop, tip: Floats, over: float, yaw: float) -> Iterator[Move]:
    """Reach `over` (z, m) the fingertip's place `tip` (3,) and down to it, close the hand, lift."""
    yield from _go(env, "reach", [*tip[:2], over], yaw, OPEN)
    yield from _go(env, "grasp", tip, yaw, OPEN)
    yield from wait(env, "grasp", 1, OPEN)
    yield from wait(env, "grasp", 3, CLOSED)
    yield from _go(env, "lift", [*env.tip[:2], CRUISE], yaw, CLOSED)


def let_go(env: Tabletop, tip: Floats, over: float, yaw: float) -> Iterator[Move]:
    """Carry to `tip` (3,), open the hand, rise to `over` (z, m) and go home."""
    yield from _go(env, "move", [*tip[:2], CRUISE], yaw, CLOSED)
    yield from _go(env, "place", tip, yaw, CLOSED)
    yield from wait(env, "place", 1, CLOSED)
    yield from wait(env, "place", 3, OPEN)
    yield from _go(env, "retreat", [*env.tip[:2], over], yaw, OPEN)
    yield from _go(env, "retreat", HOME_TIP, 0.0, OPEN, speed=1.6)
    yield from wait(env, "retreat", 1, OPEN)


def _go(
    env: Tabletop, phase: str, to: ArrayLike, yaw: float, grip: float, speed: float = 1
) -> Iterator[Move]:
    """Move the commanded fingertip in a straight line until it is there."""
    tip = np.asarray(to)
    for _ in range(LONGEST):
        away = tip - env.tip
        step = away * min(1.0, speed * SPEED / max(float(np.linalg.norm(away)), 1e-9))
        turn = float(np.clip(yaw - env.yaw, -TURN, TURN))
        yield np.array([*step, turn, grip], np.float32), phase
        if np.abs(tip - env.tip).max() < 1e-4 and abs(yaw - env.yaw) < 1e-3:
            return


def wait(env: Tabletop, phase: str, steps: int, grip: float) -> Iterator[Move]:
    """Hold still while the fingers move."""
    for _ in range(steps):
        yield np.array([0, 0, 0, 0, grip], np.float32), phase


def _rotate(v: Floats, angle: float) -> Floats:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([c * v[0] - s * v[1], s * v[0] + c * v[1]])


def clear_yaw(layout: SceneLayout, block: str, at: Floats, yaw: float, now: float) -> float:
    """Choose a way to grip a cube at `at`: the nearest to `now` of those whose hand stays clear."""

    def cost(candidate: float) -> float:
        across = _rotate(np.array([0.0, 1.0]), candidate)
        gaps = [_gap(p - at, across, is_bowl(name)) for name, p in layout.items() if name != block]
        crowded = max(0.0, 0.015 - min(gaps, default=1.0))
        return 1000 * crowded + abs(candidate - now)

    ways = [yaw + quarter * math.pi / 2 for quarter in (-2, -1, 0, 1, 2)]
    return min((w for w in ways if abs(w) < 1.65), key=cost)


def _gap(away: Floats, across: Floats, bowl: bool) -> float:
    """The room (m) between a hand along `across`, (2,), and an object `away` from it, (3,).

    Next to what is on its own level the hand is as wide as its open fingers; next to what towers over that,
    as wide as the palm. What it is set down on or picked up from is no obstacle.
    """
    if np.linalg.norm(away[:2]) < 0.03:
        return 1.0
    half, thickness = (PALM, 0.025) if away[2] > HALF else (FINGERS, 0.0)
    nearest = float(np.clip(away[:2] @ across, -half, half)) * across
    radius = BOWL_RADIUS if bowl else 1.4 * HALF
    return float(np.linalg.norm(away[:2] - nearest)) - radius - thickness


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
