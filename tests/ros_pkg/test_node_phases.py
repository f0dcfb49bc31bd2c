"""Check what an operator, a camera and a lifecycle manager do to a task in each of its phases."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from diagnostic_msgs.msg import DiagnosticArray
from support.critic_process import CriticProcess
from support.ros_bench import BLUE, GREEN, RED, Gate, Robot, Scripted
from support.wait import until

from goalreel.streaming.board import ErrorCode
from goalreel_interfaces.action import ExecuteTask, GenerateStoryboard
from goalreel_interfaces.msg import Storyboard, StoryboardStep, SubGoal
from goalreel_interfaces.srv import Command, GetStoryboard, SetActiveStep

pytestmark = pytest.mark.process

PHASES = "planning", "drawing", "executing", "confirming", "replanning"
NUMBERS = count()


@pytest.fixture(scope="module")
def critic(ros_env) -> Iterator[CriticProcess]:
    """The critic's process."""
    it = CriticProcess()
    yield it
    it.kill()


@pytest.fixture
def scripted(scripted, critic):
    critic.start()
    scripted.critic = critic
    return scripted


@pytest.fixture(scope="module")
def node_parameters(critic, answers):
    url = f"server:{critic.url}?retries=1"
    return {"image_timeout": 120.0, "critic": url, "controls": 5.0, "examination": str(answers)}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The folder of the critic's answers to control questions."""
    return tmp_path_factory.mktemp("examination")


@pytest.fixture
def robot(robot):
    robot.film()
    yield robot
    robot.call(Command, "cancel")


@dataclass
class Begun:
    """A task that stays in a phase until it is let go."""

    handle: Any
    goals: list[SubGoal]
    let_go: contextlib.ExitStack
    asked: int = 0
    """Questions about the whole task until it came to the phase."""

    def shows(self, **fields: object) -> bool:
        """Tell whether the newest sub-goal has these fields."""
        return all(getattr(self.goals[-1], name) == value for name, value in fields.items())


@contextlib.contextmanager
def in_phase(phase: str, robot: Robot, scripted: Scripted) -> Iterator[Begun]:
    """A task of one step, of its own name, in that phase."""
    gates = {
        "planning": scripted.planner.gate, "drawing": scripted.editor.gate,
        "confirming": scripted.critic.whole, "replanning": scripted.planner.gate,
    }  # fmt: skip
    gate, task = gates.get(phase, Gate()), f"{RED}, number {next(NUMBERS)}"
    goals = robot.listen(SubGoal, "goalreel/subgoal")
    with contextlib.ExitStack() as let_go:
        if phase != "replanning":
            let_go.enter_context(gate.shut())
        calls = gate.calls
        begun = Begun(robot.send(ExecuteTask, "execute_task", task=task), goals, let_go)
        until(lambda: goals and begun.shows(task=task))
        if phase not in ("planning", "drawing"):
            until(lambda: begun.shows(task=task, active=True))
        if phase == "confirming":
            robot.colour = RED
        if phase == "replanning":
            let_go.enter_context(gate.shut())
            calls = gate.calls
            assert robot.call(Command, "replan").error_code == ErrorCode.NONE
        until(lambda: gate.calls > calls or phase == "executing")
        begun.asked = scripted.critic.whole.calls
        yield begun


def state(robot: Robot) -> int:
    return robot.call(GetStoryboard, "get_storyboard").storyboard.state


def ends_well(robot: Robot, scripted: Scripted, begun: Begun) -> None:
    """It succeeds once the critic is asked about it anew: a yes from before is not heard."""
    robot.colour = RED
    status, result = robot.result(begun.handle)
    assert (status, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, "")
    until(lambda: scripted.critic.whole.calls > begun.asked)


@pytest.mark.parametrize("phase", PHASES)
def test_a_pause_holds_the_task_until_it_is_resumed(robot, scripted, phase):
    with in_phase(phase, robot, scripted) as begun:
        assert robot.call(Command, "pause", reason="a hand is in the way").error_code == ErrorCode.NONE
        until(lambda: begun.shows(reason=SubGoal.REASON_PAUSED))
        first = len(begun.goals)
        begun.let_go.close()
        until(lambda: state(robot) == Storyboard.STATE_PAUSED)
        assert {goal.reason for goal in begun.goals[first:]} <= {SubGoal.REASON_PAUSED}
        assert robot.call(Command, "resume").error_code == ErrorCode.NONE
        until(lambda: any(goal.active for goal in begun.goals[first:]))
        ends_well(robot, scripted, begun)


def test_a_pause_right_after_a_goal_is_for_that_goal(robot):
    goals = robot.listen(SubGoal, "goalreel/subgoal")
    for number in range(24):
        task = f"{RED}, at once {number}"
        robot.send(ExecuteTask, "execute_task", task=task)
        assert robot.call(Command, "pause").error_code == ErrorCode.NONE
        until(lambda: (goals[-1].task, goals[-1].reason) == (task, SubGoal.REASON_PAUSED))  # noqa: B023


@pytest.mark.parametrize("phase", PHASES)
def test_no_goal_is_active_without_a_camera(robot, scripted, phase):
    reports = robot.listen(DiagnosticArray, "/diagnostics", 10)
    until(lambda: reports)
    with in_phase(phase, robot, scripted) as begun:
        robot.stop_filming()
        until(lambda: not begun.goals[-1].active)
        until(lambda: "s old" in reports[-1].status[0].message)
        first = len(begun.goals)
        begun.let_go.close()
        until(lambda: begun.shows(reason=SubGoal.REASON_STALE))
        assert not any(goal.active for goal in begun.goals[first:])
        robot.film()
        until(lambda: any(goal.active for goal in begun.goals[first:]))
        ends_well(robot, scripted, begun)


@pytest.mark.parametrize("phase", PHASES)
def test_a_killed_critic_is_no_secret_and_confirms_nothing(robot, scripted, phase):
    mark = partial(robot.call, SetActiveStep, "set_active_step", status=StoryboardStep.STATUS_COMPLETED)
    reports = robot.listen(DiagnosticArray, "/diagnostics", 10)
    until(lambda: reports)
    with in_phase(phase, robot, scripted) as begun:
        given = begun.goals[-1]
        scripted.critic.kill()
        begun.let_go.close()
        robot.colour = RED
        until(lambda: begun.goals[-1].degraded)
        assert phase != "executing" or begun.shows(
            active=True, header=given.header, instruction=given.instruction
        )
        late = robot.listen(SubGoal, "goalreel/subgoal")
        until(lambda: late and late[-1].degraded)
        until(lambda: any("the critic failed: " in status.message for status in reports[-1].status))
        if phase != "confirming":
            until(lambda: begun.shows(active=True))
            until(lambda: mark(index=begun.goals[-1].index).error_code == ErrorCode.NO_TASK)
        status, result = robot.result(begun.handle)
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, ErrorCode.UNCONFIRMED)
    assert result.storyboard.state == Storyboard.STATE_UNCONFIRMED
    assert result.degraded
    until(lambda: (late[-1].active, late[-1].degraded) == (False, result.degraded))


ENDINGS = {
    "cancel_goal": (GoalStatus.STATUS_CANCELED, ErrorCode.CANCELED),
    "cancel": (GoalStatus.STATUS_ABORTED, ErrorCode.CANCELED),
    "deactivate": (GoalStatus.STATUS_ABORTED, ErrorCode.PREEMPTED),
    "instruction": (GoalStatus.STATUS_ABORTED, ErrorCode.PREEMPTED),
}


@pytest.mark.parametrize("phase", PHASES)
def test_whatever_ends_the_task_the_policy_is_told_at_once(robot, scripted, phase):
    """The model that is waited for does not answer before."""
    for ending, end in ENDINGS.items():
        robot.colour = None
        with in_phase(phase, robot, scripted) as begun:
            first = len(begun.goals)
            if ending == "cancel_goal":
                robot.cancel(begun.handle)
            elif ending == "cancel":
                assert robot.call(Command, "cancel").error_code == ErrorCode.NONE
            elif ending == "deactivate":
                assert robot.change("deactivate")
            else:
                robot.say(BLUE)
            status, result = robot.result(begun.handle)
            assert (status, result.error_code) == end
            assert result.storyboard.state == Storyboard.STATE_CANCELED
            until(lambda: any(not goal.active for goal in begun.goals[first:]))  # noqa: B023
        if ending == "deactivate":
            assert robot.change("activate")
        elif ending == "instruction":
            until(lambda: begun.shows(task=BLUE, active=True))


def test_between_tasks_the_critic_is_examined_and_diagnostics_say_how_far(robot, answers):
    reports = robot.listen(DiagnosticArray, "/diagnostics", 10)
    for colour in (GREEN, BLUE):
        robot.result(robot.send(GenerateStoryboard, "generate_storyboard", task=f"{colour} {RED}"))

    def told() -> str:
        values = [v for status in reports[-1].status for v in status.values if v.key == "examination"]
        return values[0].value

    until(lambda: reports and "of at least 20 control questions" in told())
    (log,) = answers.iterdir()
    assert log.read_text()
