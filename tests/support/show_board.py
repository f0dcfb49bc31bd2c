"""A process that latches a storyboard on a node's topics, until it is stopped: show_board.py [film]."""

import sys

import rclpy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import Image
from std_msgs.msg import Header
from visualization_msgs.msg import MarkerArray

from goalreel_ros.main import StopSignal
from goalreel_ros.overview import MarkerBoard, compose
from goalreel_ros.pictures import raw
from goalreel_ros.qos import LATCHED
from support.boards import FRAME, under_way

if __name__ == "__main__":
    # With rclpy 9's own handlers a spin that is told to end now and then waits for ever.
    stop = StopSignal()
    with rclpy.init(signal_handler_options=SignalHandlerOptions.NO):
        board, node = under_way(512), rclpy.create_node("goalreel")
        sheets = node.create_publisher(Image, "~/storyboard/image", LATCHED)
        markers = node.create_publisher(MarkerArray, "~/markers", LATCHED)
        sheets.publish(raw(compose(board, 1280), Header(frame_id=FRAME)))
        markers.publish(MarkerBoard(film_strip="film" in sys.argv).update(board, FRAME))
        sys.stdout.write("READY\n")
        sys.stdout.flush()
        stop.wait()
