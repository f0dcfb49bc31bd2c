"""Two robots, a node each in a namespace of its own, and one model server for both."""

from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from support.ros_bench import BLUE, GREEN, RED, Robot, rgb, seen
from support.ros_bench import node as start
from support.wait import until

from goalreel_ros.client import GoalreelClient

NAMES = {f"/{side}/goalreel: {part}" for side in ("left", "right") for part in ("camera", "models", "task")}
"""Names of the statuses in /diagnostics: an aggregator merges those of one name."""

pytestmark = pytest.mark.process


@pytest.fixture
def two(served):
    """Left and right: a node, a camera and a client each."""
    with ExitStack() as stack:
        sides = []
        for side in ("left", "right"):
            namespace = ["--ros-args", "-r", f"__ns:=/{side}"]
            node = stack.enter_context(start(*namespace[1:], url=served[1]))
            robot = Robot(args=namespace)
            stack.callback(robot.close)
            robot.film()
            client = stack.enter_context(GoalreelClient(timeout=60, args=namespace))
            client.wait_until_active(60)
            sides.append(SimpleNamespace(node=node, robot=robot, client=client))
        yield sides


def follows(side: SimpleNamespace, colour: str) -> bool:
    """True if its policy is told of that colour, in words and in the picture."""
    goal, picture = side.client.subgoal(), side.client.goal_image
    if goal is None or not goal.active or goal.instruction != colour or picture is None:
        return False
    return bool(np.abs(seen(picture).astype(int) - rgb(colour)).max() < 12)


def test_two_robots_with_one_model_server(two):
    left, right = two
    reports = left.robot.listen(DiagnosticArray, "/diagnostics", 10)
    task, other_task = left.client.execute(RED), right.client.execute(f"{GREEN}, {BLUE}")
    until(lambda: follows(left, RED) and follows(right, GREEN))
    right.robot.colour = GREEN
    until(lambda: follows(right, BLUE))
    assert follows(left, RED), "what one robot does is nothing to the other"
    left.robot.colour = RED
    assert len(task.result(60).storyboard.steps) == 1
    assert follows(right, BLUE)
    assert not other_task.done
    assert not left.client.subgoal().active
    until(lambda: {s.name for r in reports for s in r.status} == NAMES)
    assert {s.hardware_id for r in reports for s in r.status} == {"/left/goalreel", "/right/goalreel"}
    left.node.process.kill()
    right.robot.colour = BLUE
    assert len(other_task.result(60).storyboard.steps) == 2
