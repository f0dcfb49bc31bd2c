"""Asks a node whether it is active, for a container's HEALTHCHECK and for scripts."""

from goalreel.errors import BackendError
from goalreel_ros.client.background_node import BackgroundNode
from goalreel_ros.client.calls import Calls
from goalreel_ros.client.lifecycle import SERVICES, Lifecycle

TIMEOUT = 10.0
"""Seconds to find the node, and again to get its answer."""


def check_health(node: str) -> None:
    """Check that the node of this full name is active.

    Raises:
        BackendError: it is in another state, does not answer, or is not there; one line.
    """
    background = BackgroundNode("goalreel_health", args=[])
    try:
        lifecycle = Lifecycle(Calls(background, node, SERVICES, TIMEOUT))
        background.start()
        state = lifecycle.state
    except TimeoutError as e:
        raise BackendError(str(e)) from None
    finally:
        background.close()
    if state != "active":
        raise BackendError(f"{node} is {state}, not active: see its log")
