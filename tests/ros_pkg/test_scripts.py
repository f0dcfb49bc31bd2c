"""The executables of goalreel_ros: each leads to a function, and old names warn."""

import re
import sys
from importlib import import_module

import pytest
from support.places import ROOT

pytest.importorskip("rclpy")

SETUP = (ROOT / "ros_pkg" / "goalreel_ros" / "setup.py").read_text(encoding="utf-8")
SCRIPTS = dict(re.findall(r'"(\w+) = ([\w.:]+)"', SETUP))


def test_each_leads_to_a_function():
    assert {"goalreel_ros_record", "goalreel_ros_rerun", "goalreel_ros_zmq", "goalreel_node"} <= set(SCRIPTS)
    for target in SCRIPTS.values():
        module, _, name = target.partition(":")
        pytest.importorskip(
            {"goalreel_ros.rrd": "rerun", "goalreel_ros.record": "rosbags"}.get(module, "rclpy")
        )
        assert callable(getattr(import_module(module), name))


def test_the_old_name_of_the_rerun_command_works_and_warns(monkeypatch, capsys):
    pytest.importorskip("rerun")
    module, _, name = SCRIPTS["goalreel_rerun"].partition(":")
    monkeypatch.setattr(sys, "argv", ["goalreel_rerun", "--help"])
    with pytest.raises(SystemExit, match="0"):
        getattr(import_module(module), name)()
    output = capsys.readouterr()
    assert "goalreel_rerun is called goalreel_ros_rerun now" in output.err
    assert "--connect" in output.out
