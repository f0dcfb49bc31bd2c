"""A publisher process of `~/subgoal/image/compressed`: shows what standard input asks for.

A line, answered when it is done, is `red`, `green`, `black`, `broken` or `empty`.
"""

import signal
import sys
from array import array

import cv2
import numpy as np
import rclpy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import CompressedImage

from goalreel_ros.qos import GOAL

COLOURS = {"red": (250, 20, 20), "green": (20, 250, 20), "black": (0, 0, 0)}


def data(word: str) -> bytes:
    if word not in COLOURS:
        return b"" if word == "empty" else b"no jpeg"
    bgr = np.full((48, 64, 3), COLOURS[word][::-1], np.uint8)
    return cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, 95])[1].tobytes()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with rclpy.init(signal_handler_options=SignalHandlerOptions.NO):
        node = rclpy.create_node("goalreel")
        publisher = node.create_publisher(CompressedImage, "/goalreel/subgoal/image/compressed", GOAL)
        print("READY", flush=True)  # noqa: T201
        for line in sys.stdin:
            message = CompressedImage(format="jpeg", data=array("B", data(line.strip())))
            message.header.stamp = node.get_clock().now().to_msg()
            publisher.publish(message)
            print(f"shown {line.strip()}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
