# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""The simulated tabletop as a robot on ROS 2: camera and state out, actions in, and its models over HTTP.

    tabletop_simulator --ros-args -p seed:=3
    goalreel_node --ros-args -p planner:=server:http://127.0.0.1:8765 -p editor:=... -p critic:=...

Topics: `image` at 10 Hz, and `state` (12 numbers, `env.STATE_NAMES`) after every control
step. Each `action` (5 numbers, `env.ACTION_NAMES`) is carried out once, in order; without one the arm holds.
`~/truth`, latched, is a JSON object: the instruction, which of its sub-goals hold, the models' address.
"""

import json
import math
import socket
import threading
from array import array
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image as RawImage
from std_msgs.msg import Float64MultiArray, Header, String

from goalreel.http.server import BoundedServer
from goalreel.image import Image
from goalreel.serving.app import create_app
from goalreel.serving.settings import Models, ServeSettings
from goalreel.settings import Settings, setting
from goalreel.tabletop.env import ACTION_NAMES, CONTROL_HZ
from goalreel_ros import parameters, pictures, qos
from goalreel_ros.spin import run
from goalreel_ros.tabletop.exact import CAMERA, CriticChat, PlannerChat, SimulatorEditor, World

FRAME = f"{CAMERA}_optical_frame"
QUEUE = 64
"""Length of the queue of actions."""
HOST = "127.0.0.1"
CLOSE_SECONDS = 1


@contextmanager
def serving(models: Models, port: int) -> Iterator[str]:
    """Serve models on loopback, in a thread, and give the address.

    Raises:
        OSError: the port is in use.
    """
    with socket.create_server((HOST, port)) as listening:
        app = create_app(models, ServeSettings(batch_wait_ms=0))
        server = BoundedServer(app, timeout_graceful_shutdown=CLOSE_SECONDS)
        # Outside the main thread uvicorn installs no signal handlers.
        thread = threading.Thread(target=server.run, args=([listening],), name="models", daemon=True)
        thread.start()
        try:
            yield f"http://{HOST}:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(CLOSE_SECONDS)


class SimulatorOptions(Settings):
    """The simulator's parameters."""

    seed: int = setting(3, "Scene and instruction.", ge=0, le=999_999, read_only=True)
    size: int = setting(256, "Width and height in pixels.", ge=64, le=1024, read_only=True)
    rate: float = setting(1.0, "Times real time.", ge=0.1, le=20, read_only=True)
    port: int = setting(8765, "Of the models; 0: any.", ge=0, le=65535, read_only=True)


class SimulatorNode(Node):
    """Steps the world on a timer, in the executor's thread, and serves models that know it.

    Raises:
        OSError: the port is in use.
    """

    def __init__(self) -> None:
        self._undo = ExitStack()
        super().__init__("tabletop")
        self._options = parameters.declare_options(self, SimulatorOptions)
        self._world = World(self._options.seed, self._options.size)
        self._undo.callback(self._world.close)
        models = Models(
            planner=PlannerChat(self._world),
            critic=CriticChat(self._world),
            editor=SimulatorEditor(self._world),
            planner_name="simulator-planner",
            critic_name="simulator-critic",
            editor_name="simulator-editor",
        )
        url = self._undo.enter_context(serving(models, self._options.port))
        self._address = f"server:{url}"
        self._actions: deque[list[float]] = deque(maxlen=QUEUE)
        self._grip = 1.0
        self._ticks = 0
        self._truth = ""
        self._image = self.create_publisher(RawImage, "image", qos_profile_sensor_data)
        self._state = self.create_publisher(Float64MultiArray, "state", 1)
        self._truth_publisher = self.create_publisher(String, "~/truth", qos.LATCHED)
        self.create_subscription(Float64MultiArray, "action", self._on_action, QUEUE)
        self.create_timer(1 / (CONTROL_HZ * self._options.rate), self._tick)
        instruction = self._world.episode.instruction
        self.get_logger().info(f"ready: {instruction!r}, models at {self._address}")

    def destroy_node(self) -> None:
        """Stop the models, too, and free the renderers."""
        self._undo.close()
        super().destroy_node()

    def _on_action(self, message: Float64MultiArray) -> None:
        if len(message.data) != len(ACTION_NAMES) or not all(map(math.isfinite, message.data)):
            self.get_logger().warning(f"not an action ({', '.join(ACTION_NAMES)}): {list(message.data)}")
            return
        self._actions.append(list(message.data))

    def _tick(self) -> None:
        action = self._actions.popleft() if self._actions else [0.0, 0.0, 0.0, 0.0, self._grip]
        self._grip = action[4]
        look = self._ticks % max(1, round(self._options.rate)) == 0
        self._ticks += 1
        tick = self._world.tick(np.array(action), look=look)
        self._state.publish(Float64MultiArray(data=array("d", tick.observation.tolist())))
        if tick.picture is not None:
            self._publish(tick.picture)

    def _publish(self, picture: Image) -> None:
        header = Header(stamp=self.get_clock().now().to_msg(), frame_id=FRAME)
        self._image.publish(pictures.raw(picture, header))
        now, episode = self._world.now(), self._world.episode
        goals = [{"text": goal.text, "holds": now.holds(goal)} for goal in episode.goals]
        facts = {"instruction": episode.instruction, "goals": goals, "arm_home": now.arm_home}
        truth = json.dumps(facts | {"models": self._address})
        if truth != self._truth:
            self._truth = truth
            self._truth_publisher.publish(String(data=truth))


def main(args: list[str] | None = None) -> None:
    """Run the simulator. `args` are those of the command line; None takes the process's own."""
    run(SimulatorNode, args)


if __name__ == "__main__":
    main()
