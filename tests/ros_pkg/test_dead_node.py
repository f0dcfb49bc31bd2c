"""A node that is killed, or hangs: everything that follows its goals says so.

How soon follows from the leases; here it is only waited for. All tests share a node; the last one kills it.
"""

import signal
from array import array
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from std_msgs.msg import Float64MultiArray
from support.ros import other
from support.ros_bench import GREEN, RED
from support.ros_bench import node as start
from support.wait import until

from goalreel_ros.client import GoalreelError, NodeGoneError
from goalreel_ros.qos import LEASE, OFFERED_LEASE

pytestmark = pytest.mark.process

FOLLOWER = ("-m", "goalreel_ros.tabletop.follower", "--ros-args", "-r", "subgoal:=goalreel/subgoal")


@pytest.fixture
def camera(client):
    from lerobot_camera_goalreel import GoalreelCamera, GoalreelCameraConfig

    with GoalreelCamera(GoalreelCameraConfig(width=64, height=48, timeout_s=60, warmup_s=0)) as camera:
        yield camera


def stale(client) -> bool:
    """True if the client refuses to give a goal, and says why."""
    try:
        client.subgoal()
    except NodeGoneError as e:
        return "gone or hangs" in str(e)
    return False


def black_out(camera) -> bool:
    try:
        camera.read_latest()
    except TimeoutError as e:
        return "gone or hangs" in str(e)
    return False


@contextmanager
def hanging(node) -> Iterator[None]:
    """Stop the node's process, and let it go on afterwards."""
    node.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        node.process.send_signal(signal.SIGCONT)


def shows(camera) -> str:
    """Give what a policy would get now: `goal`, `black`, or `nothing` because its node is gone."""
    try:
        return "goal" if camera.read_latest(max_age_ms=0).any() else "black"
    except TimeoutError:
        return "nothing"


def test_the_leases_are_in_order():
    assert 2 * OFFERED_LEASE < LEASE


def test_a_node_that_hangs_is_as_good_as_gone_and_finds_the_cancelling_when_it_goes_on(node, client, camera):
    task = client.execute(RED)
    client.wait_for_subgoal(60)
    with hanging(node):
        until(lambda: stale(client) and black_out(camera))
        with pytest.raises(NodeGoneError):
            task.cancel(60)
    until(lambda: not stale(client) and not client.subgoal().active and not black_out(camera))
    with pytest.raises(GoalreelError, match="CANCELED"):
        until(lambda: task._outcome)
        task.result()


def test_the_goal_of_a_node_that_only_hung_is_current_again(node, client, camera):
    task = client.execute(RED)
    client.wait_for_subgoal(60)
    until(lambda: shows(camera) == "goal")
    with hanging(node):
        until(lambda: stale(client) and shows(camera) == "nothing")
        assert not camera.read_latest(max_age_ms=10**6).any(), "however old a picture may be"
    until(lambda: shows(camera) == "goal")
    until(lambda: not stale(client))
    assert client.subgoal().instruction == RED
    assert task.done, "but its task is not trusted"
    client.cancel()
    until(lambda: shows(camera) == "black")


def test_whoever_waits_is_told(node, client, scripted):
    with scripted.planner.gate.shut(), ThreadPoolExecutor() as pool:
        calls = scripted.planner.gate.calls
        task = client.execute(RED)
        until(lambda: scripted.planner.gate.calls > calls)
        waiting = [pool.submit(ask) for ask in (task.result, client.wait_for_subgoal)]
        with hanging(node):
            for ask in waiting:
                with pytest.raises(NodeGoneError):
                    ask.result(60)
    until(lambda: not stale(client))
    client.cancel()


@pytest.mark.lab
def test_the_follower_holds_still_while_the_node_hangs(node, client, robot):
    pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
    with other(*FOLLOWER, ready="ready") as follower:
        states = robot.node.create_publisher(Float64MultiArray, "state", 1)
        actions = robot.listen(Float64MultiArray, "action", 10)
        far_from_home = Float64MultiArray(data=array("d", [0.0] * 12))
        robot.beside.run(lambda: robot.node.create_timer(0.05, lambda: states.publish(far_from_home)))
        client.execute(RED)
        until(lambda: actions)
        with hanging(node):
            until(lambda: any("the goal is stale" in line for line in follower.lines))
        before = len(actions)
        until(lambda: len(actions) > before)


def test_a_killed_node_makes_the_goal_stale_and_its_successor_does_not_revive_the_task(
    node, served, client, camera, robot
):
    task = client.execute(RED)
    assert client.wait_for_subgoal(60).instruction == RED
    until(lambda: camera.read_latest().any())
    node.process.kill()
    until(lambda: stale(client) and black_out(camera))
    assert task.done
    for ask in (task.result, task.cancel, client.wait_for_subgoal, lambda: client.goal_image):
        with pytest.raises(NodeGoneError):
            ask()
    assert issubclass(NodeGoneError, GoalreelError)
    robot.stop_filming()
    with start(url=served[1]):
        shown: list[str] = []
        until(lambda: shown.append(shows(camera)) or "black" in shown)
        assert "goal" not in shown, "there is no camera frame, and the goal is the dead node's"
        until(lambda: not stale(client) and not client.subgoal().active)
        robot.film()
        assert task.done
        with pytest.raises(NodeGoneError):
            task.result()
        again = client.execute(GREEN)
        assert client.wait_for_subgoal(60).instruction == GREEN
        assert not again.done
        again.cancel(60)
