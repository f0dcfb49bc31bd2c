"""The benchmark of the hand-over measures what it says; how long anything takes is not looked at."""

import json
import subprocess
import sys

import pytest
from support.places import ROOT

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
pytest.importorskip("rclpy", reason="needs ROS 2: pip install 'goalreel[ros]'")

TWO_STEPS = "2"
"""Of the validation split: the scene with two sub-goals."""


@pytest.mark.process
@pytest.mark.long
def test_every_step_of_a_task_is_handed_over_told_seen_and_on_demand():
    command = [sys.executable, str(ROOT / "benchmarks" / "ros_handover.py"), "--tasks", "1", "--json"]
    tiny = ["--first", TWO_STEPS, "--scale", "0.02", "--step", "60", "--rejected", "1"]
    done = subprocess.run([*command, *tiny], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["tasks"], found["steps"], found["rejected"]) == (1, 1, 1.0)
    assert found["ready_share"] in (0, 1)
    assert len(found["late"]) == (found["ready_share"] == 0)
    for name in ("first_goal_s", "handover_s", "seen_s", "on_demand_s"):
        median, high = found[name]
        assert 0 < median <= high
    # Each picture is drawn and judged twice, and nobody can answer sooner than the models do.
    assert found["first_goal_s"][0] >= 3.0 + 2 * (4.0 + 1.5)
