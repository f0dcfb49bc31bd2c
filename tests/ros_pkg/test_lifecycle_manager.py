"""The node under a lifecycle manager like Nav2's, in this process: `active` means that it is ready."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("rclpy")
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.context import Context
from rclpy.parameter import Parameter
from support.wait import until

from goalreel.errors import BackendError
from goalreel.models.model_set import Lazy, ModelSet
from goalreel_ros.node import GoalreelNode
from goalreel_ros.spin import BackgroundNode, Calls, NodeExecutor, Spin


class Model:
    """Answers nothing; loads behind a gate; its server answers unless it is `gone`."""

    def __init__(self) -> None:
        self.gate, self.gone = threading.Event(), ""
        self.gate.set()

    def load(self) -> "Model":
        assert self.gate.wait(120)
        return self

    def probe(self) -> str:
        if self.gone:
            raise BackendError(self.gone)
        return ""


class Bench:
    """A node, and a manager's calls of it."""

    def __init__(self, context: Context, monkeypatch) -> None:
        self.model, self.log = Model(), []
        monkeypatch.setattr("goalreel_ros.node.GoalreelNode.get_logger", lambda _: Recorder(self.log))
        options = [Parameter("server_timeout", value=0.0), Parameter("preset", value="server")]
        self.node = GoalreelNode(self.model_set, context=context, parameter_overrides=options)
        executor = NodeExecutor(8, context=context)
        executor.add_node(self.node)
        self.spin = Spin(executor)
        self.thread = threading.Thread(target=self.spin.run, daemon=True)
        self.thread.start()
        self.manager = BackgroundNode("manager", self.node)
        services = {"change_state": ChangeState, "get_state": GetState}
        self.call = Calls(self.manager, "goalreel", services, 60.0)
        self.manager.start()

    def model_set(self, _: object) -> ModelSet:
        return ModelSet(Lazy(self.model.load), Lazy(self.model.load), Lazy(self.model.load))

    def change(self, *transitions: str, timeout: float = 60.0) -> bool:
        """Make the transitions; stop at the first that fails."""
        made = (Transition(id=getattr(Transition, f"TRANSITION_{name.upper()}")) for name in transitions)
        requests = (ChangeState.Request(transition=transition) for transition in made)
        return all(self.call("change_state", request, timeout).success for request in requests)

    @property
    def state(self) -> str:
        return self.call("get_state", GetState.Request()).current_state.label

    @property
    def errors(self) -> list[str]:
        return [text for level, text in self.log if level == "error"]

    def close(self) -> None:
        self.model.gate.set()
        self.node.close()
        self.manager.close()
        self.spin.stop(self.thread, 10)
        self.node.destroy_node()


class Recorder:
    """A logger."""

    def __init__(self, log: list[tuple[str, str]]) -> None:
        self.log = log

    def __getattr__(self, level: str):
        return lambda text, **_: self.log.append((level, text))


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


def test_while_models_load_the_node_answers_and_says_so_and_is_not_active(bench):
    heard: list[DiagnosticArray] = []
    bench.manager.node.create_subscription(DiagnosticArray, "/diagnostics", heard.append, 10)
    bench.model.gate.clear()
    with ThreadPoolExecutor() as pool:
        starting = pool.submit(bench.change, "configure", "activate")
        until(lambda: bench.state == "configuring")
        until(lambda: any("loading the planner" in s.message for message in heard for s in message.status))
        assert not starting.done()
        bench.model.gate.set()
        assert starting.result(120)
    assert bench.state == "active"
    assert ("info", "loading the planner (server:http://127.0.0.1:8000)") in bench.log
    assert not bench.errors


def test_a_manager_that_waits_too_short_finds_the_node_inactive_later(bench):
    bench.model.gate.clear()
    with pytest.raises(TimeoutError):
        bench.change("configure", timeout=0.3)
    bench.model.gate.set()
    until(lambda: bench.state == "inactive")


def test_a_server_that_does_not_answer_fails_the_activation_until_it_does(bench):
    bench.model.gone = "cannot reach http://gpu:8000: is the server running?"
    assert not bench.change("configure", "activate")
    assert bench.state == "inactive"
    (error,) = bench.errors
    assert error.startswith("cannot activate: planner (server:")
    assert error.endswith("is the server running?")
    bench.model.gone = ""
    assert bench.change("activate")


def test_whoever_closes_a_node_does_not_wait_for_its_models(bench):
    """The transition ends by itself while the models still load, not because the manager gave up."""
    bench.model.gate.clear()
    with ThreadPoolExecutor() as pool:
        starting = pool.submit(bench.change, "configure")
        until(lambda: bench.state == "configuring")
        bench.node.close()
        until(lambda: bench.state == "unconfigured")
        assert not starting.result()
    assert not bench.model.gate.is_set()
    assert not bench.errors
