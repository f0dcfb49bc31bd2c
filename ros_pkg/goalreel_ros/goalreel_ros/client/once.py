"""One camera frame, one storyboard sent, one check of health: for programs without a node of their own."""

from contextlib import closing
from queue import Empty, SimpleQueue

from lifecycle_msgs.srv import GetState
from rclpy.exceptions import InvalidTopicNameException
from sensor_msgs.msg import CompressedImage
from sensor_msgs.msg import Image as RawImage

from goalreel.errors import BackendError, InputError, first_line
from goalreel.image import Image
from goalreel.types import Storyboard
from goalreel_interfaces.srv import StartExecuteTask
from goalreel_ros.cameras import COMPRESSED, NEWEST, RAW, explain_silence
from goalreel_ros.client.commander import build, lifecycle_state, storyboard_message
from goalreel_ros.client.task import check
from goalreel_ros.pictures import decode
from goalreel_ros.spin import BackgroundNode, Calls


def next_frame(topic: str, timeout: float, args: list[str] | None = None) -> Image:
    """Wait for the next frame of a topic, at most `timeout` seconds; `.../compressed` holds JPEG or PNG.

    `args` are ROS arguments; None takes the process's command line.

    Raises:
        InputError: nothing arrives, and why; or the frame is no colour picture.
    """
    kind, type_name = (CompressedImage, COMPRESSED) if topic.endswith("/compressed") else (RawImage, RAW)
    frames: SimpleQueue[RawImage | CompressedImage] = SimpleQueue()
    with closing(BackgroundNode("goalreel_frame", args=args)) as camera:
        try:
            camera.node.create_subscription(kind, topic, frames.put, NEWEST)
        except InvalidTopicNameException as e:
            raise InputError(f"{topic} is no name of a topic: {first_line(e)}") from e
        camera.start()
        try:
            frame = frames.get(timeout=timeout)
        except Empty:
            silence = explain_silence(camera.node, camera.node.resolve_topic_name(topic), type_name)
            raise InputError(silence) from None
    try:
        return decode(frame)
    except ValueError as e:
        raise InputError(f"{topic}: {e}") from e


def start_storyboard(
    storyboard: Storyboard, server: str, timeout: float, args: list[str] | None = None
) -> None:
    """Let the node `server` execute a storyboard; returns once the node has begun.

    The node may take `timeout` seconds to be found, and as long to answer. `args` are ROS arguments; None
    takes the process's command line.

    Raises:
        GoalreelError: the node refuses it, or is not active.
        InputError: the storyboard has no plan, or a step has no picture yet.
        TimeoutError: there is no node, or it does not answer.
    """
    request = build(StartExecuteTask.Request, storyboard=[storyboard_message(storyboard)])
    with closing(BackgroundNode("goalreel_sender", args=args)) as sender:
        call = Calls(sender, server, {"start/execute_task": StartExecuteTask}, timeout)
        sender.start()
        check(call("start/execute_task", request))


TIMEOUT = 10.0
"""Seconds to find the node, and again to get its answer."""


def check_health(node: str) -> None:
    """Check that the node of this full name is active.

    Raises:
        BackendError: it is in another state, does not answer, or is not there; one line.
    """
    with closing(BackgroundNode("goalreel_health", args=[])) as background:
        call = Calls(background, node, {"get_state": GetState}, TIMEOUT)
        background.start()
        try:
            state = lifecycle_state(call)
        except TimeoutError as e:
            raise BackendError(str(e)) from None
    if state != "active":
        raise BackendError(f"{node} is {state}, not active: see its log")
