"""The node with the models it has unless told otherwise: the checkpoints that come with goalreel."""

import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
pytest.importorskip("rclpy", reason="needs ROS 2: pip install 'goalreel[ros]'")
pytest.importorskip("torch", reason="needs torch: pip install 'goalreel[gpu]'")

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile
from support.ros import Other, other
from support.wait import until

from goalreel.checkpoints import NANO
from goalreel.models import presets
from goalreel.tabletop.grammar import sample_episode
from goalreel_interfaces.msg import Storyboard, SubGoal
from goalreel_ros.client import GoalreelClient, NodeGoneError
from goalreel_ros.pictures import decode

pytestmark = [pytest.mark.lab, pytest.mark.process]

if not NANO.is_dir():
    pytest.skip("no goalreel/checkpoints/nano in this checkout", allow_module_level=True)

SEED = 900_011
"""A seed of the validation split: one sub-goal."""
SIZE = 192
"""Not the checkpoints' own: what comes out has the camera's size."""
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
SIMULATOR = ("-m", "goalreel_ros.tabletop.simulator", "--ros-args")


@pytest.fixture
def node():
    """The real node on the simulator's camera, both with ROS's own names; one attempt a step, for speed."""
    sim = ("-p", f"seed:={SEED}", "-p", f"size:={SIZE}", "-p", "port:=0")
    with other(*SIMULATOR, *sim, ready="ready"):
        process = Other("-m", "goalreel_ros.main", "--ros-args", "-p", "max_attempts:=1")
        try:
            yield process
        finally:
            process.stop()


def latest(kind: type, topic: str) -> object:
    """Give what one who joins late gets on a latched topic."""
    with rclpy.init():
        joiner = rclpy.create_node("joiner")
        heard = []
        joiner.create_subscription(kind, topic, heard.append, LATCHED)
        executor = SingleThreadedExecutor()
        executor.add_node(joiner)
        until(lambda: executor.spin_once(0.05) or heard)
        joiner.destroy_node()
    return heard[-1]


def test_an_instruction_goes_in_and_a_plan_and_a_goal_picture_come_out(node):
    instruction = sample_episode(SEED).instruction
    with GoalreelClient(timeout=60) as client:
        client.wait_until_active(60)
        client.execute(instruction)
        first = client.wait_for_subgoal(180)
        goal, board = latest(SubGoal, "goalreel/subgoal"), latest(Storyboard, "goalreel/storyboard")
        assert (goal.active, goal.task, goal.index) == (True, instruction, 0)
        assert goal.num_steps == len(board.steps) >= 1
        assert goal.instruction == board.steps[0].instruction == first.instruction
        assert decode(goal.goal_image).size == (SIZE, SIZE)
        assert board.steps[0].attempts == 1
        preset = presets.load("nano")
        found = (board.planner_model, board.editor_model, board.critic_model)
        assert found == (preset.planner, preset.editor, preset.critic)
        assert node.stop() == 0
        with pytest.raises(NodeGoneError):  # after a last, inactive goal
            until(lambda: client.subgoal() is None)
    assert not [line for line in node.lines if "Traceback" in line or "ERROR" in line]
