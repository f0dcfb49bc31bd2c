"""A node that goes on: deactivated in the middle of a task and activated again, its parameters changed."""

import pytest
from action_msgs.msg import GoalStatus
from rcl_interfaces.srv import DescribeParameters, SetParameters
from rclpy.parameter import Parameter
from sensor_msgs.msg import Image as RawImage
from support.ros_bench import GREEN, RED
from support.wait import until

from goalreel.streaming.board import ErrorCode
from goalreel_interfaces.action import ExecuteTask, GenerateStoryboard
from goalreel_interfaces.msg import SubGoal

pytestmark = pytest.mark.process

ABORTED, SUCCEEDED = GoalStatus.STATUS_ABORTED, GoalStatus.STATUS_SUCCEEDED


@pytest.mark.parametrize("phase", ["planner", "tracking"])
def test_deactivating_ends_the_task_and_tells_the_policy(robot, scripted, phase):
    goals, task = robot.listen(SubGoal, "goalreel/subgoal"), f"{RED}, {phase}"
    if phase == "tracking":
        handle = robot.send(ExecuteTask, "execute_task", task=task)
        until(lambda: goals and goals[-1].active)
        assert robot.change("deactivate")
    else:
        gate = getattr(scripted, phase).gate
        with gate.shut():
            calls = gate.calls
            handle = robot.send(ExecuteTask, "execute_task", task=task)
            until(lambda: gate.calls > calls)
            assert robot.change("deactivate")
    status, result = robot.result(handle)
    assert (status, result.error_code) == (ABORTED, ErrorCode.PREEMPTED)
    until(lambda: goals and goals[-1].task == task and not goals[-1].active)
    assert robot.change("activate")
    status, result = robot.result(robot.send(GenerateStoryboard, "generate_storyboard", task=GREEN))
    assert (status, result.error_msg) == (SUCCEEDED, "")


def test_parameters_while_it_runs(robot):
    names = ["gate", "preset", "max_replans", "on_model_failure"]
    described = robot.call(DescribeParameters, "describe_parameters", names=names).descriptors
    assert described[0].floating_point_range[0].to_value == 1.0
    assert ["fixed" in d.additional_constraints for d in described] == [False, True, False, False]

    def refused(name: str, value: object) -> str:
        parameter = Parameter(name, value=value).to_parameter_msg()
        [result] = robot.call(SetParameters, "set_parameters", parameters=[parameter]).results
        return "" if result.successful else result.reason

    assert "gate" in refused("gate", 2.0)
    assert "preset is fixed once the node is configured: clean it up first" in refused("preset", "klein")
    assert refused("preset", "server") == ""  # as it is
    assert "max_replans" in refused("max_replans", -1)
    assert "'text_only' or 'fail'" in refused("on_model_failure", "weep")
    assert refused("on_unverified", "fail") == ""
    task = f"never {RED}"
    status, result = robot.result(robot.send(GenerateStoryboard, "generate_storyboard", task=task))
    assert (status, result.error_code) == (ABORTED, ErrorCode.ATTEMPTS_EXHAUSTED)
    assert refused("contact_sheet_width", 640) == ""
    sheets = robot.listen(RawImage, "goalreel/storyboard/image")
    robot.result(robot.send(GenerateStoryboard, "generate_storyboard", task=RED))
    until(lambda: sheets and sheets[-1].width == 640)
    assert refused("on_unverified", "publish") == refused("contact_sheet_width", 1280) == ""
