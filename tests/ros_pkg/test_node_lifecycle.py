"""The node's life: transitions, restarts, names, simulated time, its end; each test with its own process."""

import signal
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from action_msgs.msg import GoalStatus
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.srv import GetState
from std_msgs.msg import String
from support.ros import Other
from support.ros_bench import BLUE, GREEN, RED, Robot, command, near, node, node as start
from support.wait import until

from goalreel.streaming.board import ErrorCode
from goalreel_interfaces.action import ExecuteTask, GenerateStoryboard
from goalreel_interfaces.msg import Storyboard, SubGoal
from goalreel_interfaces.srv import Command, GetStoryboard, SetActiveStep, StartExecuteTask
from goalreel_ros.client import GoalreelClient
from goalreel_ros.pictures import decode

pytestmark = pytest.mark.process

ABORTED, SUCCEEDED = GoalStatus.STATUS_ABORTED, GoalStatus.STATUS_SUCCEEDED


@pytest.fixture
def robot(served):
    robot = Robot()
    robot.film()
    yield robot
    robot.close()


def where(robot) -> str:
    return robot.call(GetState, "get_state").current_state.label


def begin(robot, task: str) -> None:
    """Start a task. A topic may lose what is said the moment after it was discovered; a service does not."""
    assert robot.call(StartExecuteTask, "start/execute_task", task=task).error_code == ErrorCode.NONE


def assert_clean_end(process: Other, how: int) -> None:
    """A signal ends the node cleanly, whatever it is doing."""
    process.process.send_signal(how)
    assert process.process.wait(30) == 0, process.lines  # where a gate is shut, a model's call lasts longer
    assert not [line for line in process.lines if "Traceback" in line or "ERROR" in line]


def test_twice_through_the_life_of_a_node(served, robot):
    _, url = served
    with node(url=url, ready="unconfigured; ", autostart=False):
        assert where(robot) == "unconfigured"
        for _ in range(2):
            assert robot.change("configure")
            assert_inactive_answers(robot)
            assert robot.change("activate")
            status, result = robot.result(robot.send(GenerateStoryboard, "generate_storyboard", task=RED))
            assert (status, result.error_msg) == (SUCCEEDED, "")
            assert robot.change("deactivate")
            assert_inactive_answers(robot)
            assert robot.change("cleanup")
            assert where(robot) == "unconfigured"
            until(lambda: robot.node.count_publishers("/goalreel/storyboard") == 0)
        assert robot.change("configure")
        assert robot.change("activate")
        goals = robot.listen(SubGoal, "goalreel/subgoal")
        begin(robot, RED)
        until(lambda: goals and goals[-1].active)
        assert robot.change("active_shutdown")
        assert where(robot) == "finalized"
        until(lambda: not goals[-1].active)  # in the midst of a task


def assert_inactive_answers(robot) -> None:
    boards = robot.listen(Storyboard, "goalreel/storyboard")
    goals = robot.listen(SubGoal, "goalreel/subgoal")
    until(lambda: boards and goals)
    assert not goals[-1].active
    assert goals[-1].header.stamp.sec > 0
    for kind, name, fields in (
        (GetStoryboard, "get_storyboard", {}),
        (Command, "pause", {}),
        (SetActiveStep, "set_active_step", {}),
        (StartExecuteTask, "start/execute_task", {"task": RED}),
    ):
        answer = robot.call(kind, name, **fields)
        assert answer.error_code == ErrorCode.NOT_ACTIVE
        assert "not active" in answer.error_msg
    for kind, name in ((ExecuteTask, "execute_task"), (GenerateStoryboard, "generate_storyboard")):
        status, result = robot.result(robot.send(kind, name, task=RED))
        assert (status, result.error_code) == (ABORTED, ErrorCode.NOT_ACTIVE)


def test_namespaces_remapping_compressed_images_and_another_frame(served):
    scripted, url = served
    robot = Robot("/arm/goalreel", args=["--ros-args", "-r", "__ns:=/arm"], image="/cam/color/image_raw")
    names = ("-r", "__ns:=/arm", "-r", "image:=/cam/color/image_raw", "-r", "~/subgoal:=/policy/goal")
    try:
        with node(*names, url=url, image_transport="compressed", frame_id="mine") as process:
            goals = robot.listen(SubGoal, "/policy/goal")
            texts = robot.listen(String, "/arm/goalreel/subgoal/instruction")
            robot.film(robot.jpeg)
            begin(robot, RED)
            until(lambda: goals and goals[-1].active)
            assert goals[-1].header.frame_id == "mine"
            assert decode(goals[-1].goal_image).size == (64, 48)
            until(lambda: texts and texts[-1].data == RED)
            gate = scripted.planner.gate
            with gate.shut():  # a signal ends it while a model keeps it waiting
                calls = gate.calls
                begin(robot, GREEN)
                until(lambda: gate.calls > calls)
                assert_clean_end(process, signal.SIGTERM)
            until(lambda: not goals[-1].active)
    finally:
        robot.close()


def test_a_signal_ends_it_cleanly_while_a_model_loads():
    process = Other(*command(module=("support.slow_node",)))
    until(lambda: any("loading the planner" in line for line in process.lines), 60)
    assert_clean_end(process, signal.SIGTERM)


NAMES = {f"/{side}/goalreel: {part}" for side in ("left", "right") for part in ("camera", "models", "task")}
"""Names of the statuses in /diagnostics: an aggregator merges those of one name."""


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
            client.wait_until_active(600)
            sides.append(SimpleNamespace(node=node, robot=robot, client=client))
        yield sides


def follows(side: SimpleNamespace, colour: str) -> bool:
    """True if its policy is told of that colour, in words and in the picture."""
    goal, picture = side.client.subgoal(), side.client.goal_image
    return goal is not None and goal.instruction == colour and near(picture, colour)


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
