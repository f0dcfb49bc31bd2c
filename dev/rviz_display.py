"""Draw what a node's latched topics show right now, as one picture.

Above is the contact sheet as an image viewer shows it; below are the markers as RViz draws them.
"""

import time
from functools import partial

import numpy as np
import PIL.Image
import rclpy
from marker_view import MarkerScene
from sensor_msgs.msg import Image as RawImage
from visualization_msgs.msg import MarkerArray

from goalreel.image import Image
from goalreel_ros.pictures import decode
from goalreel_ros.qos import LATCHED

WIDTH = 1280


def receive(node: str = "/goalreel", timeout: float = 60.0) -> tuple[RawImage, MarkerArray]:
    """Wait for the contact sheet and the markers that a node has latched.

    Raises:
        TimeoutError: one of them did not arrive within `timeout` seconds.
    """
    topics = {f"{node}/storyboard/image": RawImage, f"{node}/markers": MarkerArray}
    messages: dict[str, RawImage | MarkerArray] = {}
    with rclpy.init():
        listener = rclpy.create_node("display")
        for topic, kind in topics.items():
            listener.create_subscription(kind, topic, partial(messages.__setitem__, topic), LATCHED)
        end = time.monotonic() + timeout
        while len(messages) < len(topics) and time.monotonic() < end:
            rclpy.spin_once(listener, timeout_sec=0.1)
        listener.destroy_node()
    sheet, markers = map(messages.get, topics)
    if not isinstance(sheet, RawImage) or not isinstance(markers, MarkerArray):
        raise TimeoutError(f"only {sorted(messages)} of {sorted(topics)} arrived within {timeout:g} s")
    return sheet, markers


def picture_of(sheet: RawImage, markers: MarkerArray, width: int = WIDTH) -> Image:
    """The sheet above the markers, `width` pixels wide."""
    scene = MarkerScene()
    scene.apply(markers)
    parts = [_scaled(decode(sheet), width), scene.render(width)]
    return Image(np.concatenate([part.pixels for part in parts]))


def _scaled(image: Image, width: int) -> Image:
    size = width, max(1, round(image.size[1] * width / image.size[0]))
    return Image(np.array(PIL.Image.fromarray(image.pixels).resize(size, PIL.Image.Resampling.LANCZOS)))
