"""A lifecycle manager that behaves as Nav2's, without bonds (`bond_timeout: 0.0`)."""

from collections.abc import Iterable

from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState

from goalreel_ros.spin import BackgroundNode, Calls

TARGETS = {
    Transition.TRANSITION_CONFIGURE: State.PRIMARY_STATE_INACTIVE,
    Transition.TRANSITION_ACTIVATE: State.PRIMARY_STATE_ACTIVE,
    Transition.TRANSITION_DEACTIVATE: State.PRIMARY_STATE_INACTIVE,
    Transition.TRANSITION_CLEANUP: State.PRIMARY_STATE_UNCONFIGURED,
}


class LifecycleManager:
    """Brings nodes up in order and down in reverse. `service_timeout` is for each call, in seconds."""

    def __init__(self, names: Iterable[str], service_timeout: float, background: BackgroundNode) -> None:
        services = {"change_state": ChangeState, "get_state": GetState}
        self._calls = [Calls(background, name, services, service_timeout) for name in names]
        self.timeouts: list[str] = []
        """The calls that were given up."""

    def startup(self) -> bool:
        """Configure all nodes, then activate all; stop at the first that fails."""
        return self._change_all(Transition.TRANSITION_CONFIGURE) and self._change_all(
            Transition.TRANSITION_ACTIVATE
        )

    def reset(self) -> None:
        """Deactivate and clean up all nodes, in reverse, whether they follow or not."""
        for transition in (Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP):
            for call in reversed(self._calls):
                self._change(call, transition)

    def states(self) -> list[str]:
        """Ask every node for its state."""
        return [call("get_state", GetState.Request()).current_state.label for call in self._calls]

    def _change_all(self, transition: int) -> bool:
        return all(self._change(call, transition) for call in self._calls)

    def _change(self, call: Calls, transition: int) -> bool:
        try:
            changed = call("change_state", ChangeState.Request(transition=Transition(id=transition))).success
            return changed and call("get_state", GetState.Request()).current_state.id == TARGETS[transition]
        except TimeoutError as e:
            self.timeouts.append(str(e))
            return False
