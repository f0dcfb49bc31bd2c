"""A behaviour tree whose leaves drive a goalreel node: plan, pick by a policy, plan again, give up.

Each tick asks the policy for an action towards the present sub-goal, until the node sees that it is reached
and shows the next one. A sub-goal that takes longer than --patience has the rest planned anew, --replans
times; then, or when the node is gone, the tree gives up. Replace `act` by your policy. Needs rclpy and
py_trees.

goalreel node --preset server --camera /wrist_camera
python examples/behaviour_tree.py "put the red block in the bowl"
"""

import argparse
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Selector, Sequence
from py_trees.decorators import SuccessIsRunning, Timeout
from py_trees.display import unicode_tree
from rclpy.utilities import remove_ros_args

from goalreel_ros.client import GoalreelClient, GoalreelError, TaskHandle

PERIOD = 0.1


def act(name: str, picture: NDArray[np.uint8] | None) -> Status:
    """One step of your policy; SUCCESS or FAILURE where it can tell by itself. This one only waits."""
    return Status.RUNNING


@dataclass
class Job:
    """What the leaves share."""

    client: GoalreelClient
    instruction: str
    replans: int
    task: TaskHandle[Any, Any] | None = None


class Leaf(Behaviour):
    """Fails, and says why, where the client raises: a plan that failed, a node that is gone."""

    def __init__(self, job: Job) -> None:
        super().__init__(type(self).__name__)
        self.job = job

    def update(self) -> Status:
        try:
            return self.step()
        except (GoalreelError, TimeoutError) as e:
            self.feedback_message = str(e)
            return Status.FAILURE

    def step(self) -> Status:
        raise NotImplementedError


class Plan(Leaf):
    """Starts the task; the node plans and draws in the background."""

    def step(self) -> Status:
        self.job.task = self.job.client.execute(self.job.instruction)
        return Status.SUCCESS


class Finished(Leaf):
    """Whether all sub-goals are reached."""

    def step(self) -> Status:
        if self.job.task is None or not self.job.task.done:
            return Status.FAILURE
        self.job.task.result()
        return Status.SUCCESS


class WaitForSubgoal(Leaf):
    def step(self) -> Status:
        if self.job.task is None or self.job.task.done:
            return Status.FAILURE
        goal = self.job.client.subgoal()
        return Status.SUCCESS if goal is not None and goal.active else Status.RUNNING


class Pick(Leaf):
    """The policy, for as long as the sub-goal stands."""

    def initialise(self) -> None:
        self.goal = None

    def step(self) -> Status:
        goal = self.job.client.subgoal()
        if goal is None or not goal.active:
            return Status.RUNNING  # hold still
        self.goal = self.goal or goal
        if goal.header != self.goal.header:
            return Status.SUCCESS
        self.feedback_message = goal.name
        return act(goal.name, self.job.client.goal_image)


class Replan(Leaf):
    """Has the rest planned anew from what the camera sees now."""

    def step(self) -> Status:
        if not self.job.replans:
            self.feedback_message = "no re-plan is left"
            return Status.FAILURE
        self.job.replans -= 1
        self.job.client.replan("the policy does not get there")
        return Status.SUCCESS


class GiveUp(Leaf):
    """Stops the task. It fails, for nothing else can be tried."""

    def step(self) -> Status:
        if self.job.task is not None and not self.job.task.done:
            self.job.task.cancel()
        return Status.FAILURE


def tree(job: Job, patience: float) -> Behaviour:
    """The whole tree; `patience` in seconds a sub-goal."""
    pick = Timeout("patience", Pick(job), patience)
    reach = Sequence("sub-goal", memory=True, children=[
        WaitForSubgoal(job), Selector("pick or replan", memory=True, children=[pick, Replan(job)]),
    ])  # fmt: skip
    follow = Selector("until finished", memory=False, children=[
        Finished(job), SuccessIsRunning("again", reach),
    ])  # fmt: skip
    do = Sequence("do it", memory=True, children=[Plan(job), follow])
    return Selector("task", memory=True, children=[do, GiveUp(job)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("instruction")
    parser.add_argument("--node", default="goalreel", help="its name; /left/goalreel in a namespace")
    parser.add_argument("--patience", type=float, default=60, help="seconds a sub-goal")
    parser.add_argument("--replans", type=int, default=1)
    given = parser.parse_args(remove_ros_args(sys.argv)[1:])

    with GoalreelClient(server=given.node) as client:
        client.wait_until_active(timeout=60)
        job = Job(client, given.instruction, given.replans)
        root, shown = tree(job, given.patience), ""
        try:
            while root.status in (Status.INVALID, Status.RUNNING):
                root.tick_once()
                if (looks := unicode_tree(root, show_status=True)) != shown:
                    print(looks, flush=True)
                    shown = looks
                time.sleep(PERIOD)
        finally:
            if job.task is not None:
                with suppress(GoalreelError):
                    job.task.cancel()  # nothing happens if it is over
    raise SystemExit(root.status is not Status.SUCCESS)


if __name__ == "__main__":
    main()
