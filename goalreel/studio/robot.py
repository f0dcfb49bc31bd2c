"""A storyboard sent to the ROS node of a robot."""

import os
from importlib import import_module

from goalreel.errors import InputError, UserError
from goalreel.studio.scenes import ros_ability
from goalreel.types import Storyboard

NODE = "goalreel"
"""The node's name, relative to the namespace."""
NODE_SECONDS = 5.0
"""How long the node is waited for, and then its answer."""


def send_to_robot(storyboard: Storyboard) -> None:
    """Let the node execute the storyboard; returns once it has begun.

    Raises:
        InputError: no ROS here, or the node refuses the storyboard, or is not active.
        TimeoutError: no node is there, or it does not answer.
    """
    ability = ros_ability()
    if not ability.available:
        raise InputError(ability.reason or "there is no ROS here")
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    once = import_module("goalreel_ros.client.once")
    try:
        once.start_storyboard(storyboard, NODE, NODE_SECONDS)
    except UserError as e:
        raise InputError(f"the robot's node does not execute it: {e}") from e
