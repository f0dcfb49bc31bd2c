"""The whole loop in three processes: an instruction goes in, blocks are moved by goal images alone."""

import json
import os
import re
import signal
from contextlib import ExitStack

os.environ.setdefault("MUJOCO_GL", "egl")

import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
pytest.importorskip("rclpy", reason="needs ROS 2: pip install 'goalreel[ros]'")

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String
from support.ros import Other, other
from support.wait import until

from goalreel.tabletop.grammar import sample_episode
from goalreel_interfaces.msg import CriticVerdict, Storyboard, StoryboardStep
from goalreel_ros.client import GoalreelClient

pytestmark = [pytest.mark.lab, pytest.mark.process]

SEED = 950_000
"""Two sub-goals: one block onto another, one into a bowl."""
EPISODE = sample_episode(SEED)
TRACKING = {"preset": "server", "track_rate": 10.0, "critic_period": 0.3, "gate": 0.3}
"""For a robot five times as fast as real."""
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def parameters(**values) -> list[str]:
    return ["--ros-args", *(a for name, value in values.items() for a in ("-p", f"{name}:={value}"))]


@pytest.fixture
def robot(request):
    """Client of a goalreel node that has the simulator's camera and models, and a follower that obeys it.

    The editor gets the first order of the sub-goals in the test's parameter wrong.
    """
    sim = parameters(seed=SEED, rate=5.0, port=0, misread=list(request.param))
    following = [*parameters(seed=SEED), "-r", "subgoal:=goalreel/subgoal"]
    with ExitStack() as stack:
        simulator = stack.enter_context(other("-m", "goalreel_ros.tabletop.simulator", *sim, ready="ready"))
        stack.enter_context(other("-m", "goalreel_ros.tabletop.follower", *following, ready="ready"))
        server = re.search(r"server:http://\S+", "\n".join(simulator.lines))[0]
        models = parameters(planner=server, editor=server, critic=server, **TRACKING)
        node = Other("-m", "goalreel_ros.main", *models)
        stack.callback(node.stop, signal.SIGTERM)
        client = stack.enter_context(GoalreelClient(timeout=60))
        client.wait_until_active(60)
        yield client


def truth() -> dict:
    """Give what the simulator itself says, once its arm is home."""
    heard = []
    with rclpy.init():
        node = rclpy.create_node("judge")
        node.create_subscription(
            String, "tabletop/truth", lambda m: heard.append(json.loads(m.data)), LATCHED
        )
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        until(lambda: executor.spin_once(0.05) or (heard and heard[-1]["arm_home"]))
        node.destroy_node()
    return heard[-1]


@pytest.mark.parametrize("robot", [[-1]], indirect=True)
def test_an_instruction_goes_in_and_the_blocks_are_where_it_says(robot):
    assert truth()["instruction"] == EPISODE.instruction
    assert not any(goal["holds"] for goal in truth()["goals"])
    result = robot.execute(EPISODE.instruction).result(60)
    assert [goal["holds"] for goal in truth()["goals"]] == [True] * len(EPISODE.goals)
    board = result.storyboard
    assert board.state == Storyboard.STATE_SUCCEEDED
    assert [s.status for s in board.steps] == [StoryboardStep.STATUS_COMPLETED] * len(EPISODE.goals)
    assert [s.image_status for s in board.steps] == [StoryboardStep.IMAGE_VERIFIED] * len(EPISODE.goals)
    assert [s.attempts for s in board.steps] == [1] * len(EPISODE.goals)
    assert {s.critic.verdict for s in board.steps} == {CriticVerdict.ACCEPTED}
    assert result.replans == 0


@pytest.mark.parametrize("robot", [[0]], indirect=True)
def test_a_wrong_picture_is_drawn_again_and_a_plan_made_anew_keeps_what_is_done(robot):
    task = robot.execute(EPISODE.instruction)
    first = robot.wait_for_subgoal(30)
    assert "on top of" in first.instruction
    second = robot.wait_for_subgoal(30, after=first)
    assert second.index == 1
    robot.replan("the test asks for it")
    result = task.result(60)
    assert [goal["holds"] for goal in truth()["goals"]] == [True] * len(EPISODE.goals)
    assert result.storyboard.state == Storyboard.STATE_SUCCEEDED
    assert [s.status for s in result.storyboard.steps] == [StoryboardStep.STATUS_COMPLETED] * 2
    assert result.replans == result.storyboard.revision == 1
    retried = result.storyboard.steps[0]
    assert retried.attempts == 2
    assert "Leave the green block where it is." in retried.prompt
