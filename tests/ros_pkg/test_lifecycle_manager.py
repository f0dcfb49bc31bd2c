"""The node under a lifecycle manager like Nav2's, in this process: `active` means that it is ready."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("rclpy")
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.context import Context
from rclpy.node import Node
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

    def change(self, *transitions: str) -> bool:
        """Make the transitions; stop at the first that fails."""
        made = (Transition(id=getattr(Transition, f"TRANSITION_{name.upper()}")) for name in transitions)
        return all(self.call("change_state", ChangeState.Request(transition=t)).success for t in made)

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


@pytest.fixture
def bench(context, monkeypatch):
    bench = Bench(context, monkeypatch)
    yield bench
    bench.close()


@pytest.fixture
def reports(bench) -> list[DiagnosticArray]:
    heard: list[DiagnosticArray] = []
    bench.manager.node.create_subscription(DiagnosticArray, "/diagnostics", heard.append, 10)
    return heard


def test_two_nodes_of_one_name_say_so_until_one_ends(bench, reports, context):
    says = "2 nodes are called /goalreel, and each takes every order"

    def told() -> bool:
        return any(says in status.message for report in reports[-1:] for status in report.status)

    assert bench.change("configure")
    twin = Node("goalreel", context=context, start_parameter_services=False, enable_rosout=False)
    until(told)
    assert any(level == "warning" and says in text for level, text in bench.log)
    twin.destroy_node()
    until(lambda: not told())


def test_while_models_load_the_node_answers_and_says_so_and_is_not_active(bench, reports):
    bench.model.gate.clear()
    with ThreadPoolExecutor() as pool:
        starting = pool.submit(bench.change, "configure", "activate")
        until(lambda: bench.state == "configuring")
        until(lambda: any("loading the planner" in s.message for report in reports for s in report.status))
        assert not starting.done()
        bench.model.gate.set()
        assert starting.result(120)
    assert bench.state == "active"
    assert ("info", "loading the planner (server:http://127.0.0.1:8000)") in bench.log
    assert not bench.errors


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
