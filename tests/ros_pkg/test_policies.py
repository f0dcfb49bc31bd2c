"""The pages on policies: every code block runs, against the real node; and a real ACT policy follows it."""

import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import yaml
from py_trees.common import Status
from support.pages import blocks
from support.places import ROOT
from support.ros import ENV, Other, other
from support.ros_bench import GREEN, RED, rgb, seen
from support.wait import until

PAGES = [
    f"docs/how-to/{name}.md"
    for name in ("behaviour-trees", "connect-a-policy", "rollout-without-ros", "train-a-policy")
]
BLOCKS = [block for page in PAGES for block in blocks(page)]
TASK = "put the red block in the bowl"


def block(marker: str) -> str:
    """The one code block that contains `marker`, its lines joined; remembers that it was looked at."""
    (found,) = [b for b in BLOCKS if marker in b[1]]
    USED.add(found[1])
    return found[1].replace("\\\n", "")


USED: set[str] = set()


def near(picture: np.ndarray, colour: str) -> bool:
    return bool(np.abs(seen(picture).astype(int) - rgb(colour)).max() < 12)


@pytest.mark.process
def test_the_plain_subscriber(node, client, tmp_path):
    script = tmp_path / "subscriber.py"
    script.write_text(block("def on_subgoal"))
    assert len(script.read_text().splitlines()) <= 40
    process = Other(str(script))
    task = client.execute(RED)
    until(lambda: any(re.search(rf"{RED}: a picture of [1-9]\d+ bytes", line) for line in process.lines))
    task.cancel()
    until(lambda: "hold still" in process.lines[-1])
    node.process.send_signal(signal.SIGSTOP)
    until(lambda: "gone or hangs" in process.lines[-1])
    node.process.send_signal(signal.SIGCONT)
    process.stop(signal.SIGKILL)


@pytest.mark.process
def test_the_client_example(client, robot, capsys):
    seen_by_policy = []

    def act(instruction: str, picture: np.ndarray | None) -> None:
        if picture is not None:
            seen_by_policy.append((instruction, near(picture, RED)))
            robot.colour = RED

    exec(block("while not task.done").replace(TASK, RED), {"act": act})
    assert (RED, True) in seen_by_policy
    assert capsys.readouterr().out == "done, re-planned 0 times\n"


@pytest.mark.process
def test_the_client_in_the_terminal(client, robot):
    _, *arguments = shlex.split(block("goalreel_ros.client 'put").replace(TASK, RED))
    process = subprocess.Popen(
        [sys.executable, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **ENV},
    )  # fmt: skip
    until(lambda: client.subgoal() is not None and client.subgoal().active, 60)
    robot.colour = RED
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0, shown
    assert f"{RED}: succeeded" in shown
    assert "completed" in shown


def test_what_is_to_be_installed_is_what_is_tested():
    pip, install, *names = shlex.split(block("pip install"))
    assert (pip, install) == ("pip", "install")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["ros"]
    assert set(names[:-2]) <= set(extras)
    assert [(ROOT / name).is_dir() for name in names[-2:]] == [True, True]


def read_by_lerobot(words, kind, monkeypatch):
    """A command line as lerobot's own parser reads it."""
    from lerobot.configs import parser
    from lerobot.utils.import_utils import register_third_party_plugins

    register_third_party_plugins()  # as lerobot's commands do: ours is one
    monkeypatch.setattr(sys, "argv", words)

    @parser.wrap()
    def parse(cfg: kind) -> kind:
        return cfg

    return parse()


def test_the_recipes_command_lines(monkeypatch):
    import lerobot.policies.factory  # noqa: F401  (registers every policy)
    from lerobot.configs.train import TrainPipelineConfig
    from typer.main import get_command

    from goalreel.cli.main import app

    (_, command, *words), train = map(shlex.split, block("lerobot-train").strip().splitlines())
    words[0] = str(ROOT)  # a folder that is there
    given = get_command(app).commands[command].make_context(command, words).params
    assert (given["granularity"], given["task_per_frame"]) == ("subtask", True)
    assert train[0] == "lerobot-train"
    config = read_by_lerobot(train, TrainPipelineConfig, monkeypatch)
    assert (config.policy.type, config.policy.push_to_hub) == ("act", False)
    assert config.dataset.root == str(given["out"])


@pytest.mark.parametrize("kind", ["goalreel", "zmq"])
def test_lerobots_command_lines(kind, tmp_path, monkeypatch):
    from lerobot.scripts.lerobot_rollout import RolloutConfig  # which registers every robot
    from support.act_policy import save_act

    words = shlex.split(block(f"type: {kind}, ").replace("my_policy", str(save_act(tmp_path / "policy"))))
    assert words[0] == "lerobot-rollout"
    config = read_by_lerobot(words, RolloutConfig, monkeypatch)
    camera = config.robot.cameras["subgoal"]
    assert (camera.type, camera.width, camera.height) == (kind, 640, 480)
    assert config.task == TASK


def test_goalreels_own_command_line(tmp_path):
    from support.act_policy import save_act
    from typer.main import get_command

    from goalreel.cli.main import app
    from goalreel.streaming.rollout import NewestGoal, add_camera, read_options

    policy = save_act(tmp_path / "policy")
    goalreel, rollout, *words = shlex.split(block("goalreel rollout").replace("my_policy", str(policy)))
    assert (goalreel, rollout) == ("goalreel", "rollout")
    given = get_command(app).commands["rollout"].make_context("rollout", words).params
    assert (given["instruction"], given["preset"]) == (TASK, "server")
    config = read_options(given["instruction"], given["lerobot_options"])
    assert config.task == TASK
    assert add_camera(config, NewestGoal(print), given["subgoal_camera"], given["subgoal_form"])
    camera = config.robot.cameras["subgoal"]
    assert (camera.width, camera.height, camera.fps) == (64, 48, 30)


@pytest.mark.process
def test_the_leaf_of_a_behaviour_tree(client, robot, monkeypatch):
    monkeypatch.setattr("goalreel_ros.client.GoalreelClient", lambda: client)
    code = block("children=[red, green]").replace(TASK, RED).replace("put the green block in the bowl", GREEN)
    exec(code, leaves := {})
    tree, red, green = leaves["tree"], leaves["red"], leaves["green"]

    def ticked() -> str:
        tree.tick_once()
        return red.board.subgoal.name if red.board.subgoal is not None else ""

    until(lambda: ticked() == RED)
    robot.colour = RED
    until(lambda: ticked() == GREEN)
    assert (red.status, green.status) == (Status.SUCCESS, Status.RUNNING)
    tree.stop(Status.INVALID)
    assert green.run.wait(60)
    until(lambda: not client.subgoal().active)


@pytest.mark.process
def test_the_state_of_a_state_machine(monkeypatch):
    """SMACH is on no package index for this Python: what the example takes of it is stood in for. (With that
    of ros/executive_smach the example ran, in a StateMachine.)"""

    class State:
        def __init__(self, outcomes: list[str], input_keys: list[str], output_keys: list[str]) -> None:
            self.keys = {*outcomes, *input_keys.copy(), *output_keys.copy()}
            self.asked = False

        def request_preempt(self) -> None:
            self.asked = True

    smach = ModuleType("smach")
    smach.State, smach.UserData = State, dict
    monkeypatch.setitem(sys.modules, "smach", smach)
    exec(block("class Execute(smach.State)"), found := {})
    state = found["Execute"](SimpleNamespace(execute=lambda task: SimpleNamespace(result=lambda: task)))
    assert state.execute({"instruction": TASK}) == "succeeded"
    state.request_preempt()
    assert state.asked


@pytest.mark.process
def test_the_guards_command_names_an_executable():
    words = shlex.split(block("goalreel_ros guard"))
    assert words == ["ros2", "run", "goalreel_ros", "guard"]
    setup = (ROOT / "ros_pkg" / "goalreel_ros" / "setup.py").read_text()
    assert f'"goalreel_ros_{words[-1]} = ' in setup


@pytest.mark.process
def test_the_zmq_bridge(client):
    _, *arguments = shlex.split(block("goalreel_ros_zmq --width").replace(":5555", ":*"))
    with other(
        "-m", "goalreel_ros.zmq", *arguments, ready="/goalreel/subgoal/image/compressed is there"
    ) as bridge:
        assert bridge.stop(signal.SIGINT) == 0


def test_rosettas_entry_is_the_contracts():
    entry = yaml.safe_load(block("strategy: asof"))
    contract = yaml.safe_load((ROOT / "launch" / "rosetta_contract.yaml").read_text())
    key = "observation.images.subgoal"
    assert entry == {"observations": {key: contract["observations"][key]}}


@pytest.mark.process
def test_cyclos_entry_names_a_topic_of_the_guard(robot):
    robots = yaml.safe_load(block("orchestrator:"))["orchestrator"]["ros__parameters"]
    camera = robots["my_robot"]["observation"]["images"]["subgoal"]
    with other("-m", "goalreel_ros.guard", ready="ready") as guard:
        found = lambda: dict(robot.node.get_topic_names_and_types()).get(camera["topic"])  # noqa: E731
        assert until(found) == [camera["msg_type"]]
        assert guard.stop(signal.SIGTERM) == 0


@pytest.mark.process
def test_every_block_was_run():
    """Last in this file, because it looks at what the others did."""
    assert {body for _, body in BLOCKS} == USED
