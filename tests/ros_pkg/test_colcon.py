"""colcon builds the packages, as on a ROS host, and what it installs works; and the container."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pytest
from support.cli import goalreel
from support.places import ROOT
from support.ros import ENV

pytestmark = [pytest.mark.process, pytest.mark.long]


class Workspace(NamedTuple):
    """The folder into which colcon installs, and that of goalreel_interfaces."""

    install: Path
    interfaces: Path

    def sourced(self, command: str) -> list[str]:
        return ["bash", "-c", f'. "{self.install}/setup.bash" && exec {command}']


@pytest.fixture(
    scope="module",
    params=[pytest.param("ros", marks=pytest.mark.lab), pytest.param("both", marks=pytest.mark.slow)],
)
def workspace(request) -> Workspace:
    """One that colcon has built."""
    both = request.param == "both"
    words = [] if both else ["ros"]
    built = subprocess.run([str(ROOT / "scripts" / "colcon.sh"), *words], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    assert ("2 packages finished" if both else "1 package finished") in built.stdout
    folder = ROOT / ".colcon"
    if both:
        return Workspace(folder / "install", folder / "install" / "goalreel_interfaces")
    return Workspace(folder / "ros" / "install", folder / "venv")


@pytest.fixture(scope="module")
def environment(workspace) -> Iterator[dict[str, str]]:
    """The environment of a person at a ROS host, once everything is built."""
    venv = ROOT / ".colcon" / "venv"
    # Ours describe the other venv: its Python would load its libraries.
    others = ("_ROS_WHEELS_BOOTSTRAP_COMPLETE", "LD_LIBRARY_PATH", "PYTHONPATH")
    bare = {name: value for name, value in os.environ.items() if name not in others}
    with (ROOT / ".colcon" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # another worker builds when these tests are through
        yield bare | ENV | {"PATH": f"{venv}/bin:{os.environ['PATH']}", "AMENT_PREFIX_PATH": str(venv)}


def test_the_interfaces_carry_a_message_from_there(environment, workspace):
    code = """
import rclpy, time
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
import goalreel_interfaces, goalreel_ros
from goalreel_interfaces.action import ExecuteTask
from goalreel_interfaces.msg import SubGoal
from rclpy.type_support import check_for_type_support
check_for_type_support(ExecuteTask)
latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
with rclpy.init():
    node, got = Node("both"), []
    publisher = node.create_publisher(SubGoal, "subgoal", latched)
    publisher.publish(SubGoal(name="reach", index=2))
    node.create_subscription(SubGoal, "subgoal", got.append, latched)
    end = time.monotonic() + 60
    while not got and time.monotonic() < end:
        rclpy.spin_once(node, timeout_sec=0.1)
    print(got[0].name, got[0].index, goalreel_interfaces.__file__, goalreel_ros.__file__, sep="\\n")
"""
    done = subprocess.run(
        [*workspace.sourced('python3 -c "$0"'), code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    *message, interfaces, package = done.stdout.splitlines()
    assert message == ["reach", "2"]
    assert Path(interfaces).is_relative_to(workspace.interfaces)
    assert Path(package).is_relative_to(workspace.install / "goalreel_ros")


def test_ros_finds_executables_launch_files_and_parameters(environment, workspace):
    code = (
        "from ament_index_python import get_package_prefix, get_package_share_directory as share;"
        "print(get_package_prefix('goalreel_ros'), share('goalreel_ros'), sep='\\n')"
    )
    done = subprocess.run(
        [*workspace.sourced('python3 -c "$0"'), code], env=environment, capture_output=True, text=True
    )
    prefix, share = map(Path, done.stdout.splitlines())
    shipped = {f.name for f in (ROOT / "launch").iterdir() if f.is_file()}
    assert {"goalreel.launch.py", "goalreel.yaml", "goalreel.rviz", "fastdds_shm.xml"} <= shipped
    assert shipped <= {f.name for f in share.iterdir()}
    executables = prefix / "lib" / "goalreel_ros"
    for name in ("goalreel_node", "tabletop_simulator", "tabletop_follower"):
        assert os.access(executables / name, os.X_OK)
    (profile,) = prefix.glob("lib/python*/site-packages/goalreel_ros/fastdds_shm.xml")
    assert not profile.is_symlink()


def test_the_installed_node_runs_with_its_installed_parameters(environment, workspace):
    share = workspace.install / "goalreel_ros" / "share" / "goalreel_ros"
    node = workspace.install / "goalreel_ros" / "lib" / "goalreel_ros" / "goalreel_node"
    arguments = f"--ros-args --params-file {share}/goalreel.yaml -p preset:=server -p autostart:=false"
    process = subprocess.Popen(
        workspace.sourced(f"{node} {arguments}"),
        env=environment,
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
    )
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if "unconfigured; configure" in line:
                break
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, "".join(said) + rest
    assert "unconfigured; configure" in said[-1]


RECIPE = ROOT / "docker" / "Dockerfile"
ENTRY = ROOT / "docker" / "entrypoint.sh"
TEXT = RECIPE.read_text()


@pytest.mark.process
def test_the_linter_of_dockerfiles_finds_nothing():
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([str(linter), "--no-color", str(RECIPE)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_all_that_is_copied_is_there_and_not_ignored():
    ignored = (ROOT / ".dockerignore").read_text().split()
    copied = re.findall(r"^COPY (\S+) \S+$", TEXT, re.MULTILINE)
    assert {"ros_pkg", "launch", "."} <= set(copied)
    for path in (*copied, "docker/entrypoint.sh", "pyproject.toml", "README.md", "nano/goalreel_nano"):
        assert (ROOT / path).exists(), path
        assert not any(fnmatch(path, rule) or path.startswith(f"{rule}/") for rule in ignored), path


@pytest.mark.process
def test_the_entry_sources_both_workspaces_and_becomes_the_command(tmp_path):
    """The real script, with the two paths of the container moved into a folder."""
    moved = tmp_path / "entrypoint.sh"
    moved.write_text(ENTRY.read_text().replace("/opt/", f"{tmp_path}/opt/"))
    for name, folder in (("UNDERLAY", "ros/some"), ("OVERLAY", "goalreel/workspace/install")):
        file = tmp_path / "opt" / folder / "setup.bash"
        file.parent.mkdir(parents=True)
        file.write_text(f"export {name}=sourced$UNDERLAY\n")
    told = ["sh", "-c", 'echo "$UNDERLAY $OVERLAY $0"', "a b"]
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run(
        [bash, str(moved), *told], env={"ROS_DISTRO": "some"}, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("sourced sourcedsourced a b\n", "")


def test_it_runs_as_a_normal_user_and_can_write_its_log():
    last = TEXT[TEXT.rindex("\nRUN ") :]
    (user,) = re.findall(r"^USER (\d+):\d+$", last, re.MULTILINE)
    assert int(user) >= 1000
    assert "ENV ROS_HOME=/tmp/" in last


def test_its_health_is_asked_by_a_command_that_exists(monkeypatch):
    """`tests/ros_pkg/test_node_cli.py` asks a real node."""
    (command,) = re.findall(r"^HEALTHCHECK .*\\\n +CMD (\[.+\])$", TEXT, re.MULTILINE)
    entry, program, *words = json.loads(command)
    assert entry == "/opt/goalreel/source/docker/entrypoint.sh"
    assert program == "goalreel"
    asked = []
    monkeypatch.setattr("goalreel_ros.client.commander.check_health", asked.append)
    assert goalreel(*words) == "active\n"
    assert asked == ["/goalreel"]
