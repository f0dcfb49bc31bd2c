"""An example policy: makes the table look like the goal image of the active sub-goal. Copy it for your own.

It needs three topics and no glue: `subgoal` (what to reach), `image` and `state` (what there is), and it
answers every state with one `action`.

    tabletop_follower --ros-args -p seed:=3 -r subgoal:=goalreel/subgoal
"""

import time
from array import array
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image as RawImage
from std_msgs.msg import Float64MultiArray

from goalreel.streaming.settings import READ_ONLY
from goalreel.tabletop.sim.env import STATE_NAMES
from goalreel.tabletop.sim.grammar import sample_episode
from goalreel.tabletop.sim.reach import ArmAction, Reacher, at_home, homeward, still
from goalreel_interfaces.msg import SubGoal
from goalreel_ros.liveliness import PublisherLiveliness
from goalreel_ros.pictures import decode
from goalreel_ros.qos import WATCHED
from goalreel_ros.tabletop.running import parameters, run

AGAIN = 2.0
"""Seconds between two looks at a scene that needed nothing done."""


class FollowerOptions(BaseModel):
    """The follower's parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: Annotated[
        int,
        Field(
            ge=0,
            le=999_999,
            description="The simulator's: which blocks there are.",
            json_schema_extra=READ_ONLY,
        ),
    ] = 3


class FollowerNode(Node):
    """One motion after the other while a sub-goal is active; holds still while none is,
    and while the node that publishes it is gone or hangs."""

    def __init__(self) -> None:
        super().__init__("follower")
        self._reacher = Reacher(sample_episode(parameters(self, FollowerOptions).seed).scene)
        self._goal: SubGoal | None = None
        self._was_gone = False
        self._live: RawImage | None = None
        self._state = np.full(len(STATE_NAMES), np.nan)
        self._home = False
        self._actions: deque[ArmAction] = deque()
        self._next_look = 0.0
        self._action = self.create_publisher(Float64MultiArray, "action", 10)
        self._liveliness = PublisherLiveliness()
        self.create_subscription(
            SubGoal, "subgoal", self._on_subgoal, WATCHED, event_callbacks=self._liveliness.events
        )
        self.create_subscription(RawImage, "image", self._on_image, qos_profile_sensor_data)
        # Depth 1: an action answers the newest state, and never more than one is on its way.
        self.create_subscription(Float64MultiArray, "state", self._on_state, 1)
        self.get_logger().info("ready")

    def _on_subgoal(self, message: SubGoal) -> None:
        self._next_look = 0.0
        if message.active and not message.goal_image.data:
            self.get_logger().error(
                f"declined: {message.instruction!r} has no goal image, and I read nothing else"
            )
        self._goal = message if message.active and message.goal_image.data else None
        if self._goal is not None:
            self.get_logger().info(f"sub-goal {message.index + 1} of {message.num_steps}: {message.name}")

    def _on_image(self, message: RawImage) -> None:
        if self._home:
            self._live = message

    def _on_state(self, message: Float64MultiArray) -> None:
        before, state = self._state, np.asarray(message.data)
        self._state = state
        self._home = at_home(state)
        if not self._home:
            self._live = None
        if self._goal is None or self._stale():
            return
        if not self._actions and self._home:
            self._look(self._goal)
        if self._actions:
            self._send(self._actions.popleft())
        elif not self._home and still(state, before):
            self._send(homeward(state))

    def _stale(self) -> bool:
        if self._liveliness.gone != self._was_gone:
            self._was_gone = self._liveliness.gone
            self.get_logger().warning(
                "the goal is stale: its node is gone or hangs" if self._was_gone else "the node is back"
            )
        return self._was_gone

    def _look(self, goal: SubGoal) -> None:
        """Decide on the next motion. A motion once begun is carried through: its end has the hand empty."""
        if self._live is None or time.monotonic() < self._next_look:
            return
        try:
            motion = self._reacher.motion(decode(self._live), decode(goal.goal_image))
        except ValueError as e:
            self.get_logger().error(f"cannot follow {goal.name!r}: {e}")
            motion = None
        if motion is None:
            self._next_look = time.monotonic() + AGAIN
            return
        self.get_logger().info(f"moving the {motion.block}")
        self._actions.extend(motion.actions)
        self._live = None

    def _send(self, action: ArmAction) -> None:
        self._action.publish(Float64MultiArray(data=array("d", action.tolist())))


@contextmanager
def follower() -> Iterator[FollowerNode]:
    """The node."""
    node = FollowerNode()
    try:
        yield node
    finally:
        node.destroy_node()


def main(args: list[str] | None = None) -> None:
    """Run the follower; `args` as on the command line, that of the process when None."""
    run(follower, args)


if __name__ == "__main__":
    main()
