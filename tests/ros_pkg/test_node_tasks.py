"""Check what the node is for: storyboards and tasks over actions, services and a topic."""

import pytest
from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rcl_interfaces.srv import SetParameters
from rclpy.action import ActionClient
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CompressedImage, Image as RawImage
from std_msgs.msg import String
from support.ros_bench import BLUE, GREEN, RED, Robot, near
from support.wait import until
from unique_identifier_msgs.msg import UUID
from visualization_msgs.msg import Marker, MarkerArray

from goalreel.errors import BackendError
from goalreel.streaming.board import ErrorCode
from goalreel_interfaces.action import ExecuteTask, GenerateStoryboard
from goalreel_interfaces.msg import CriticVerdict, Storyboard, StoryboardStep, SubGoal
from goalreel_interfaces.srv import Command, GetStoryboard, StartExecuteTask, StartGenerateStoryboard
from goalreel_ros.pictures import decode

pytestmark = pytest.mark.process

SUCCEEDED, ABORTED = GoalStatus.STATUS_SUCCEEDED, GoalStatus.STATUS_ABORTED


@pytest.fixture(scope="module")
def node_parameters(served):
    return dict.fromkeys(("planner", "editor", "critic"), f"server:{served[1]}?retries=0") | PATIENT


@pytest.fixture(scope="module")
def filming(filming):
    # Whatever comes first finds the models loaded.
    filming.result(filming.send(GenerateStoryboard, "generate_storyboard", task=RED, text_only=True))
    return filming


@pytest.fixture
def robot(robot):
    yield robot
    robot.call(Command, "cancel")
    robot.colour = None


def shows(message, colour: str) -> bool:
    return near(decode(message).pixels, colour)


def state(robot) -> Storyboard:
    return robot.call(GetStoryboard, "get_storyboard").storyboard


def test_generate_plans_renders_and_tells_of_it(robot):
    feedback = []
    handle = robot.send(GenerateStoryboard, "generate_storyboard", feedback, task=f"{RED} then {GREEN}")
    status, result = robot.result(handle)
    assert (status, result.error_code, result.error_msg) == (SUCCEEDED, ErrorCode.NONE, "")
    assert result.planning_time.sec + result.planning_time.nanosec > 0
    board = result.storyboard
    assert board.state == Storyboard.STATE_READY
    assert board.header.frame_id == "camera_optical"
    assert board.header.stamp.sec > 0
    assert board.planner_model.startswith("server:")
    assert decode(board.source_image).size == (64, 48)
    assert [s.instruction for s in board.steps] == [RED, GREEN]
    for step, wanted in zip(board.steps, (RED, GREEN), strict=True):
        assert step.image_status == StoryboardStep.IMAGE_ACCEPTED
        assert step.critic.verdict == CriticVerdict.ACCEPTED
        assert (step.attempts, step.prompt) == (1, f"paint {wanted}")
        assert shows(step.goal_image, wanted)
        assert step.goal_image.header.frame_id == "camera_optical"
        assert step.goal_image.header.stamp.sec > 0
    kind = GenerateStoryboard.Feedback
    phases = {kind.PHASE_PLANNING, kind.PHASE_GENERATING, kind.PHASE_VALIDATING}
    until(lambda: phases <= {f.phase for f in feedback})
    assert [f.completion for f in feedback] == sorted(f.completion for f in feedback)
    until(lambda: any(f.step and f.step[0].instruction == GREEN for f in feedback))
    assert feedback[-1].num_steps == 2


def test_annotate_streams_every_sub_goal_until_the_task_is_done(robot):
    texts = robot.listen(String, "goalreel/subgoal/instruction")
    raws = robot.listen(RawImage, "goalreel/subgoal/image")
    jpegs = robot.listen(CompressedImage, "goalreel/subgoal/image/compressed")
    feedback = []
    with robot.obeying() as goals:
        handle = robot.send(ExecuteTask, "execute_task", feedback, task=f"{RED} {GREEN} {BLUE}")
        status, result = robot.result(handle)
        until(lambda: goals and not goals[-1].active and goals[-1].task)
    assert (status, result.error_code, result.error_msg) == (SUCCEEDED, ErrorCode.NONE, "")
    assert result.storyboard.state == Storyboard.STATE_SUCCEEDED
    assert [s.status for s in result.storyboard.steps] == [StoryboardStep.STATUS_COMPLETED] * 3
    active = [g for g in goals if g.active]
    assert [g.instruction for g in active] == [RED, GREEN, BLUE]
    for goal in active:
        assert goal.header.stamp.sec > 0
        assert goal.header.frame_id == "camera_optical"
        assert goal.image_status == StoryboardStep.IMAGE_ACCEPTED
        assert shows(goal.goal_image, goal.instruction)
    until(lambda: texts and texts[-1].data == "")
    assert [t.data for t in texts if t.data] == [RED, GREEN, BLUE]
    until(lambda: raws and jpegs and not decode(raws[-1]).pixels.any() and not decode(jpegs[-1]).pixels.any())
    assert any(shows(r, BLUE) for r in raws)
    assert any(shows(j, BLUE) for j in jpegs)
    until(lambda: feedback and feedback[-1].progress.num_steps == 3)


def test_whoever_joins_late_sees_the_present_state(robot):
    own = "#a03090"  # of no other test: an edit of a scene that shows it already would be a copy
    handle = robot.send(ExecuteTask, "execute_task", task=f"{own} {GREEN}")
    until(lambda: state(robot).state == Storyboard.STATE_EXECUTING)
    until(lambda: all(s.image_status == StoryboardStep.IMAGE_ACCEPTED for s in state(robot).steps))
    late = Robot()
    try:
        kinds = {
            "storyboard": Storyboard, "subgoal": SubGoal,
            "subgoal/name": String, "subgoal/instruction": String,
            "subgoal/image": RawImage, "subgoal/image/compressed": CompressedImage,
            "storyboard/image": RawImage, "storyboard/image/compressed": CompressedImage,
            "markers": MarkerArray,
        }  # fmt: skip
        got = {topic: late.listen(kind, f"goalreel/{topic}") for topic, kind in kinds.items()}
        until(lambda: all(got.values()))
        until(lambda: len(got["storyboard"][-1].steps) == 2 and got["subgoal"][-1].active)
        goal = got["subgoal"][-1]
        assert bytes(goal.storyboard_id.uuid) == bytes(got["storyboard"][-1].id.uuid)
        assert got["subgoal/instruction"][-1].data == goal.instruction == own
        assert got["subgoal/name"][-1].data == goal.name
        assert shows(got["subgoal/image"][-1], own)
        assert decode(got["storyboard/image"][-1]).size[0] == 1280
        assert got["storyboard/image"][-1].header.stamp.sec > 0
        until(lambda: any(own in m.text for m in got["markers"][-1].markers))
        assert got["markers"][-1].markers[0].action == Marker.DELETEALL
    finally:
        late.close()
    robot.cancel(handle)


PATIENT = {"image_timeout": 120.0}
NAMES = {ExecuteTask: "execute_task", GenerateStoryboard: "generate_storyboard"}
INVALID, BROKEN = ErrorCode.INVALID_REQUEST, CompressedImage(format="jpeg", data=b"no picture")


def test_the_services_that_stand_for_the_actions(robot, scripted):
    answer = robot.call(StartGenerateStoryboard, "start/generate_storyboard", task=GREEN)
    assert answer.error_code == ErrorCode.NONE
    until(lambda: state(robot).state == Storyboard.STATE_READY and state(robot).task == GREEN)
    assert bytes(state(robot).id.uuid) == bytes(answer.storyboard_id.uuid)
    goals, calls = robot.listen(SubGoal, "goalreel/subgoal"), scripted.planner.gate.calls
    answer = robot.call(StartExecuteTask, "start/execute_task", storyboard_id=answer.storyboard_id)
    assert answer.error_code == ErrorCode.NONE
    until(lambda: goals and goals[-1].active and goals[-1].instruction == GREEN)
    assert scripted.planner.gate.calls == calls, "it was planned before"
    for kind, name in ((StartGenerateStoryboard, "generate_storyboard"), (StartExecuteTask, "execute_task")):
        answer = robot.call(kind, f"start/{name}", task="  ")
        assert (answer.error_code, answer.error_msg) == (ErrorCode.INVALID_REQUEST, "the task is empty")
    assert goals[-1].active  # a wrong request ends nobody's task


@pytest.mark.parametrize(
    ("kind", "fields", "code", "says"),
    [
        (GenerateStoryboard, {"task": ""}, INVALID, "the task is empty"),
        (
            ExecuteTask,
            {"task": RED, "max_steps": 0},
            INVALID,
            "max_steps is 1 or more, or -1 for the parameter's",
        ),
        (ExecuteTask, {"storyboard_id": UUID(uuid=[7] * 16)}, INVALID, "there is no storyboard"),
        (GenerateStoryboard, {"task": RED, "image": [BROKEN]}, ErrorCode.BAD_IMAGE, "not a readable image"),
        (
            GenerateStoryboard,
            {"task": f"{RED} {GREEN}", "max_steps": 1},
            ErrorCode.PLANNER_FAILED,
            "2 steps, 1 are allowed",
        ),
        (ExecuteTask, {"task": RED, "timeout": Duration(nanosec=10**8)}, ErrorCode.TIMEOUT, "0.1 s"),
    ],
)
def test_what_goes_wrong_ends_with_a_code_and_one_line(robot, kind, fields, code, says):
    status, result = robot.result(robot.send(kind, NAMES[kind], **fields))
    assert (status, result.error_code) == (ABORTED, code)
    assert says in result.error_msg
    assert "\n" not in result.error_msg


@pytest.mark.parametrize(
    ("role", "call", "code"),
    [("planner", "replies", ErrorCode.PLANNER_FAILED), ("editor", "gate", ErrorCode.EDITOR_FAILED)],
)
def test_a_plan_without_a_model_looks_degraded_everywhere_and_the_next_one_does_not(
    node, robot, scripted, monkeypatch, role, call, code
):
    reports = robot.listen(DiagnosticArray, "/diagnostics", 10)

    def fail(*_: object, **__: object) -> None:
        raise BackendError("the card fell off the bus")

    with monkeypatch.context() as patch:  # the server answers 500
        patch.setattr(getattr(scripted, role), call, fail)
        assert refused(robot, "on_model_failure", "fail") == ""
        status, result = robot.result(robot.send(ExecuteTask, "execute_task", task=GREEN))
        assert (status, result.error_code) == (ABORTED, code)
        assert refused(robot, "on_model_failure", "text_only") == ""
        with robot.obeying() as goals:
            status, result = robot.result(robot.send(ExecuteTask, "execute_task", task=GREEN))
            (goal,) = (g for g in goals if g.active)
    (line,) = result.degraded
    assert line.startswith(f"the {role} failed: ")
    assert (status, result.error_code) == (SUCCEEDED, ErrorCode.NONE), "its critic saw that it is done"
    assert line in result.error_msg
    assert (goal.instruction, goal.degraded, len(goal.goal_image.data)) == (GREEN, [line], 0)
    assert goal.image_status == StoryboardStep.IMAGE_UNJUDGED
    assert result.storyboard.degraded == state(robot).degraded == [line]
    until(lambda: reports and warnings(reports[-1]) == {"models": line, "task": line})
    until(lambda: any("WARN" in text and line in text for text in node.lines))
    status, result = robot.result(robot.send(GenerateStoryboard, "generate_storyboard", task=RED))
    assert (status, result.degraded, result.storyboard.degraded) == (SUCCEEDED, [], [])
    until(lambda: not warnings(reports[-1]))


def test_of_a_burst_of_goals_of_two_clients_each_is_answered(robot):
    deep = QoSProfile(depth=100)
    pair = [
        ActionClient(robot.node, ExecuteTask, "goalreel/execute_task", goal_service_qos_profile=deep)
        for _ in range(2)
    ]
    assert all(client.wait_for_server(600) for client in pair)
    until(lambda: robot.call(Command, "cancel"))  # and the node has long found the clients
    goal = ExecuteTask.Goal(task=RED)
    futures = robot.beside.run(lambda: [pair[i % 2].send_goal_async(goal) for i in range(40)])
    until(lambda: all(future.done() for future in futures))
    assert all(future.result().accepted for future in futures)
    robot.beside.run(lambda: [client.destroy() for client in pair])


def warnings(report: DiagnosticArray) -> dict[str, str]:
    return {s.name.split()[-1]: s.message for s in report.status if s.level != DiagnosticStatus.OK}


def test_an_empty_instruction_is_refused_and_seen_in_the_diagnostics(node, robot):
    reports = robot.listen(DiagnosticArray, "/diagnostics", 10)
    robot.say("   ")
    until(lambda: any("instruction refused: the task is empty" in line for line in node.lines))
    until(lambda: reports and any("refused" in s.message for s in reports[-1].status))
    names = {s.name for s in reports[-1].status}
    assert names == {"/goalreel: camera", "/goalreel: models", "/goalreel: task"}
    robot.result(robot.send(GenerateStoryboard, "generate_storyboard", task=RED))
    count = len(reports)
    until(lambda: len(reports) > count + 1)
    assert not any("refused" in s.message for s in reports[-1].status)


def test_a_text_of_any_length_is_refused_by_every_way_in_and_goes_whole_into_no_log(node, robot):
    endless = "x" * 1_000_000
    says = "has 1000000 characters, 2000 are allowed (max_instruction_length)"
    robot.say(endless)
    until(lambda: any(f"instruction refused: the task {says}" in line for line in node.lines))
    for action, kind in (("execute_task", ExecuteTask), ("generate_storyboard", GenerateStoryboard)):
        status, result = robot.result(robot.send(kind, action, task=endless))
        assert (status, result.error_code) == (ABORTED, ErrorCode.INVALID_REQUEST)
        assert says in result.error_msg
        assert len(result.storyboard.task) < 1000
    for name, kind in (("execute_task", StartExecuteTask), ("generate_storyboard", StartGenerateStoryboard)):
        answer = robot.call(kind, f"start/{name}", task=RED, auxiliary_text=endless)
        assert (answer.error_code, says in answer.error_msg) == (ErrorCode.INVALID_REQUEST, True)
    handle = robot.send(ExecuteTask, "execute_task", task=f"{GREEN} " + "please " * 200)
    until(lambda: state(robot).state == Storyboard.STATE_EXECUTING)
    answer = robot.call(Command, "replan", reason=endless)
    assert (answer.error_code, says in answer.error_msg) == (ErrorCode.INVALID_REQUEST, True)
    robot.cancel(handle)
    until(lambda: any("execute: #14fa14 please" in line for line in node.lines))
    assert max(map(len, node.lines)) < 500


def test_nothing_was_logged_as_an_error(node):
    lines = node.lines
    assert not [line for line in lines if "ERROR" in line or "FATAL" in line or "Traceback" in line]


def refused(robot, name: str, value: object) -> str:
    """Set a parameter, and give the reason why that is refused, or nothing."""
    parameter = Parameter(name, value=value).to_parameter_msg()
    [result] = robot.call(SetParameters, "set_parameters", parameters=[parameter]).results
    return "" if result.successful else result.reason


def test_parameters_while_it_runs(robot):
    assert "preset is fixed once the node is configured: clean it up first" in refused(
        robot, "preset", "klein"
    )
    assert refused(robot, "preset", "server") == ""  # as it is
    assert refused(robot, "on_rejected", "fail") == ""
    task = f"never {RED}"
    status, result = robot.result(robot.send(GenerateStoryboard, "generate_storyboard", task=task))
    assert (status, result.error_code) == (ABORTED, ErrorCode.ATTEMPTS_EXHAUSTED)
    assert refused(robot, "contact_sheet_width", 640) == ""
    sheets = robot.listen(RawImage, "goalreel/storyboard/image")
    robot.result(robot.send(GenerateStoryboard, "generate_storyboard", task=RED))
    until(lambda: sheets and sheets[-1].width == 640)
    assert refused(robot, "on_rejected", "publish") == refused(robot, "contact_sheet_width", 1280) == ""
