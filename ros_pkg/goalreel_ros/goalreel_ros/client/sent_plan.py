"""A storyboard sent to a node, from a program that has no node of its own."""

from goalreel.types import Storyboard
from goalreel_interfaces.srv import StartExecuteTask
from goalreel_ros.client.background_node import BackgroundNode
from goalreel_ros.client.calls import Calls
from goalreel_ros.client.errors import check
from goalreel_ros.client.messages import build, storyboard_message


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
    sender = BackgroundNode("goalreel_sender", args=args)
    try:
        call = Calls(sender, server, {"start/execute_task": StartExecuteTask}, timeout)
        sender.start()
        check(call("start/execute_task", request))
    finally:
        sender.close()
