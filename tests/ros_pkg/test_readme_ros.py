"""The README's ROS 2 commands, word for word, with the simulated arm as the robot they are meant for."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
pytest.importorskip("rclpy", reason="needs ROS 2: pip install 'goalreel[ros]'")

from support.pages import commands
from support.ros import Other, other
from support.wait import until

from goalreel.tabletop.sim.grammar import sample_episode

pytestmark = [pytest.mark.process, pytest.mark.long]

BIN = Path(sys.executable).parent
SEED = 900_166
CAMERA = ("-r", "image:=/wrist_camera/image_raw", "-r", "camera_info:=/wrist_camera/camera_info")


def test_the_readmes_commands(tmp_path):
    node, client = commands("README.md", "bash")
    assert node[-1] == "&"
    assert client[-1] == sample_episode(SEED).instruction
    simulated = ["--ros-args", "-p", f"seed:={SEED}", *CAMERA]
    with ExitStack() as stack:
        for part, more in (
            ("simulator", ["-p", "port:=8000", "-p", "rate:=4.0"]),
            ("follower", ["-r", "subgoal:=goalreel/subgoal"]),
        ):
            stack.enter_context(
                other("-m", f"goalreel_ros.tabletop.{part}", *simulated, *more, ready="ready")
            )
        running = Other(str(BIN / node[0]), *node[1:-1])
        stack.callback(running.stop, signal.SIGINT)
        until(lambda: any("active; " in line for line in running.lines))
        done = subprocess.run(
            [str(BIN / client[0]), *client[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=180
        )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "completed" in done.stdout
