"""The node under a lifecycle manager like Nav2's, in this process: `active` means that it is ready."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

pytest.importorskip("rclpy")
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.context import Context
from rclpy.parameter import Parameter
from support.wait import until

from goalreel.errors import BackendError
from goalreel.models.model_set import Lazy, ModelSet
from goalreel_ros.node import GoalreelNode
from goalreel_ros.spin import BackgroundNode, Calls, NodeExecutor, Spin

TARGETS = {
    Transition.TRANSITION_CONFIGURE: State.PRIMARY_STATE_INACTIVE,
    Transition.TRANSITION_ACTIVATE: State.PRIMARY_STATE_ACTIVE,
    Transition.TRANSITION_DEACTIVATE: State.PRIMARY_STATE_INACTIVE,
    Transition.TRANSITION_CLEANUP: State.PRIMARY_STATE_UNCONFIGURED,
}


class LifecycleManager:
    """Behaves as Nav2's, without bonds: brings nodes up in order and down in reverse."""

    def __init__(self, names: list[str], service_timeout: float, background: BackgroundNode) -> None:
        services = {"change_state": ChangeState, "get_state": GetState}
        self._calls = [Calls(background, name, services, service_timeout) for name in names]
        self.timeouts: list[str] = []
        """The calls that were given up."""

    def startup(self) -> bool:
        """Configure all nodes, then activate all; stop at the first that fails."""
        up = Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE
        return all(self._change(call, transition) for transition in up for call in self._calls)

    def reset(self) -> None:
        """Deactivate and clean up all nodes, in reverse, whether they follow or not."""
        for transition in (Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP):
            for call in reversed(self._calls):
                self._change(call, transition)

    def states(self) -> list[str]:
        """Ask every node for its state."""
        return [call("get_state", GetState.Request()).current_state.label for call in self._calls]

    def _change(self, call: Calls, transition: int) -> bool:
        try:
            changed = call("change_state", ChangeState.Request(transition=Transition(id=transition))).success
            return changed and call("get_state", GetState.Request()).current_state.id == TARGETS[transition]
        except TimeoutError as e:
            self.timeouts.append(str(e))
            return False


class Model:
    """Answers nothing; loads behind a gate; its server answers unless it is `gone`."""

    def __init__(self) -> None:
        self.gate, self.gone, self.problem = threading.Event(), "", ""
        self.gate.set()

    def load(self) -> "Model":
        assert self.gate.wait(120)
        if self.problem:
            raise BackendError(self.problem)
        return self

    def probe(self) -> str:
        if self.gone:
            raise BackendError(self.gone)
        return ""


class Bench:
    """Two nodes under one manager; the second comes after the first."""

    def __init__(self, context: Context, monkeypatch) -> None:
        self.model, self.log = Model(), []
        monkeypatch.setattr(
            "goalreel_ros.node.GoalreelNode.get_logger", lambda node: Recorder(node.get_namespace(), self.log)
        )
        self.executor = NodeExecutor(8, context=context)
        self.nodes = []
        for name in ("first", "second"):
            options = [Parameter("server_timeout", value=0.0), Parameter("preset", value="server")]
            node = GoalreelNode(self.model_set, context=context, namespace=name, parameter_overrides=options)
            self.executor.add_node(node)
            self.nodes.append(node)
        self.spin = Spin(self.executor)
        self.thread = threading.Thread(target=self.spin.run, daemon=True)
        self.thread.start()
        self.background = BackgroundNode("manager", self.nodes[0])
        self.background.start()

    def model_set(self, _: object) -> ModelSet:
        return ModelSet(Lazy(self.model.load), Lazy(self.model.load), Lazy(self.model.load))

    def manager(self, service_timeout: float = 60.0) -> LifecycleManager:
        names = ["/first/goalreel", "/second/goalreel"]
        return LifecycleManager(names, service_timeout, self.background)

    def close(self) -> None:
        self.model.gate.set()
        for node in self.nodes:
            node.close()
        self.background.close()
        self.spin.stop(self.thread, 10)
        for node in self.nodes:
            node.destroy_node()


class Recorder:
    """A logger."""

    def __init__(self, name: str, log: list[tuple[str, str, str]]) -> None:
        self.name, self.log = name, log

    def __getattr__(self, level: str):
        return lambda text, **_: self.log.append((level, self.name, text))


@pytest.fixture(scope="module")
def context(ros_env):
    context = Context()
    rclpy.init(context=context, args=[])
    yield context
    context.try_shutdown()


@pytest.fixture
def bench(context, monkeypatch):
    bench = Bench(context, monkeypatch)
    yield bench
    bench.close()


@contextmanager
def errors(bench):
    """The errors that are logged meanwhile."""
    bench.log.clear()
    found: list[tuple[str, str]] = []
    yield found
    found += [(name, text) for level, name, text in bench.log if level == "error"]


def test_a_manager_brings_all_up_and_down_and_up_again(bench):
    manager = bench.manager()
    with errors(bench) as found:
        assert manager.startup()
        assert manager.states() == ["active", "active"]
        manager.reset()
        assert manager.states() == ["unconfigured", "unconfigured"]
        assert manager.startup()
    assert not found


def test_while_models_load_the_node_answers_and_says_so_and_is_not_active(bench):
    heard: list[DiagnosticArray] = []
    bench.background.node.create_subscription(DiagnosticArray, "/diagnostics", heard.append, 10)
    bench.model.gate.clear()
    manager = bench.manager()
    with ThreadPoolExecutor() as pool:
        starting = pool.submit(manager.startup)
        until(lambda: bench.nodes[0].get_parameter and manager.states() == ["configuring", "unconfigured"])
        until(lambda: any("loading the planner" in s.message for message in heard for s in message.status))
        assert not starting.done()
        bench.model.gate.set()
        assert starting.result(120)
    assert manager.states() == ["active", "active"]
    assert ("info", "/first", "loading the planner (server:http://127.0.0.1:8000)") in bench.log


def test_a_manager_that_waits_too_short_finds_the_node_inactive_later(bench):
    bench.model.gate.clear()
    with ThreadPoolExecutor() as pool:
        assert not pool.submit(bench.manager(0.3).startup).result(60)
    bench.model.gate.set()
    until(lambda: bench.manager().states() == ["inactive", "unconfigured"])


def test_a_server_that_does_not_answer_fails_the_activation_until_it_does(bench):
    manager = bench.manager()
    bench.model.gone = "cannot reach http://gpu:8000: is the server running?"
    with errors(bench) as found:
        assert not manager.startup()
    assert manager.states() == ["inactive", "inactive"]
    [(node, text)] = found
    assert node == "/first"
    assert text.startswith("cannot activate: planner (server:")
    assert text.endswith("is the server running?")
    manager.reset()
    bench.model.gone = ""
    assert manager.startup()


def test_whoever_closes_a_node_does_not_wait_for_its_models(bench):
    """The transition ends by itself while the models still load, not because the manager gave up."""
    bench.model.gate.clear()
    manager, watcher = bench.manager(service_timeout=10.0), bench.manager()
    with ThreadPoolExecutor() as pool, errors(bench) as found:
        starting = pool.submit(manager.startup)
        until(lambda: watcher.states()[0] == "configuring")
        bench.nodes[0].close()
        until(lambda: watcher.states()[0] == "unconfigured")
        assert not starting.result()
    assert not bench.model.gate.is_set()
    assert not manager.timeouts
    assert not found
