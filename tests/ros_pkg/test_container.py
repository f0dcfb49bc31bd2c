"""The container's recipe. There is no Docker here: it is linted, and what it names must be real."""

import json
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from support.cli import goalreel
from support.places import ROOT

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
    for path in (*copied, "docker/entrypoint.sh", "pyproject.toml", "README.md", "goalreel/checkpoints"):
        assert (ROOT / path).exists(), path
        assert not any(fnmatch(path, rule) or path.startswith(f"{rule}/") for rule in ignored), path


def test_the_packages_are_built_by_the_commands_that_are_tested():
    script = "scripts/colcon_packages.sh"
    assert f"{script} /opt/goalreel/workspace" in TEXT
    assert f"\n{script} " in (ROOT / "scripts" / "colcon.sh").read_text()
    assert "/opt/goalreel/workspace/install/setup.bash" in ENTRY.read_text()


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
    monkeypatch.setattr("goalreel_ros.client.once.check_health", asked.append)
    assert goalreel(*words) == "active\n"
    assert asked == ["/goalreel"]
