"""A camera that misbehaves: each case has an outcome that docs/reference/ros-failures.md names."""

import pytest
from action_msgs.msg import GoalStatus
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rcl_interfaces.srv import SetParameters
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import ReliabilityPolicy
from sensor_msgs.msg import CameraInfo, Image as RawImage
from support.ros_bench import GREEN, RED, Robot
from support.wait import until

from goalreel.streaming.board import ErrorCode
from goalreel.streaming.camera import FrameSlot
from goalreel_interfaces.action import ExecuteTask, GenerateStoryboard
from goalreel_interfaces.msg import Storyboard, SubGoal
from goalreel_interfaces.srv import Command, GetStoryboard
from goalreel_ros.cameras import CameraInputs
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.pictures import decode

pytestmark = pytest.mark.process

ABORTED, SUCCEEDED = GoalStatus.STATUS_ABORTED, GoalStatus.STATUS_SUCCEEDED
PATIENT = {"image_timeout": 20.0, "max_image_age": 2.0, "stall_timeout": 60.0}


@pytest.fixture(scope="module")
def node_parameters():
    return PATIENT | {"qos_overrides./goalreel/progress.publisher.reliability": "best_effort"}


@pytest.fixture(scope="module")
def robot(node):
    """Its camera is off."""
    robot = Robot()
    yield robot
    robot.close()


@pytest.fixture(autouse=True)
def _quiet(robot):
    robot.colour = None
    yield
    robot.call(Command, "cancel")
    robot.stop_filming()


@pytest.fixture
def impatient(robot):
    """For a camera that fails."""
    give(robot, {"image_timeout": 1.0, "max_image_age": 0.5})
    yield
    give(robot, PATIENT)


def give(robot, parameters: dict[str, float]) -> None:
    given = [Parameter(name, value=value).to_parameter_msg() for name, value in parameters.items()]
    done = robot.call(SetParameters, "set_parameters", parameters=given)
    assert all(r.successful for r in done.results)


@pytest.fixture(scope="module")
def reports(robot):
    return robot.listen(DiagnosticArray, "/diagnostics", 10)


def camera(reports) -> DiagnosticStatus:
    return next(s for s in reports[-1].status if s.name.endswith("camera"))


def value(status: DiagnosticStatus, key: str) -> str:
    return next(v.value for v in status.values if v.key == key)


def generate(robot, **fields):
    return robot.result(robot.send(GenerateStoryboard, "generate_storyboard", task=RED, **fields))


def executing(robot) -> tuple[object, list[SubGoal]]:
    """A task whose first sub-goal is out."""
    goals = robot.listen(SubGoal, "goalreel/subgoal")
    handle = robot.send(ExecuteTask, "execute_task", task=f"{RED} {GREEN}")
    until(lambda: goals and goals[-1].active and goals[-1].instruction == RED)
    return handle, goals


def test_a_camera_that_was_never_there(robot, impatient, reports):
    # First in this file: nothing has been published yet.
    status, result = generate(robot)
    assert (status, result.error_code) == (ABORTED, ErrorCode.NO_IMAGE)
    assert "no camera frame has arrived on /" in result.error_msg
    until(lambda: reports and "is the camera switched on" in camera(reports).message)
    assert camera(reports).level == DiagnosticStatus.WARN


def test_frames_that_cannot_be_read(robot, impatient, reports):
    robot.film(lambda: robot.frame(encoding="16UC1", step=128))
    refused = "colour topic"
    until(lambda: reports and refused in camera(reports).message)  # although no task reads them
    assert camera(reports).level == DiagnosticStatus.ERROR
    assert value(camera(reports), "unreadable") != "0"
    status, result = generate(robot)
    assert (status, result.error_code) == (ABORTED, ErrorCode.BAD_IMAGE)
    assert refused in result.error_msg
    assert "\n" not in result.error_msg
    robot.film()
    until(lambda: camera(reports).level == DiagnosticStatus.OK)
    assert not value(camera(reports), "problem")


@pytest.mark.parametrize(
    ("remapped", "topic"),
    [
        ((), "/image/compressed"),
        (("image:=/arm/image_raw",), "/arm/image_raw/compressed"),
        (("image:=/arm/image_raw", "image/compressed:=/arm/jpeg"), "/arm/jpeg"),
    ],
)
def test_where_compressed_frames_are_awaited_and_with_which_qos(remapped, topic):
    rules = [word for rule in remapped for word in ("-r", rule)]
    context = Context()
    context.init()
    with context:
        reliable = f"qos_overrides.{topic}.subscription.reliability:=reliable"
        words = ["--ros-args", *rules, "-p", reliable]
        node = Node("goalreel", context=context, cli_args=words, use_global_arguments=False)
        options = NodeOptions(image_transport="compressed")
        inputs = CameraInputs(node, lambda: options, FrameSlot(decode), lambda: None)
        until(lambda: topic in dict(node.get_subscriber_names_and_types_by_node("goalreel_camera", "/")))
        (found,) = node.get_subscriptions_info_by_topic(topic)
        assert found.qos_profile.reliability is ReliabilityPolicy.RELIABLE
        inputs.destroy()
        node.destroy_node()


def test_resolution_and_encoding_change_under_way(robot):
    robot.film()
    handle, goals = executing(robot)
    robot.film(lambda: robot.frame("bgr8", (96, 72)))
    robot.colour = RED
    until(lambda: goals[-1].active and goals[-1].instruction == GREEN)
    robot.colour = GREEN
    status, result = robot.result(handle)
    assert (status, result.error_msg) == (SUCCEEDED, "")
    # The scene is as predicted, only larger: what was rendered ahead still holds.
    assert decode(result.storyboard.steps[1].goal_image).size == (64, 48)
    _, result = generate(robot)
    assert decode(result.storyboard.steps[0].goal_image).size == (96, 72)


def test_a_camera_that_stops(robot, impatient, reports):
    robot.film()
    handle, goals = executing(robot)
    robot.stop_filming()
    status, result = robot.result(handle)
    assert (status, result.error_code) == (ABORTED, ErrorCode.STALE_IMAGE)
    assert "the camera stopped" in result.error_msg
    assert robot.call(GetStoryboard, "get_storyboard").storyboard.state == Storyboard.STATE_FAILED
    reasons = [SubGoal.REASON_ACTIVE, SubGoal.REASON_STALE, SubGoal.REASON_OVER]
    until(lambda: [goal.reason for goal in goals][-3:] == reasons)
    until(lambda: "s old" in camera(reports).message)
    status, result = generate(robot)  # still gone
    assert (status, result.error_code) == (ABORTED, ErrorCode.STALE_IMAGE)


def test_a_camera_that_is_too_slow_to_stay_fresh_ends_the_task_and_does_not_flap(robot, impatient, reports):
    give(robot, {"stall_timeout": 1.0})
    robot.film()
    handle, goals = executing(robot)
    robot.film(period=0.6)
    status, result = robot.result(handle)
    assert (status, result.error_code) == (ABORTED, ErrorCode.STALE_IMAGE)
    assert "too far for max_image_age, 0.5 s: set it to" in result.error_msg
    reasons = [SubGoal.REASON_ACTIVE, SubGoal.REASON_STALE, SubGoal.REASON_OVER]
    until(lambda: [goal.reason for goal in goals][-3:] == reasons)
    until(lambda: "too far for max_image_age" in camera(reports).message)
    assert camera(reports).level == DiagnosticStatus.WARN


def test_a_driver_that_repeats_one_frame_is_stale(robot, reports):
    robot.film()
    handle, goals = executing(robot)
    frame = robot.frame()
    robot.film(lambda: frame)
    until(lambda: goals[-1].reason == SubGoal.REASON_STALE)
    until(lambda: "the newest frame was sent again" in camera(reports).message)
    assert "clocks differ" not in camera(reports).message
    robot.film()
    until(lambda: goals[-1].active)
    robot.cancel(handle)


def test_a_bag_played_beside_the_camera_is_named_and_shows_no_task_done(robot, reports):
    robot.film()
    until(lambda: camera(reports).level == DiagnosticStatus.OK)
    topic = value(camera(reports), "topic")
    player = robot.node.create_publisher(type(robot.frame()), topic, 1)
    until(lambda: camera(reports).message.startswith(f"2 publishers of {topic}, whose frames alternate: /"))

    def both() -> RawImage:
        robot.colour = RED
        earlier, robot.colour = robot.frame(), None
        earlier.header.stamp.sec -= 86_400
        player.publish(earlier)
        return robot.frame()

    robot.film(both)
    until(lambda: "two sources send them in turn" in camera(reports).message)
    goals = robot.listen(SubGoal, "goalreel/subgoal")
    handle = robot.send(ExecuteTask, "execute_task", task=RED)
    until(lambda: goals and (goals[-1].task, goals[-1].reason) == (RED, SubGoal.REASON_BLIND))
    robot.film()
    robot.node.destroy_publisher(player)
    until(lambda: goals[-1].active and camera(reports).level == DiagnosticStatus.OK)
    robot.cancel(handle)


def test_qos_can_be_overridden_by_parameters(robot):
    (progress,) = robot.node.get_publishers_info_by_topic("/goalreel/progress")
    assert progress.qos_profile.reliability is ReliabilityPolicy.BEST_EFFORT
    (goal,) = robot.node.get_publishers_info_by_topic("/goalreel/subgoal")
    assert goal.qos_profile.reliability is ReliabilityPolicy.RELIABLE, "the others are as they were"


def test_the_optical_frame_is_the_images_else_the_camera_infos(robot):
    robot.film()
    _, result = generate(robot, text_only=True)
    assert result.storyboard.header.frame_id == "camera_optical"
    infos, info = robot.node.create_publisher(CameraInfo, "camera_info", 1), CameraInfo()
    info.header.frame_id = "info_optical"

    def nameless() -> RawImage:
        infos.publish(info)
        frame = robot.frame()
        frame.header.frame_id = ""
        return frame

    robot.film(nameless)
    until(lambda: generate(robot, text_only=True)[1].storyboard.header.frame_id == "info_optical")
