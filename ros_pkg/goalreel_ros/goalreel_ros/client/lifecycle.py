"""The node's lifecycle from outside: read its state, move it on."""

import time
from contextlib import suppress

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState

from goalreel.streaming.board import ErrorCode
from goalreel_ros.client.calls import Calls
from goalreel_ros.client.errors import GoalreelError

SERVICES = {"get_state": GetState, "change_state": ChangeState}
POLL = 0.1
LOOK = 1.0
TRANSITION_TIMEOUT = 30.0
"""Seconds, at least: as many as the client's own timeout where that is longer."""
LOST = 5.0
"""Seconds without an answer after which a transition is asked for again, unless the node has made it.

A node that was killed stays in DDS's books for 20 s: who asks before its successor is found asks the dead.
And rmw_fastrtps drops the answer to a client that the node has not found within 0.1 s.
"""


class Lifecycle:
    """Made by `GoalreelClient`, as its attribute `lifecycle`."""

    def __init__(self, call: Calls, timeout: float = TRANSITION_TIMEOUT) -> None:
        self._call = call
        self._timeout = max(timeout, TRANSITION_TIMEOUT)

    @property
    def state(self) -> str:
        """`unconfigured`, `inactive`, `active`, `finalized`, or a transition's name.

        Raises:
            TimeoutError: the node does not answer.
        """
        return self._call("get_state", GetState.Request()).current_state.label

    def configure(self) -> None:
        """From unconfigured to inactive: parameters are checked, topics appear.

        Raises:
            GoalreelError: the node refuses, as with the other transitions.
            TimeoutError: the node does not answer.
        """
        self._change("configure", Transition.TRANSITION_CONFIGURE, "inactive")

    def activate(self) -> None:
        """From inactive to active: the models are loaded in the background."""
        self._change("activate", Transition.TRANSITION_ACTIVATE, "active")

    def deactivate(self) -> None:
        """From active to inactive: tasks end as PREEMPTED, memory is freed."""
        self._change("deactivate", Transition.TRANSITION_DEACTIVATE, "inactive")

    def cleanup(self) -> None:
        """From inactive to unconfigured: topics disappear."""
        self._change("cleanup", Transition.TRANSITION_CLEANUP, "unconfigured")

    def wait_for(self, state: str, timeout: float | None = None) -> None:
        """Wait for a state.

        Raises:
            TimeoutError: another state, or no node, after `timeout` seconds.
        """
        until = None if timeout is None else time.monotonic() + timeout
        found, why = "not there", ""
        while until is None or time.monotonic() < until:
            left = 1.0 if until is None else max(POLL, min(1.0, until - time.monotonic()))
            try:
                response = self._call("get_state", GetState.Request(), left)
            except TimeoutError as e:
                why = f": {e}"
                continue
            found, why = response.current_state.label, ""
            if found == state:
                return
            time.sleep(POLL)
        raise TimeoutError(f"{self._call.server} is {found}, not {state}, after {timeout:g} s{why}")

    def _change(self, name: str, transition: int, aim: str) -> None:
        request = ChangeState.Request(transition=Transition(id=transition))
        until, lost = time.monotonic() + self._timeout, False
        while True:
            try:
                made = self._call("change_state", request, LOST).success
                break
            except TimeoutError as e:
                if time.monotonic() > until:
                    why = f"{self._call.server} did not {name} within {self._timeout:g} s: {e}"
                    raise TimeoutError(why) from None
            lost = True
            with suppress(TimeoutError):
                return self.wait_for(aim, LOOK)
        # What seemed lost may only have been late: then it was made, and the second request refused.
        if not made and not (lost and self.state == aim):
            raise GoalreelError(
                ErrorCode.NOT_ACTIVE, f"the node did not {name}: it is {self.state}; see its log"
            )
