"""Make docs/images/ros.png: a plan that the node carries out in the simulated tabletop, seen on the way.

    .venv/bin/python dev/ros_picture.py docs/images/ros.png

Above is the contact sheet, below are the markers as RViz draws them.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import PIL.Image
import rclpy
from rclpy.node import Node
from std_msgs.msg import String

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from rviz_display import picture_of, receive

from goalreel_interfaces.msg import Storyboard, StoryboardStep
from goalreel_ros.qos import LATCHED

BIN = Path(sys.executable).parent
PORT = 8797
MODELS = f"server:http://127.0.0.1:{PORT}"
SIMULATOR = ("tabletop_simulator", "-p", "size:=512", "-p", f"port:={PORT}")
NODE = (
    "goalreel_node",
    *(word for role in ("planner", "editor", "critic") for word in ("-p", f"{role}:={MODELS}")),
)
FOLLOWER = ("tabletop_follower", "-r", "subgoal:=goalreel/subgoal")


class PictureNode(Node):
    """Reads what the simulator asks for, and counts the completed steps of the plan."""

    def __init__(self) -> None:
        super().__init__("picture")
        self.instruction = ""
        self.completed = 0
        self.create_subscription(String, "/tabletop/truth", self._on_truth, LATCHED)
        self.create_subscription(Storyboard, "/goalreel/storyboard", self._on_storyboard, LATCHED)
        self.instruct = self.create_publisher(String, "/goalreel/instruction", 1)

    def _on_truth(self, message: String) -> None:
        self.instruction = json.loads(message.data)["instruction"]

    def _on_storyboard(self, message: Storyboard) -> None:
        self.completed = sum(step.status == StoryboardStep.STATUS_COMPLETED for step in message.steps)

    def wait(self, condition: Callable[[], object], seconds: float = 120.0) -> None:
        """Spin until the condition holds.

        Raises:
            TimeoutError: it did not within `seconds`.
        """
        end = time.monotonic() + seconds
        while not condition():
            rclpy.spin_once(self, timeout_sec=0.1)
            if time.monotonic() > end:
                raise TimeoutError(f"no picture after {seconds:g} s")


def main(out: str) -> None:
    with ExitStack() as stack:
        for name, *options in (SIMULATOR, NODE, FOLLOWER):
            process = subprocess.Popen([BIN / name, "--ros-args", *options])
            stack.enter_context(process)
            stack.callback(process.terminate)
        with rclpy.init():
            watcher = PictureNode()
            watcher.wait(lambda: watcher.instruction and watcher.instruct.get_subscription_count())
            watcher.instruct.publish(String(data=watcher.instruction))
            watcher.wait(lambda: watcher.completed >= 2)
            watcher.destroy_node()
        sheet, markers = receive()
        PIL.Image.fromarray(picture_of(sheet, markers).pixels).save(out)


if __name__ == "__main__":
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    main(sys.argv[1])
