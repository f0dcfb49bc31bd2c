"""examples/follow_subgoals.py beside a real node, with a real ACT checkpoint; behaviour_tree.py beside a
scripted one."""

import json
import re
import signal

import cv2
import numpy as np
import pytest
from support.act_policy import save_act
from support.places import ROOT, SUPPORT
from support.ros import Other, other
from support.ros_bench import GREEN, RED
from support.wait import until

pytestmark = pytest.mark.process


def actions(follower: Other) -> list[tuple[float, ...]]:
    """What it sent so far, each action once, among the lines that its libraries write."""
    sent = (tuple(json.loads(line)) for line in follower.lines if re.match(r"\[-?\d", line))
    return list(dict.fromkeys(sent))


@pytest.mark.long
def test_a_policy_follows_the_node(client, robot, scripted, tmp_path):
    film = cv2.VideoWriter(str(tmp_path / "film.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (64, 48))
    for _ in range(3000):
        film.write(np.full((48, 64, 3), 90, np.uint8))
    film.release()
    script = str(ROOT / "examples" / "follow_subgoals.py")
    policy = str(save_act(tmp_path / "policy"))

    def acts(distinct: int) -> None:
        """Wait for its actions, without a goal and for each: the client here may hear of one sooner."""
        until(lambda: len(actions(follower)) >= distinct or follower.process.poll() is not None, 300)
        assert follower.process.poll() is None, "\n".join(follower.lines)

    with scripted.planner.gate.shut():
        follower = Other(script, policy, str(tmp_path / "film.avi"), f"{RED}, {GREEN}")
        acts(1)
        assert not until(client.subgoal).active
    acts(2)
    until(lambda: client.subgoal().instruction == RED)
    robot.colour = RED
    acts(3)
    until(lambda: client.subgoal().instruction == GREEN)
    robot.colour = GREEN
    until(lambda: follower.process.poll() is not None)
    assert follower.stop(signal.SIGTERM) == 0, "\n".join(follower.lines)
    assert all(len(action) == 2 for action in actions(follower))


TREE = str(ROOT / "examples" / "behaviour_tree.py")
NODE = "/tree/goalreel"


@pytest.fixture
def scripted_client(ros_env):
    """One for each node: what lives on may still see the one before, and ask that."""
    from goalreel_ros.client import GoalreelClient

    with GoalreelClient(server=NODE, timeout=60, args=[]) as client:
        yield client


@pytest.fixture
def scripted_node(scripted_client):
    """A process, active."""
    with other(str(SUPPORT / "scripted_node.py"), "--ros-args", "-r", "__ns:=/tree") as process:
        scripted_client.lifecycle.configure()
        scripted_client.lifecycle.activate()
        scripted_client.wait_until_active(60)
        yield process


def grow(*words: str) -> Other:
    return Other(TREE, *words, f"--node={NODE}")


def ended(tree: Other) -> tuple[int, list[str]]:
    """Its status, and the last tree that it showed: the newest mark of each leaf, with what it said."""
    until(lambda: tree.process.poll() is not None, 120)
    tree.stop()
    first = max(i for i, line in enumerate(tree.lines) if re.search(r"task \[", line))
    return tree.process.returncode, tree.lines[first:]


def test_a_behaviour_tree_picks_sub_goal_after_sub_goal(scripted_node, scripted_client):
    tree = grow("two blocks")
    for step in (0, 1):
        until(lambda step=step: any(f"block {step}" in line for line in tree.lines), 120)
        scripted_client.set_active_step(step, 1)
    code, shown = ended(tree)
    assert code == 0, "\n".join(tree.lines)
    assert any("Finished" in line for line in shown)


def test_a_policy_that_gets_nowhere_has_it_planned_again_and_is_given_up(scripted_node):
    tree = grow("two blocks", "--patience=0.5", "--replans=1")
    code, shown = ended(tree)
    assert code == 1, "\n".join(tree.lines)
    assert any("no re-plan is left" in line for line in shown)
    assert any("GiveUp" in line and "did not stop" not in line for line in shown)


def test_a_node_that_dies_is_given_up(scripted_node):
    tree = grow("two blocks")
    until(lambda: any("block 0" in line for line in tree.lines), 120)
    scripted_node.process.kill()
    code, shown = ended(tree)
    assert code == 1, "\n".join(tree.lines)
    assert any("is gone or hangs" in line for line in shown)
