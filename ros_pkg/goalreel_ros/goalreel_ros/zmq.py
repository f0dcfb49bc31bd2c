"""Serves the goal image to LeRobot's own ZMQCamera, where the policy's machine has no rclpy.

    ros2 run goalreel_ros zmq --width 640 --height 480   # or goalreel_ros_zmq, where pip installed it
    lerobot-rollout --robot.cameras="{subgoal: {type: zmq, server_address: 127.0.0.1, port: 5555,
                                      camera_name: subgoal, width: 640, height: 480, fps: 30,
                                      timeout_ms: 1900}}" ...

The protocol is that of `lerobot.cameras.zmq.image_server`: JSON with JPEGs in base64. Their red and blue are
exchanged, because ZMQCamera returns what OpenCV decodes (BGR) as RGB.
"""

import base64
import json
import sys
import time
from typing import Annotated

import cv2
import numpy as np
import typer
import zmq
from numpy.typing import NDArray
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import CompressedImage

from goalreel.errors import InputError
from goalreel.subgoal_camera import fit
from goalreel_ros.liveliness import LiveSubscription
from goalreel_ros.pictures import decode
from goalreel_ros.spin import BackgroundNode

app = typer.Typer(add_completion=False)
QUALITY = 95


class Bridge:
    """Sends the goal image repeatedly, because ZMQCamera takes silence for a broken camera.

    The image is black without a goal, as in annotated datasets. While the node is gone nothing is sent, and
    its goal is forgotten. `heartbeat` is the topic that `LiveSubscription` describes.
    """

    def __init__(
        self, topic: str, address: str, camera: str, size: tuple[int, int], heartbeat: str = ""
    ) -> None:
        self._camera, self._size = camera, size
        self._show_black()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        try:
            self._socket.bind(address)
        except zmq.ZMQError as e:
            self._socket.close()  # whoever collected an open one would wait for ever
            self._context.term()
            raise InputError(f"cannot serve at {address}: {e}") from None
        self._background = BackgroundNode("goalreel_zmq")
        self._node = self._background.node
        self._goal = LiveSubscription(
            self._node, CompressedImage, topic, self._on_image, self._show_black, heartbeat=heartbeat
        )
        self._background.start()

    def send(self) -> bool:
        """Send the present picture if its publisher is alive, and say whether it is."""
        if not self._goal.alive:
            return False
        message = {"timestamps": {self._camera: time.time()}, "images": {self._camera: self._encoded}}
        self._socket.send_string(json.dumps(message))
        return True

    def close(self) -> None:
        """Stop, and release the address."""
        self._background.close()
        self._socket.close()
        self._context.term()

    def _show_black(self) -> None:
        self._encoded = _encode(np.zeros((self._size[1], self._size[0], 3), np.uint8))

    def _on_image(self, message: CompressedImage) -> None:
        self._show_black()
        try:
            if message.data:
                self._encoded = _encode(fit(decode(message).pixels, self._size))
        except ValueError as e:
            self._node.get_logger().error(f"the goal image cannot be read, black in its place: {e}")


def _encode(rgb: NDArray[np.uint8]) -> str:
    """Encode as JPEG in base64, with the channels given to OpenCV as if they were BGR."""
    ok, data = cv2.imencode(".jpg", rgb, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    if not ok:
        raise ValueError(f"OpenCV could not encode a picture of {rgb.shape[1]}x{rgb.shape[0]} pixels")
    return base64.b64encode(data).decode()


def main() -> None:
    """Run the command with the process's arguments; those after --ros-args go to ROS."""
    app(remove_ros_args(sys.argv)[1:])


@app.command()
def run(
    width: Annotated[int, typer.Option(min=1, max=8192, help="As the policy was trained.")],
    height: Annotated[int, typer.Option(min=1, max=8192, help="As the policy was trained.")],
    topic: Annotated[str, typer.Option(help="Where the node is.")] = "/goalreel/subgoal/image/compressed",
    address: Annotated[
        str, typer.Option(help="tcp://*:5555 serves other machines too.")
    ] = "tcp://127.0.0.1:5555",
    camera: Annotated[str, typer.Option(help="ZMQCamera's camera_name.")] = "subgoal",
    fps: Annotated[float, typer.Option(min=1, max=120, help="Messages a second.")] = 30.0,
    heartbeat: Annotated[
        str, typer.Option(help="The node's ~/progress, where it is not beside ~/subgoal of the topic.")
    ] = "",
) -> None:
    """Serve the goal image to LeRobot's ZMQCamera until Ctrl-C."""
    try:
        bridge = Bridge(topic, address, camera, (width, height), heartbeat)
    except InputError as e:
        raise typer.BadParameter(str(e)) from None
    typer.echo(f"serving at {address} as {camera}; waiting for {topic}")
    sending = False
    try:
        while True:
            if bridge.send() != sending:
                sending = not sending
                typer.echo(f"{topic} is there: sending" if sending else f"{topic} is gone: silent")
            time.sleep(1 / fps)
    except KeyboardInterrupt:
        typer.echo("stopped")
    finally:
        bridge.close()


if __name__ == "__main__":
    main()
