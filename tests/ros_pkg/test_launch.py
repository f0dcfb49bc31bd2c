"""The launch files: what they name must be real."""

import ast
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import rclpy
import ros_parameters
import yaml
from rclpy.context import Context
from rclpy.node import Node
from support.pages import commands
from support.places import ROOT
from support.ros import ENV
from typer.main import get_command

import goalreel_ros
from goalreel.cli.main import app
from goalreel_ros import parameters

FILE = ROOT / "launch" / "goalreel.launch.py"
PARAMETERS = ROOT / "launch" / "goalreel.yaml"
PROFILE = Path(goalreel_ros.__file__).with_name("fastdds_shm.xml")
NODES = list(ast.walk(ast.parse(FILE.read_text())))


def calls(*names: str) -> Iterator[tuple[ast.Call, dict[str, ast.expr]]]:
    """The calls of what is named in the launch file, with their keywords."""
    for node in NODES:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node, {k.arg: k.value for k in node.keywords if k.arg}


class Stub(ModuleType):
    """In place of a module of `launch`, which no package index has: its functions give their arguments."""

    def __getattr__(self, name: str) -> Any:
        return lambda *positional, **keywords: (*positional, keywords)


def arguments() -> dict[str, dict[str, Any]]:
    """The launch file's arguments, with how each is declared."""
    names = [n.module for n in NODES if isinstance(n, ast.ImportFrom) and n.module.startswith("launch")]
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setitem(sys.modules, name, Stub(name))
        return dict(runpy.run_path(str(FILE))["_arguments"]())


def test_the_launch_file_declares_what_it_reads_and_names_what_is_there():
    read = [call.args[0] for call, _ in calls("LaunchConfiguration")]
    named = {argument.value for argument in read if isinstance(argument, ast.Constant)}
    declared = arguments()
    assert set(declared) == named | {"preset", "planner", "editor", "critic", "autostart"}
    assert all(more["description"] for more in declared.values())
    switches = {name: more["default_value"] for name, more in declared.items() if "choices" in more}
    off = {"use_sim_time": "false", "rviz": "false"}
    assert switches == {"autostart": "true", "shared_memory": "true"} | off
    assert all(declared[name]["choices"] == ["true", "false"] for name in switches)
    ours = {e.name for e in entry_points(group="console_scripts") if e.value.startswith("goalreel_ros.")}
    node, rviz = (keywords for name in ("LifecycleNode", "Node") for _, keywords in calls(name))
    assert node["package"].value == "goalreel_ros"
    assert node["executable"].value in ours
    assert rviz["package"].value == rviz["executable"].value == "rviz2"
    for node in NODES:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            assert (FILE.parent / node.right.value).is_file(), node.right.value


def test_the_commands_of_the_page_are_understood():
    """Those of other packages, such as `ros2 topic`, are not looked at."""
    lines = commands("docs/how-to/run-the-node.md")
    node = get_command(app).get_command(None, "node")
    of_node = [words[2:] for words in lines if words[:2] == ["goalreel", "node"]]
    assert len(of_node) == 3
    for words in of_node:
        node.make_context("node", words)
    launched = [words for words in lines if "goalreel.launch.py" in words]
    assert len(launched) == 2
    for words in launched:
        given = {word.partition(":=")[0] for word in words if ":=" in word}
        assert {"camera", "preset"} <= given <= set(arguments())


def test_every_executable_leads_to_a_function():
    setup = (ROOT / "ros_pkg" / "goalreel_ros" / "setup.py").read_text(encoding="utf-8")
    scripts = dict(re.findall(r'"(\w+) = ([\w.:]+)"', setup))
    assert {"goalreel_node", "tabletop_follower"} <= set(scripts)
    for module, _, name in (target.partition(":") for target in scripts.values()):
        assert callable(getattr(import_module(module), name))


def test_rviz_is_given_the_node_s_topics_in_any_namespace():
    ((_, keywords),) = calls("Node")
    moved = {pair.elts[0].value: pair.elts[1] for pair in keywords["remappings"].elts}
    assert moved.keys() == set(topics(yaml.safe_load((ROOT / "launch" / "goalreel.rviz").read_text())))
    for shown, to in moved.items():
        if shown != "/image":
            assert to.value == shown.removeprefix("/")


def topics(config: object) -> Iterator[str]:
    """The topics that an RViz configuration's displays show."""
    if isinstance(config, dict):
        topic = config.get("Topic")
        if isinstance(topic, dict) and "Value" in topic:
            yield topic["Value"]
        config = list(config.values())
    if isinstance(config, list):
        for inner in config:
            yield from topics(inner)


def test_the_parameters_file_is_what_the_node_declares():
    assert ros_parameters.text() == PARAMETERS.read_text(), "run dev/ros_parameters.py"


@pytest.mark.process
def test_a_real_node_takes_the_parameters_file():
    context = Context()
    rclpy.init(args=["--ros-args", "--params-file", str(PARAMETERS)], context=context)
    try:
        node = Node("goalreel", namespace="/robot1", context=context)
        parameters.declare(node)
        given = yaml.safe_load(PARAMETERS.read_text())["/**"]["ros__parameters"]
        assert given == {name: node.get_parameter(name).value for name in parameters.PARAMETERS}
        assert [type(v) for v in given.values()] == [type(node.get_parameter(n).value) for n in given]
        parameters.read_engine_settings(node)
        parameters.read_node_options(node)
        node.destroy_node()
    finally:
        rclpy.shutdown(context=context)


SEGMENT = """
import pathlib, re, rclpy
from rclpy.node import Node
with rclpy.init():
    node = Node("look")
    mapped = pathlib.Path("/proc/self/maps").read_text().splitlines()
    sizes = [int(b, 16) - int(a, 16) for line in mapped if "/dev/shm/fastdds_" in line
             for a, b in [re.match("([0-9a-f]+)-([0-9a-f]+)", line).groups()]]
    print(max(sizes, default=0))
"""


@pytest.mark.process
def test_the_profile_makes_room_for_raw_frames():
    """A real process maps a segment that five raw 1080p frames fit into."""
    environment = os.environ | ENV | {"FASTDDS_DEFAULT_PROFILES_FILE": str(PROFILE)}
    done = subprocess.run(
        [sys.executable, "-c", SEGMENT], env=environment, capture_output=True, text=True, check=True
    )
    assert "XMLPARSER" not in done.stderr + done.stdout
    assert int(done.stdout.split()[-1]) >= 5 * 1920 * 1080 * 3
