"""The processes of `benchmarks/ros.py`: a camera, a subscriber that does nothing, and the goalreel node.

    python benchmarks/parts/ros.py camera 640x480 30
    python benchmarks/parts/ros.py bare OUT.json
    python benchmarks/parts/ros.py node OUT.json MODEL_SECONDS --ros-args ...

Frames are stamped with the wall clock when they are published. Both receivers read the same clock when a
frame arrives, and write what they saw on SIGINT.
"""

import array
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, Image as ImageMessage

sys.path.append(str(Path(__file__).parents[1]))
from common import ScriptedModels

from goalreel.image import Image
from goalreel.types import Candidate, Edit, Plan, Request, Stage, Step, Task, Verdict

QOS = qos_profile_sensor_data
QOS.depth = 1


def start() -> None:
    """Start rclpy. SIGINT ends `spin`, and no call: within `take_message` it was a RuntimeError."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rclpy.init()


def spin(node: Node) -> None:
    """Spin until a signal ends the process."""
    try:
        rclpy.spin(node)
    except ExternalShutdownException:
        pass
    finally:
        rclpy.try_shutdown()


def started(out: Path) -> None:
    """Tell whoever measures that frames arrive."""
    out.with_suffix(".started").touch()


def camera(size: str, rate: float) -> None:
    """Publish on `image`, `rate` times a second."""
    width, height = map(int, size.split("x"))
    pixels = np.random.default_rng(0).integers(0, 255, (height, width, 3), np.uint8)
    message = ImageMessage(height=height, width=width, encoding="rgb8", step=3 * width)
    message.header.frame_id = "camera_optical_frame"
    message.data = array.array("B", pixels.tobytes())
    start()
    node = rclpy.create_node("camera")
    publisher = node.create_publisher(ImageMessage, "image", QOS)

    def publish() -> None:
        now = time.time_ns()
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(now, 10**9)
        publisher.publish(message)

    node.create_timer(1 / rate, publish)
    spin(node)


def bare(out: Path) -> None:
    """Receive and do nothing."""
    arrivals: list[tuple[int, int]] = []
    start()
    node = rclpy.create_node("bare")

    def note(message: ImageMessage) -> None:
        stamp = message.header.stamp
        arrivals.append((stamp.sec * 10**9 + stamp.nanosec, time.time_ns()))
        if len(arrivals) == 1:
            started(out)

    node.create_subscription(ImageMessage, "image", note, QOS)
    spin(node)
    out.write_text(json.dumps(arrivals))


class SlowModels(ScriptedModels):
    """Models that keep the node busy, as a GPU would, and reject every picture."""

    def __init__(self, seconds: float) -> None:
        self._seconds: dict[Stage, float] = {"plan": seconds, "edit": seconds, "judge": seconds / 10}

    def work(self, stage: Stage, requests: Sequence[Request]) -> None:
        time.sleep(self._seconds[stage])

    def plan_of(self, task: Task) -> Plan:
        steps = [Step(name=f"step {i}", instruction=f"state {i}", prompt=f"edit {i}") for i in range(4)]
        return Plan(steps=tuple(steps))

    def image_of(self, edit: Edit) -> Image:
        assert edit.image is not None
        return Image(edit.image.pixels[::-1].copy())

    def verdict_of(self, candidate: Candidate) -> Verdict:
        return Verdict(success=False, reasoning="again")


def node(out: Path, seconds: float, arguments: list[str]) -> None:
    """Run the real node with slow models, and note when frames arrive."""
    from goalreel.models.model_set import ModelSet
    from goalreel.streaming.camera import FrameSlot
    from goalreel_ros import main
    from goalreel_ros.cameras import CameraSlot
    from goalreel_ros.node import GoalreelNode

    arrivals: list[tuple[int, int]] = []
    models = SlowModels(seconds)

    put = FrameSlot.put

    def timed_put(slot: CameraSlot, raw: ImageMessage | CompressedImage, stamp: int, frame_id: str) -> bool:
        is_new = put(slot, raw, stamp, frame_id)
        arrivals.append((stamp, time.time_ns()))
        if len(arrivals) == 1:
            started(out)
        return is_new

    with patch.object(FrameSlot, "put", timed_put):
        ok = main.run(lambda: GoalreelNode(lambda _: ModelSet(models, models, models)), arguments)
    out.write_text(json.dumps(arrivals))
    main.leave(0 if ok else 1)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["camera", size, rate]:
            camera(size, float(rate))
        case ["bare", out]:
            bare(Path(out))
        case ["node", out, seconds, *arguments]:
            node(Path(out), float(seconds), arguments)
        case _:
            sys.exit(__doc__)
