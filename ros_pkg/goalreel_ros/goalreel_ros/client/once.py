"""One check of health, for programs without a node of their own."""

from contextlib import closing

from lifecycle_msgs.srv import GetState

from goalreel.errors import BackendError
from goalreel_ros.client.commander import lifecycle_state
from goalreel_ros.spin import BackgroundNode, Calls

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
