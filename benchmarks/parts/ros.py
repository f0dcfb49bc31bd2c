"""The processes of `benchmarks/ros.py`: a camera, a subscriber that does nothing, and the goalreel node.

    python benchmarks/parts/ros.py camera 640x480 30
    python benchmarks/parts/ros.py bare OUT.json
    python benchmarks/parts/ros.py node OUT.json --ros-args ...

Frames are stamped with the wall clock when they are published; both receivers read the same clock when the
frame reaches them, and write what they saw on SIGINT.
"""

import array
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage
from sensor_msgs.msg import Image as ImageMessage

from goalreel.image import Image
from goalreel.types import Candidate, Edit, Plan, Step, Task, Verdict

MODEL_SECONDS = 2.0
ONE = qos_profile_sensor_data
ONE.depth = 1


def stamp_of(message: ImageMessage) -> int:
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


def spin(node: Node) -> None:
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        rclpy.try_shutdown()


def camera(size: str, rate: float) -> None:
    """Publish on `image` until told to stop."""
    width, height = map(int, size.split("x"))
    pixels = np.random.default_rng(0).integers(0, 255, (height, width, 3), np.uint8)
    message = ImageMessage(height=height, width=width, encoding="rgb8", step=3 * width)
    message.header.frame_id = "camera_optical_frame"
    message.data = array.array("B", pixels.tobytes())
    rclpy.init()
    node = rclpy.create_node("camera")
    publisher = node.create_publisher(ImageMessage, "image", ONE)

    def publish() -> None:
        now = time.time_ns()
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(now, 10**9)
        publisher.publish(message)

    node.create_timer(1 / rate, publish)
    spin(node)


def bare(out: Path) -> None:
    """Receive and do nothing."""
    seen: list[tuple[int, int]] = []
    rclpy.init()
    node = rclpy.create_node("bare")
    node.create_subscription(ImageMessage, "image", lambda m: seen.append((stamp_of(m), time.time_ns())), ONE)
    spin(node)
    out.write_text(json.dumps({"arrivals": seen}))


class SlowModels:
    """Planner, editor and critic that keep the node busy: 2 s a plan and an edit, as a GPU would take."""

    def __init__(self) -> None:
        self.calls = 0

    def _wait(self, seconds: float) -> None:
        self.calls += 1
        time.sleep(seconds)

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        self._wait(MODEL_SECONDS)
        steps = [Step(name=f"step {i}", instruction=f"state {i}", prompt=f"edit {i}") for i in range(4)]
        return [Plan(steps=tuple(steps)) for _ in tasks]

    def edit(self, edits: Sequence[Edit]) -> list[Image]:
        self._wait(MODEL_SECONDS)
        return [Image(e.image.pixels[::-1].copy()) for e in edits if e.image is not None]

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        self._wait(0.2)
        return [Verdict(success=False, reasoning="again") for _ in candidates]


def node(out: Path, arguments: list[str]) -> None:
    """The real node, with models that only take time, and a slot that notes when frames come and are used."""
    from goalreel.models.load import Trio
    from goalreel.streaming.board import Frame
    from goalreel.streaming.frames import FrameSlot
    from goalreel_ros import main
    from goalreel_ros.node import GoalreelNode
    from goalreel_ros.pictures import decode

    arrivals: list[tuple[int, int]] = []
    uses: list[tuple[int, int]] = []
    models = SlowModels()

    class WatchedSlot(FrameSlot[ImageMessage | CompressedImage]):
        def put(self, raw: ImageMessage | CompressedImage, stamp: int, frame_id: str) -> None:
            super().put(raw, stamp, frame_id)
            arrivals.append((stamp, time.time_ns()))

        def newest(self) -> Frame | None:
            frame = super().newest()
            if frame is not None:
                uses.append((frame.stamp, time.time_ns()))
            return frame

    def make() -> GoalreelNode:
        return GoalreelNode(lambda _: Trio(models, models, models), lambda: WatchedSlot(decode))

    ok = main.run(make, arguments)
    out.write_text(json.dumps({"arrivals": arrivals, "uses": uses, "model_calls": models.calls}))
    main.leave(0 if ok else 1)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["camera", size, rate]:
            camera(size, float(rate))
        case ["bare", out]:
            bare(Path(out))
        case ["node", out, *arguments]:
            node(Path(out), arguments)
        case _:
            sys.exit(__doc__)
