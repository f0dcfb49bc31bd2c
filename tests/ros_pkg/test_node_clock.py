"""Simulated time: ages, time-outs and stalls go by /clock, however slow it is, and whatever it jumps."""

import math

import pytest
from builtin_interfaces.msg import Duration, Time
from diagnostic_msgs.msg import DiagnosticArray
from rosgraph_msgs.msg import Clock
from support.ros_bench import RED
from support.wait import until

from goalreel.streaming.board import ErrorCode
from goalreel_interfaces.action import ExecuteTask
from goalreel_interfaces.msg import StoryboardProgress, SubGoal
from goalreel_interfaces.srv import Command

pytestmark = pytest.mark.process

AGE, TIMEOUT, LIMIT = 0.4, 0.8, 2.0
STALE, ACTIVE = SubGoal.REASON_STALE, SubGoal.REASON_ACTIVE
PERIOD = 0.05


class World:
    """A clock that runs at `rate` times real time from `begin` to `end`, and then again."""

    def __init__(self, robot) -> None:
        self.rate, self.begin, self.end = 1.0, 1000.0, math.inf
        self.time, self.passed = self.begin, 0.0
        """Time on it, and the seconds that passed on it in all."""
        self._publisher = robot.node.create_publisher(Clock, "/clock", 10)
        robot.beside.run(lambda: robot.node.create_timer(PERIOD, self._tick))

    def _tick(self) -> None:
        step = self.rate * PERIOD
        self.passed += step
        self.time = self.begin if self.time + step > self.end else self.time + step
        self.say(Time(sec=int(self.time), nanosec=int(self.time % 1 * 1e9)))

    def say(self, time: Time) -> None:
        self._publisher.publish(Clock(clock=time))


@pytest.fixture(scope="module")
def node_parameters():
    return {"use_sim_time": True, "max_image_age": AGE, "image_timeout": TIMEOUT, "stall_timeout": LIMIT}


@pytest.fixture(scope="module")
def clock(filming):
    """A world's clock, which begins once it is known that stamps are never zero before."""
    goals = filming.listen(SubGoal, "goalreel/subgoal")
    progress = filming.listen(StoryboardProgress, "goalreel/progress", 10)
    until(lambda: goals and progress)
    assert goals[-1].header.stamp == Time(nanosec=1)
    world = World(filming)
    until(lambda: progress[-1].header.stamp.sec >= 1000)
    return world


@pytest.fixture
def world(clock, robot):
    clock.rate, clock.begin, clock.end = 1.0, 1000.0, math.inf
    robot.film()
    yield clock
    robot.call(Command, "cancel")


@pytest.fixture
def goals(robot, world):
    """The sub-goals of a task whose first goal is active."""
    goals = robot.listen(SubGoal, "goalreel/subgoal")
    robot.send(ExecuteTask, "execute_task", task=RED)
    until(lambda: goals and goals[-1].active)
    assert goals[-1].header.stamp.sec < 10**7
    return goals


def test_a_world_at_a_fifth_of_real_time(robot, world, goals):
    world.rate = 0.2
    robot.film(period=10 * PERIOD)
    begin, count = world.passed, len(goals)
    until(lambda: world.passed > begin + 1.5 * AGE)
    assert {goal.reason for goal in goals[count:]} <= {ACTIVE}
    begin = world.passed
    robot.stop_filming()
    until(lambda: goals[-1].reason == STALE)
    assert world.passed - begin > AGE - 2 * PERIOD
    world.rate = 1.0
    until(lambda: goals[-1].reason == SubGoal.REASON_OVER)
    assert world.passed - begin > TIMEOUT - 2 * PERIOD


def test_in_a_paused_world_nothing_is_late(robot, world, goals):
    reports = robot.listen(DiagnosticArray, "/diagnostics", 10)
    world.rate = 0.0
    robot.stop_filming()
    until(lambda: len(reports) > 3)  # one a second, of real time
    assert goals[-1].active
    world.rate = 1.0
    until(lambda: goals[-1].reason == STALE)
    robot.film()
    until(lambda: goals[-1].active)


@pytest.mark.parametrize("time", [1e6, 3.0])
def test_a_jump_makes_nothing_late_and_what_stops_after_it_is(robot, world, goals, time):
    world.rate = 0.4  # a machine that is busy shows its frames in time, too
    world.time, count = time, len(goals)
    until(lambda: world.time > time + 2 * AGE)
    assert {goal.reason for goal in goals[count:]} <= {ACTIVE}
    robot.stop_filming()
    until(lambda: goals[-1].reason == STALE)


@pytest.mark.parametrize("code", [ErrorCode.TIMEOUT, ErrorCode.REPLANS_EXHAUSTED])
def test_while_a_bag_loops_time_goes_on(robot, world, code):
    world.end, begin = world.begin + LIMIT / 2, world.passed
    limit = {"timeout": Duration(sec=int(LIMIT))} if code == ErrorCode.TIMEOUT else {"max_replans": 0}
    _, result = robot.result(robot.send(ExecuteTask, "execute_task", task=RED, **limit))
    assert result.error_code == code
    assert round(world.passed - begin, 6) >= LIMIT


def test_a_clock_before_zero_is_left_out(node, world):
    said = "Seconds value must not be negative"
    until(lambda: world.say(Time(sec=-5)) or any(said in line for line in node.lines))
