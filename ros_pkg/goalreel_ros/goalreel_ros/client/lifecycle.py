"""The node's lifecycle from outside: read its state and change it."""

import time
from contextlib import suppress

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState

from goalreel.streaming.board import ErrorCode
from goalreel_ros.client.task import GoalreelError
from goalreel_ros.spin import Calls

SERVICES: dict[str, type] = {"get_state": GetState, "change_state": ChangeState}
POLL_SECONDS = 0.1
TRANSITION_TIMEOUT = 30.0
"""Seconds; the client's own timeout counts where it is longer."""
PRIMARY = frozenset({"unconfigured", "inactive", "active", "finalized"})
"""The states in which a node stays. Any other is a transition's, such as `configuring`."""
RETRY_SECONDS = 5.0
"""Seconds without an answer after which a transition is requested again, unless the node is at it or made it.

DDS remembers a killed node for 20 s, so that a request may go to it and not to its successor. Also,
rmw_fastrtps drops the answer to a client that the node has not discovered within 0.1 s.
"""


class Lifecycle:
    """Reads and changes the node's state; the attribute `lifecycle` of a `GoalreelClient`."""

    def __init__(self, call: Calls, timeout: float = TRANSITION_TIMEOUT) -> None:
        self._call = call
        self._timeout = max(timeout, TRANSITION_TIMEOUT)

    @property
    def state(self) -> str:
        """The state: `unconfigured`, `inactive`, `active`, `finalized`, or a transition's name.

        Raises:
            TimeoutError: the node does not answer.
        """
        return self._call("get_state", GetState.Request()).current_state.label

    def configure(self) -> None:
        """Go from unconfigured to inactive: parameters are checked, topics appear, the models are loaded.

        It waits for as long as they load.

        Raises:
            GoalreelError: the node refuses, or a model cannot be loaded. The other transitions raise the same
                errors.
            TimeoutError: the node does not answer.
        """
        self._change("configure", Transition.TRANSITION_CONFIGURE, "inactive")

    def activate(self) -> None:
        """Go from inactive to active: the models' servers are asked whether they are there."""
        self._change("activate", Transition.TRANSITION_ACTIVATE, "active")

    def deactivate(self) -> None:
        """Go from active to inactive: tasks end as PREEMPTED, the models stay loaded."""
        self._change("deactivate", Transition.TRANSITION_DEACTIVATE, "inactive")

    def cleanup(self) -> None:
        """Go from inactive to unconfigured: topics disappear, memory is freed."""
        self._change("cleanup", Transition.TRANSITION_CLEANUP, "unconfigured")

    def wait_for(self, state: str, timeout: float | None = None) -> None:
        """Wait for a state.

        Raises:
            TimeoutError: the node is in another state, or there is none, after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        current, reason = "not there", ""
        while deadline is None or time.monotonic() < deadline:
            wait = 1.0 if deadline is None else max(POLL_SECONDS, min(1.0, deadline - time.monotonic()))
            try:
                response = self._call("get_state", GetState.Request(), wait)
            except TimeoutError as e:
                reason = f": {e}"
                continue
            current, reason = response.current_state.label, ""
            if current == state:
                return
            time.sleep(POLL_SECONDS)
        raise TimeoutError(f"{self._call.server} is {current}, not {state}, after {timeout:g} s{reason}")

    def _change(self, name: str, transition: int, target: str) -> None:
        request = ChangeState.Request(transition=Transition(id=transition))
        deadline, repeated, success = time.monotonic() + self._timeout, False, None
        while success is None:
            try:
                success = self._call("change_state", request, RETRY_SECONDS).success
            except TimeoutError as e:
                if (success := self._outcome(target)) is None and time.monotonic() > deadline:
                    message = f"{self._call.server} did not {name} within {self._timeout:g} s: {e}"
                    raise TimeoutError(message) from None
                repeated = True
        # The first request may only have been late: then it is carried out, and the second one refused.
        if not success and not (repeated and self._outcome(target)):
            raise GoalreelError(
                ErrorCode.NOT_ACTIVE, f"the node did not {name}: it is {self.state}; see its log"
            )

    def _outcome(self, target: str) -> bool | None:
        """Wait for the end of a transition under way. None if none was begun, as far as is known."""
        under_way = False
        with suppress(TimeoutError):
            while (state := self.state) not in PRIMARY:
                under_way = True
                time.sleep(POLL_SECONDS)
            return True if state == target else False if under_way else None
        return None
