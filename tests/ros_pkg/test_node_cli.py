"""`goalreel node`, in a process of its own, looked at from outside."""

import importlib
import os
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from rclpy.node import Node
from support.cli import fails, goalreel, kept_signals
from support.ros import ENV, Other
from support.ros_bench import Robot
from support.wait import until

import goalreel.cli as goalreel_cli
from goalreel.types import ROLES
from goalreel_ros.client import GoalreelClient

GOALREEL = str(Path(sys.executable).with_name("goalreel"))


@pytest.fixture(scope="module")
def watcher(context):
    return Node("watcher", context=context)


@pytest.fixture
def models(served) -> list[str]:
    """The options that name models whose server answers."""
    return [word for role in ROLES for word in (f"--{role}", f"server:{served[1]}")]


@contextmanager
def running(*arguments: str):
    process = Other(GOALREEL, "node", "--preset", "server", *arguments)
    try:
        yield process
    finally:
        process.stop(signal.SIGINT)
    assert process.process.returncode == 0, process.lines
    assert not any("Traceback" in line for line in process.lines)


def listens(watcher: Node, namespace: str, wanted: set[str]) -> None:
    """Wait until the node is there and subscribes to these topics."""

    def there() -> bool:
        nodes = {"goalreel", "goalreel_camera"}
        if not {(n, namespace) for n in nodes} <= set(watcher.get_node_names_and_namespaces()):
            return False
        found = (watcher.get_subscriber_names_and_types_by_node(n, namespace) for n in nodes)
        return wanted <= {topic for topics in found for topic, _ in topics}

    until(there)


@pytest.mark.process
def test_options_become_remappings_and_the_node_is_active(watcher, models):
    critic = ("--critic-mode", "fast", "--critic-scores", "--critic-threshold", "1", "--keep", "last")
    with running(*models, "--namespace", "robot1", "--camera", "/wrist/", "--max-steps", "9", *critic):
        wanted = {"/wrist/image_raw", "/robot1/goalreel/instruction"}
        listens(watcher, "/robot1", wanted)
        with GoalreelClient(server="/robot1/goalreel", timeout=60) as client:
            client.wait_until_active(600)
        command = [GOALREEL, "node", "--health", "--namespace", "robot1"]
        done = subprocess.run(command, env=os.environ | ENV, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout) == (0, "active\n")


@pytest.mark.process
def test_without_autostart_it_waits_for_its_manager_and_what_follows_two_dashes_wins(watcher, models):
    words = ("--no-autostart", "--camera", "/wrist", "--", "-r", "image:=/zed/rgb")
    transport = ("-p", "image_transport:=compressed")
    with running(*models, *words, *transport) as process, closing(Robot()) as manager:
        until(lambda: any("unconfigured; " in line for line in process.lines))
        assert fails("node", "--health") == "goalreel: /goalreel is unconfigured, not active: see its log"
        assert manager.change("configure")
        listens(watcher, "/", {"/zed/rgb/compressed"})
        assert manager.change("activate")


def test_it_stays_on_this_machine_and_maps_large_frames_unless_told_otherwise(monkeypatch):
    started = []
    monkeypatch.setattr("goalreel_ros.main.main", lambda args: started.append((args, dict(os.environ))))
    own = {"ROS_AUTOMATIC_DISCOVERY_RANGE", "FASTDDS_DEFAULT_PROFILES_FILE"}

    def environment(**given: str) -> tuple[list[str], dict[str, str]]:
        for name in own:
            monkeypatch.delenv(name, raising=False)
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        goalreel("node", "--critic", "hf:a b")
        return started.pop()

    arguments, found = environment()
    assert 'critic:="hf:a b"' in arguments
    assert found["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
    assert Path(found["FASTDDS_DEFAULT_PROFILES_FILE"]).name == "fastdds_shm.xml"
    given = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET", "FASTDDS_DEFAULT_PROFILES_FILE": "/mine.xml"}
    assert given.items() <= environment(**given)[1].items()


def test_a_signal_in_its_first_moments_ends_it_with_status_0(monkeypatch):
    statuses = []
    monkeypatch.setattr("sys.argv", ["goalreel", "node"])
    monkeypatch.setattr("os._exit", statuses.append)
    with kept_signals():
        importlib.reload(goalreel_cli)  # what an executable imports first
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert statuses == [0, 0]


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--", "-p", "max_steps:=1001"], "max_steps out of range"),
        (
            ["--", "-p", "on_model_failrue:=fail"],
            "there is no parameter on_model_failrue: write on_model_fai",
        ),
        (["--", "-p", "preset:=nix"], "cannot configure: no preset 'nix'"),
        (["--", "--bogus"], "--bogus"),
        (["--namespace", "9"], "__ns:=/9"),
        (
            ["--camera", "/wrist-camera"],
            "--camera /wrist-camera: ROS names have letters a to z, digits, _ and",
        ),
    ],
    ids=["range", "name", "preset", "argument", "namespace", "camera"],
)
def test_bad_input_ends_it_with_a_clear_line(arguments, words):
    done = subprocess.run(
        [GOALREEL, "node", *arguments], env=os.environ | ENV, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    lines = (done.stdout + done.stderr).splitlines()
    (line,) = [line for line in lines if "[rcl]" not in line and "INFO" not in line]  # [rcl] may say more
    assert words in line


def test_without_ros_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "goalreel_ros", None)
    line = fails("node")
    assert line.startswith("goalreel: goalreel_ros is not installed: source your ROS 2 workspace, or ")
    assert "ros_pkg/goalreel_interfaces" in line
