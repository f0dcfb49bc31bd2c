"""A node that is killed, or hangs: everything that follows its goals says so.

How soon follows from the leases; here it is only waited for.
"""

import signal
from array import array
from concurrent.futures import ThreadPoolExecutor

import lerobot_camera_goalreel.subscriber
import pytest
from lerobot_camera_goalreel import GoalreelCamera, GoalreelCameraConfig
from std_msgs.msg import Float64MultiArray
from support.ros import other
from support.ros_bench import GREEN, RED, Robot
from support.ros_bench import node as start
from support.wait import until

from goalreel_ros.client import GoalreelClient, GoalreelError, NodeGoneError
from goalreel_ros.qos import LEASE, OFFERED_LEASE

pytestmark = pytest.mark.process

FOLLOWER = ("-m", "goalreel_ros.tabletop.follower", "--ros-args", "-r", "subgoal:=goalreel/subgoal")


@pytest.fixture
def node(served):
    """One that may be killed; others' are not."""
    with start(url=served[1]) as process:
        yield process
        process.process.kill()


@pytest.fixture
def robot(served):
    robot = Robot()
    robot.film()
    yield robot
    robot.close()


@pytest.fixture
def client(node, robot):
    with GoalreelClient(timeout=60) as client:
        client.wait_until_active(60)
        yield client


@pytest.fixture
def camera(client):
    with GoalreelCamera(GoalreelCameraConfig(width=64, height=48, timeout_s=60, warmup_s=0)) as camera:
        yield camera


def stale(client) -> bool:
    """Whether the client refuses to give a goal, and says why."""
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


def hang(process) -> None:
    process.process.send_signal(signal.SIGSTOP)


def test_the_leases_are_in_order_and_everywhere_the_same():
    assert 2 * OFFERED_LEASE < LEASE
    assert lerobot_camera_goalreel.subscriber.LEASE == LEASE


def test_a_killed_node_makes_the_goal_stale_and_its_successor_does_not_revive_the_task(
    node, served, client, camera
):
    task = client.annotate(RED)
    assert client.wait_for_subgoal(60).instruction == RED
    until(lambda: camera.read_latest().any())
    node.process.kill()
    until(lambda: stale(client) and black_out(camera))
    assert task.done
    for ask in (task.result, task.cancel, client.wait_for_subgoal, lambda: client.goal_image):
        with pytest.raises(NodeGoneError):
            ask()
    assert issubclass(NodeGoneError, GoalreelError)
    with start(url=served[1]):
        until(lambda: not stale(client) and not client.subgoal().active and not black_out(camera))
        until(lambda: not camera.read_latest().any())
        assert task.done
        with pytest.raises(NodeGoneError):
            task.result()
        again = client.annotate(GREEN)
        assert client.wait_for_subgoal(60).instruction == GREEN
        assert not again.done
        again.cancel(60)


def test_a_node_that_hangs_is_as_good_as_gone_and_finds_the_cancelling_when_it_goes_on(node, client, camera):
    task = client.annotate(RED)
    client.wait_for_subgoal(60)
    hang(node)
    until(lambda: stale(client) and black_out(camera))
    with pytest.raises(NodeGoneError):
        task.cancel(60)
    node.process.send_signal(signal.SIGCONT)
    until(lambda: not stale(client) and not client.subgoal().active and not black_out(camera))
    with pytest.raises(GoalreelError, match="CANCELED"):
        until(lambda: task._outcome)
        task.result()


def test_whoever_waits_is_told(node, client, scripted):
    with scripted.planner.gate.shut(), ThreadPoolExecutor() as pool:
        calls = scripted.planner.gate.calls
        task = client.annotate(RED)
        until(lambda: scripted.planner.gate.calls > calls)
        waiting = [pool.submit(ask) for ask in (task.result, client.wait_for_subgoal)]
        hang(node)
        for ask in waiting:
            with pytest.raises(NodeGoneError):
                ask.result(60)


def test_the_follower_holds_still_while_the_node_hangs(node, client, robot):
    pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
    with other(*FOLLOWER, ready="ready") as follower:
        states = robot.node.create_publisher(Float64MultiArray, "state", 1)
        actions = robot.listen(Float64MultiArray, "action", 10)
        far_from_home = Float64MultiArray(data=array("d", [0.0] * 12))
        robot.beside.run(lambda: robot.node.create_timer(0.05, lambda: states.publish(far_from_home)))
        client.annotate(RED)
        until(lambda: actions)
        hang(node)
        until(lambda: "the goal is stale" in follower.lines[-1])
        node.process.send_signal(signal.SIGCONT)
        until(lambda: "the node is back" in follower.lines[-1])
        before = len(actions)
        until(lambda: len(actions) > before)
