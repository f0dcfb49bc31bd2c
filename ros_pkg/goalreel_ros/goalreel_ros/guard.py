"""Passes the sub-goal on to consumers that cannot tell whether its node is alive, as rosetta and cyclo.

    ros2 run goalreel_ros guard            # or goalreel_ros_guard, where pip installed it

It runs beside the policy, in the node's namespace. `~/image/compressed` and `~/name` are what the node's
topics are, latched and repeated, so that who comes late gets them too. Once the node is gone or hangs they
are black and empty.
"""

from array import array
from typing import Any

from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import String

from goalreel_ros.liveliness import LiveSubscription
from goalreel_ros.outputs import UNKNOWN_SIZE
from goalreel_ros.pictures import black, decode
from goalreel_ros.qos import GOAL
from goalreel_ros.spin import run

QUALITY = 90
PERIOD = 0.25
"""Seconds between two repetitions."""


class GuardNode(Node):
    """Repeats the goal image of a living node, and its name. `options` are those of any node."""

    def __init__(self, **options: Any) -> None:
        super().__init__("goalreel_guard", **options)
        self._image = self.create_publisher(CompressedImage, "~/image/compressed", GOAL)
        self._name = self.create_publisher(String, "~/name", GOAL)
        self._show_black(UNKNOWN_SIZE)
        self._show_name(String())
        LiveSubscription(
            self, CompressedImage, "goalreel/subgoal/image/compressed", self._show_image, self._show_black
        )
        LiveSubscription(
            self, String, "goalreel/subgoal/name", self._show_name, lambda: self._show_name(String())
        )
        steady = Clock(clock_type=ClockType.STEADY_TIME)  # simulated time may stand still
        self.create_timer(PERIOD, self._repeat, clock=steady)
        self.get_logger().info("ready")

    def _show_image(self, message: CompressedImage) -> None:
        self._newest_image = message
        self._image.publish(message)

    def _show_black(self, size: tuple[int, int] | None = None) -> None:
        size = size or decode(self._newest_image).size
        message = CompressedImage(format="jpeg", data=array("B", black(size).jpeg(QUALITY)))
        message.header.stamp = self.get_clock().now().to_msg()
        self._show_image(message)

    def _show_name(self, message: String) -> None:
        self._newest_name = message
        self._name.publish(message)

    def _repeat(self) -> None:
        self._image.publish(self._newest_image)
        self._name.publish(self._newest_name)


def main(args: list[str] | None = None) -> None:
    """Run the guard until a signal comes. `args` are those of the command line; None takes the process's."""
    run(GuardNode, args)


if __name__ == "__main__":
    main()
