"""Makes a sub-goal true without running the arm: its exact goal state, and so its exact goal image."""

from goalreel.datasets.tabletop.env import State, Tabletop
from goalreel.datasets.tabletop.predicates import SubGoal
from goalreel.datasets.tabletop.spots import find_spot


def teleport(env: Tabletop, goal: SubGoal) -> State:
    """Set the block down where the expert would, let it settle, arm at home; the state reached.

    Everything else stays where it is. Call it goal after goal to get an episode's goal images.

    Raises:
        ValueError: the sub-goal cannot be reached from here in one move; the environment is unchanged.
    """
    before = env.get_state()
    spot, _ = find_spot(env.layout(), goal)
    env.home()
    env.place(goal.object, spot, yaw=env.block_yaw(goal.target) if goal.kind == "on" else 0.0)
    env.settle(0.4)
    if not env.holds(goal) or not all(map(env.still, env.blocks)):
        env.set_state(before)
        raise ValueError(f"cannot {goal.text} from here in one move")
    return env.get_state()
