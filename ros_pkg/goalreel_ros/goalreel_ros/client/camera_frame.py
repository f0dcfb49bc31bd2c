"""One frame of a camera, for a program that has no node of its own."""

import threading

from rclpy.exceptions import InvalidTopicNameException
from sensor_msgs.msg import CompressedImage
from sensor_msgs.msg import Image as RawImage

from goalreel.errors import InputError, first_line
from goalreel.image import Image
from goalreel_ros.camera_graph import COMPRESSED, RAW, explain_silence
from goalreel_ros.cameras import NEWEST
from goalreel_ros.client.background_node import BackgroundNode
from goalreel_ros.pictures import decode


def next_frame(topic: str, timeout: float, args: list[str] | None = None) -> Image:
    """Wait for the next frame of a topic, at most `timeout` seconds; `.../compressed` holds JPEG or PNG.

    `args` are ROS arguments; None takes the process's command line.

    Raises:
        InputError: nothing arrives, and why; or the frame is no colour picture.
    """
    kind, type_name = (CompressedImage, COMPRESSED) if topic.endswith("/compressed") else (RawImage, RAW)
    frames: list[RawImage | CompressedImage] = []
    arrived = threading.Event()

    def take(message: RawImage | CompressedImage) -> None:
        frames.append(message)
        arrived.set()

    camera = BackgroundNode("goalreel_frame", args=args)
    try:
        camera.node.create_subscription(kind, topic, take, NEWEST)
        camera.start()
        if not arrived.wait(timeout):
            raise InputError(explain_silence(camera.node, camera.node.resolve_topic_name(topic), type_name))
    except InvalidTopicNameException as e:
        raise InputError(f"{topic} is no name of a topic: {first_line(e)}") from e
    finally:
        camera.close()
    try:
        return decode(frames[0])
    except ValueError as e:
        raise InputError(f"{topic}: {e}") from e
