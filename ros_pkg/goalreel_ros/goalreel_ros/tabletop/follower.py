# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""An example policy: makes the table look like the goal image of the active sub-goal. Copy it for your own.

It reads three topics, `subgoal` (what to reach), `image` and `state` (the present), and answers every state
with one `action`.

    tabletop_follower --ros-args -p seed:=3 -r subgoal:=goalreel/subgoal
"""

import time
from array import array
from collections import deque

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image as RawImage
from std_msgs.msg import Float64MultiArray

from goalreel.settings import Settings, setting
from goalreel.tabletop.env import STATE_NAMES
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.reach import ArmAction, Reacher, at_home, homeward, still
from goalreel_interfaces.msg import SubGoal
from goalreel_ros.liveliness import LiveSubscription
from goalreel_ros.parameters import declare_options
from goalreel_ros.pictures import decode
from goalreel_ros.spin import run


class FollowerOptions(Settings):
    """The follower's parameters."""

    seed: int = setting(3, "The simulator's, for the blocks on the table.", ge=0, le=999_999, read_only=True)


class FollowerNode(Node):
    """Carries out one motion after the other while a sub-goal is active.

    It holds still without one, and while the node that publishes sub-goals is gone or hangs.
    """

    def __init__(self) -> None:
        super().__init__("follower")
        self._reacher = Reacher(sample_episode(declare_options(self, FollowerOptions).seed).scene)
        self._goal: SubGoal | None = None
        self._live: RawImage | None = None
        self._state: NDArray[np.float64] = np.full(len(STATE_NAMES), np.nan)
        self._home = False
        self._actions: deque[ArmAction] = deque()
        self._next_plan_time = 0.0
        self._action = self.create_publisher(Float64MultiArray, "action", 10)
        self._subgoal = LiveSubscription(self, SubGoal, "subgoal", self._on_subgoal, self._forget_goal)
        self.create_subscription(RawImage, "image", self._on_image, qos_profile_sensor_data)
        # Depth 1: an action answers the newest state, and never more than one is being sent.
        self.create_subscription(Float64MultiArray, "state", self._on_state, 1)
        self.get_logger().info("ready")

    def _on_subgoal(self, message: SubGoal) -> None:
        self._next_plan_time = 0.0
        if message.active and not message.goal_image.data:
            self.get_logger().error(
                f"declined: {message.instruction!r} has no goal image, and this follower reads nothing else"
            )
        self._goal = message if message.active and message.goal_image.data else None
        if self._goal is not None:
            self.get_logger().info(f"sub-goal {message.index + 1} of {message.num_steps}: {message.name}")

    def _forget_goal(self) -> None:
        self._goal = None
        self.get_logger().warning("the goal is stale: its node is gone or hangs")

    def _on_image(self, message: RawImage) -> None:
        if self._home:
            self._live = message

    def _on_state(self, message: Float64MultiArray) -> None:
        previous, state = self._state, np.asarray(message.data)
        self._state = state
        self._home = at_home(state)
        if not self._home:
            self._live = None
        if self._goal is None:
            return
        if not self._actions and self._home:
            self._plan_motion(self._goal)
        if self._actions:
            self._send(self._actions.popleft())
        elif not self._home and still(state, previous):
            self._send(homeward(state))

    def _plan_motion(self, goal: SubGoal) -> None:
        """Choose the next motion. It will be carried out to its end, where the hand is empty."""
        if self._live is None or time.monotonic() < self._next_plan_time:
            return
        try:
            motion = self._reacher.motion(decode(self._live), decode(goal.goal_image))
        except ValueError as e:
            self.get_logger().error(f"cannot follow {goal.name!r}: {e}")
            motion = None
        if motion is None:
            self._next_plan_time = time.monotonic() + 2.0  # there is nothing to do in this scene
            return
        self.get_logger().info(f"moving the {motion.block}")
        self._actions.extend(motion.actions)
        self._live = None

    def _send(self, action: ArmAction) -> None:
        self._action.publish(Float64MultiArray(data=array("d", action.tolist())))


def main(args: list[str] | None = None) -> None:
    """Run the follower. `args` are those of the command line; None takes the process's own."""
    run(FollowerNode, args)


if __name__ == "__main__":
    main()
