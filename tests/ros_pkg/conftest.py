"""Fixtures of the ROS tests: an environment, and a node with scripted models, a robot's side and a client.

One node serves a module: its fixtures are made when a test asks for them, and end with the module.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from support.ros import ENV, Other

if TYPE_CHECKING:  # some of the tests do without ROS
    from rclpy.context import Context
    from support.ros_bench import Robot, Scripted

    from goalreel_ros.client import GoalreelClient


@pytest.fixture(scope="module", autouse=True)
def ros_env() -> Iterator[dict[str, str]]:
    """The environment of a module's tests and of the processes they start."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENV.items():
            patch.setenv(name, value)
        yield ENV


@pytest.fixture(scope="module")
def context(ros_env) -> "Iterator[Context]":
    """A context for nodes of this process."""
    import rclpy

    context = rclpy.context.Context()
    rclpy.init(context=context, args=[])
    yield context
    context.try_shutdown()


@pytest.fixture(scope="module")
def served(ros_env) -> "Iterator[tuple[Scripted, str]]":
    """Scripted models, and the URL of the server they are behind."""
    from support.ros_bench import models

    with models() as both:
        yield both


@pytest.fixture
def scripted(served) -> "Scripted":
    """The models' own side: their gates and calls."""
    return served[0]


@pytest.fixture(scope="module")
def node_parameters() -> dict[str, object]:
    """The node's, where a module wants others than its defaults."""
    return {}


@pytest.fixture(scope="module")
def node(served, node_parameters) -> Iterator[Other]:
    """The process of an active node."""
    from support.ros_bench import node as start

    with start(url=served[1], **node_parameters) as process:
        yield process


@pytest.fixture(scope="module")
def filming(node) -> "Iterator[Robot]":
    """The robot's side of the node, its camera on."""
    from support.ros_bench import Robot

    robot = Robot()
    robot.film()
    yield robot
    robot.close()


@pytest.fixture
def robot(filming) -> "Robot":
    """The robot's side, its scene as it was at first."""
    filming.colour = None
    return filming


@pytest.fixture(scope="module")
def connected(node) -> "Iterator[GoalreelClient]":
    """A client of the active node."""
    from goalreel_ros.client import GoalreelClient

    with GoalreelClient(timeout=60) as client:
        client.wait_until_active(600)  # discovery may take minutes (Fast DDS issue 6513)
        yield client


@pytest.fixture
def client(connected, robot) -> "GoalreelClient":
    """A client of the active node, beside the robot."""
    return connected
