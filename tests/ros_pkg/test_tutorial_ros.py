"""The tutorial of ROS 2, word for word: simulated camera, policy, node, script and terminal client."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import cv2
import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
pytest.importorskip("rclpy", reason="needs ROS 2: pip install 'goalreel[ros]'")

from support.pages import blocks, commands
from support.ros import ENV, Other
from support.wait import until

from goalreel.tabletop.grammar import sample_episode

pytestmark = [pytest.mark.process, pytest.mark.long]

BIN = Path(sys.executable).parent
PAGE = "docs/tutorials/sub-goals-on-a-robot.md"
READY = {"tabletop_simulator": "ready", "tabletop_follower": "ready", "goalreel": "active; "}


def said(part: Other, words: str) -> bool:
    """Tell whether a process has said the words."""
    return any(words in line for line in part.lines)


def terminal(folder: Path, *command: str) -> str:
    """Give what a command that ends says in its terminal."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **ENV}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_tutorial(tmp_path):
    *parts, client = commands(PAGE, "bash")
    [script] = blocks(PAGE, "python")
    assert client[-1] == sample_episode(900_166).instruction
    (tmp_path / "goals.py").write_text(script.code)
    with ExitStack() as stack:
        running = {program: Other(str(BIN / program), *words) for program, *words in parts}
        for part in running.values():
            stack.callback(part.stop, signal.SIGINT)
        for program, part in running.items():
            until(partial(said, part, READY[program]), 120)
        steps = terminal(tmp_path, sys.executable, "goals.py").splitlines()
        assert len(steps) == 2
        assert cv2.imread(str(tmp_path / "goal_2.jpg")).shape == (256, 256, 3)
        printed = terminal(tmp_path, str(BIN / client[0]), *client[1:])
    assert "succeeded" in printed.splitlines()[0]
    assert printed.count("completed") == 2
