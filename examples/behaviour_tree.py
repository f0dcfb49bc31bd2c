"""A behaviour tree that has a goalreel node carry out an instruction, while a policy acts on each sub-goal.

Two leaves run side by side. `ExecuteTask`, of `goalreel_ros.client.tree`, has the node plan, draw and watch;
it ends with the task, or when the node is gone. `Policy` asks for an action in each tick. A sub-goal that
takes longer than --patience has the rest planned anew, --replans times; then the tree fails, which cancels
the task. No tick waits for anything. Replace `act` by your policy. Needs rclpy and py_trees.

goalreel node --preset server --camera /wrist_camera
python examples/behaviour_tree.py "put the red block in the bowl"
"""

import argparse
import sys
import time

from py_trees.behaviour import Behaviour
from py_trees.common import ParallelPolicy, Status
from py_trees.composites import Parallel
from py_trees.display import unicode_tree
from rclpy.utilities import remove_ros_args

from goalreel_interfaces.msg import SubGoal
from goalreel_ros.client import GoalreelClient
from goalreel_ros.client.tree import ExecuteTask

PERIOD = 0.1


def act(goal: SubGoal) -> None:
    """One step of your policy towards `goal.name` and `goal.goal_image`. This one only waits."""


class Policy(Behaviour):
    """Acts while there is a sub-goal, and has the rest planned anew where one takes too long."""

    def __init__(self, task: ExecuteTask, patience: float, replans: int) -> None:
        super().__init__("Policy")
        self.task, self.patience, self.replans = task, patience, replans
        self.goal: SubGoal | None = None
        self.deadline = 0.0

    def update(self) -> Status:
        goal = self.task.board.subgoal
        if goal is None:
            self.feedback_message = "hold still"
            return Status.RUNNING
        if self.goal is None or goal.header != self.goal.header:
            self.goal, self.deadline = goal, time.monotonic() + self.patience
        if time.monotonic() > self.deadline:
            if not self.replans or self.task.run is None:
                self.feedback_message = "no re-plan is left"
                return Status.FAILURE
            self.replans -= 1
            self.deadline = time.monotonic() + self.patience
            self.task.run.replan("the policy does not get there")
        self.feedback_message = goal.name
        act(goal)
        return Status.RUNNING


def tree(task: ExecuteTask, patience: float, replans: int) -> Behaviour:
    """The whole tree; `patience` in seconds a sub-goal."""
    policy = ParallelPolicy.SuccessOnSelected([task], synchronise=False)
    return Parallel("do it", policy, children=[task, Policy(task, patience, replans)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("instruction")
    parser.add_argument("--node", default="goalreel", help="its name; /left/goalreel in a namespace")
    parser.add_argument("--patience", type=float, default=60, help="seconds a sub-goal")
    parser.add_argument("--replans", type=int, default=1)
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])

    with GoalreelClient(server=options.node) as client:
        client.wait_until_active(timeout=60)
        task = ExecuteTask("ExecuteTask", client, options.instruction)
        root, picture = tree(task, options.patience, options.replans), ""
        try:
            while root.status in (Status.INVALID, Status.RUNNING):
                root.tick_once()
                if (looks := unicode_tree(root, show_status=True)) != picture:
                    print(looks, flush=True)
                    picture = looks
                time.sleep(PERIOD)
        finally:
            if task.run is not None and not task.run.done:
                task.run.cancel()
                task.run.wait(5)
    raise SystemExit(root.status is not Status.SUCCESS)


if __name__ == "__main__":
    main()
