"""Makes a sub-goal true without running the arm: its exact goal state, and so its exact goal image."""

import numpy as np
from numpy.typing import NDArray

from goalreel.tabletop.sim.env import Tabletop, TabletopState
from goalreel.tabletop.sim.predicates import SubGoal
from goalreel.tabletop.sim.spots import find_spot

DROPS = (0.0, 0.001)
"""Heights to let go at (m). Rarely a cube set down exactly on another is thrown off by the solver; from a
millimetre above it is not."""


def teleport(env: Tabletop, goal: SubGoal, spot: NDArray[np.float64] | None = None) -> TabletopState:
    """Set the block down at `spot` (3,), or where the expert would, and give the state reached.

    The block settles while the arm is at home. Everything else stays where it is. Call it goal after goal to
    get an episode's goal images.

    Raises:
        ValueError: the sub-goal cannot be reached from here in one move; the environment is unchanged.
    """
    state_before = env.get_state()
    if spot is None:
        spot, _ = find_spot(env.layout(), goal)
    yaw = env.block_yaw(goal.target) if goal.kind == "on" else 0.0
    for drop in DROPS:
        env.home()
        env.place(goal.object, spot + np.array([0, 0, drop]), yaw)
        env.settle(0.4)
        if env.holds(goal) and all(map(env.still, env.blocks)):
            return env.get_state()
        env.set_state(state_before)
    raise ValueError(f"cannot {goal.text} from here in one move")
