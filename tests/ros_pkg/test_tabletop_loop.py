"""Simulated robot, node and follower together: the closed loop, its film, the tutorial, the nano models."""

import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
pytest.importorskip("rclpy", reason="needs ROS 2: pip install 'goalreel[ros]'")
pytest.importorskip("torch", reason="needs torch: pip install 'goalreel[gpu]'")

import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import av
import cv2
import pytest
from support.pages import blocks, commands
from support.ros import ENV, Other, other
from support.wait import until

from goalreel.checkpoints import NANO
from goalreel.models import presets
from goalreel.streaming.board import ErrorCode
from goalreel.tabletop.grammar import sample_episode
from goalreel_interfaces.msg import CriticVerdict, StoryboardStep
from goalreel_ros.client import GoalreelClient, GoalreelError
from goalreel_ros.tabletop.demo import WIDTH

pytestmark = pytest.mark.process


def parameters(**values) -> list[str]:
    return ["--ros-args", *(a for name, value in values.items() for a in ("-p", f"{name}:={value}"))]


SIZE = 192
"""Not the checkpoints' own: what comes out has the camera's size."""
NANO_TASK = "first move the green block into the yellow bowl, then put the orange block on the blue block"
"""Of the scene of seed 900010."""


@pytest.mark.lab
@pytest.mark.skipif(not NANO.is_dir(), reason="goalreel-nano is not installed")
def test_served_elsewhere_nano_confirms_no_task_in_which_nothing_moved():
    """An operator takes every step for done. The rule comes with the model, from its server."""
    preset, sim = presets.load("nano"), parameters(seed=900_010, size=SIZE, port=0)
    names = ("--planner", preset.planner, "--editor", preset.editor, "--critic", preset.critic)
    with ExitStack() as stack:
        server = stack.enter_context(
            other("-m", "goalreel", "serve", "--port", "0", *names, ready=" serves ")
        )
        url = re.search(r"http://\S+", "\n".join(server.lines))[0]
        stack.enter_context(other("-m", "goalreel_ros.tabletop.simulator", *sim, ready="ready"))
        models = dict.fromkeys(("planner", "editor", "critic"), f"server:{url}")
        words = parameters(preset="server", max_attempts=1, **models)
        stack.enter_context(other("-m", "goalreel_ros.main", *words, ready="active; "))
        client = stack.enter_context(GoalreelClient(timeout=60))
        client.wait_until_active(300)
        running, goal = client.execute(NANO_TASK), None
        for index in range(2):
            goal = client.wait_for_subgoal(180, after=goal)
            client.set_active_step(index, StoryboardStep.STATUS_COMPLETED)
        with pytest.raises(GoalreelError, match="The green block is not in the yellow bowl") as refused:
            running.result(180)
        assert refused.value.code == ErrorCode.UNCONFIRMED
        assert refused.value.result.verdict.verdict == CriticVerdict.REJECTED


MAKEFILE = Path(__file__).parents[2] / "Makefile"


@pytest.mark.parametrize(
    ("goals", "told"),
    [
        pytest.param(2, "--seed 950000 --rate 5", id="exact models", marks=pytest.mark.lab),
        pytest.param(
            5,
            *re.findall(r"tabletop\.demo (.*) --out", MAKEFILE.read_text()),
            id="make ros-demo",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_demonstration_ends_with_every_sub_goal_true(goals, told, tmp_path):
    command = ("-m", "goalreel_ros.tabletop.demo", "--out", str(tmp_path), *told.split())
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as demo:
        if goals == 2:
            assert_a_new_plan_keeps_what_is_done()
        out, _ = demo.communicate(timeout=600)
    assert demo.returncode == 0
    assert out.count("holds: ") == goals
    assert "the task ended as" not in out, "done, and confirmed"
    assert {f.name for f in tmp_path.iterdir()} == {"film.mp4"}
    with av.open(str(tmp_path / "film.mp4")) as film:
        assert next(film.decode(video=0)).width == WIDTH


def assert_a_new_plan_keeps_what_is_done() -> None:
    with GoalreelClient(timeout=60) as client:
        goal = client.wait_for_subgoal(300)
        while goal.index != 1:
            goal = client.wait_for_subgoal(300, after=goal)
        client.replan("the test asks for it")
        until(lambda: client.storyboard().revision == 1)
        assert client.storyboard().steps[0].status == StoryboardStep.STATUS_COMPLETED


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


@pytest.mark.lab
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
