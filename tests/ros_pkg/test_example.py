"""examples/follow_subgoals.py beside a real node, with a real ACT checkpoint; behaviour_tree.py beside a
scripted one."""

import importlib.util
import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import ModuleType

import cv2
import numpy as np
import pytest
from support.places import ROOT, SUPPORT
from support.ros import Other, other
from support.ros_bench import GREEN, RED
from support.wait import until

from goalreel_ros.client import GoalreelClient, GoalreelError

pytestmark = pytest.mark.process


@pytest.fixture
def example() -> ModuleType:
    """The policy's example as a module: a process of its own would import lerobot anew."""
    spec = importlib.util.spec_from_file_location("example", ROOT / "examples" / "follow_subgoals.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_a_policy_follows_the_node(client, robot, scripted, example, tmp_path, monkeypatch, capsys):
    from support.act_policy import save_act

    film = cv2.VideoWriter(str(tmp_path / "film.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (64, 48))
    for _ in range(3000):
        film.write(np.full((48, 64, 3), 90, np.uint8))
    film.release()
    words = [str(save_act(tmp_path / "policy")), str(tmp_path / "film.avi"), f"{RED}, {GREEN}"]
    monkeypatch.setattr(sys, "argv", [example.__file__, *words])
    send, sent = example.send, []

    def note(action: np.ndarray) -> None:
        send(action)
        sent.append(tuple(round(float(a), 4) for a in action))

    monkeypatch.setattr(example, "send", note)

    def acts(distinct: int) -> None:
        """Wait for its actions, without a goal and for each: the client here may hear of one sooner."""
        until(lambda: len(set(sent)) >= distinct or following.done(), 300)
        assert not following.done() or following.result() is None

    with ThreadPoolExecutor(1) as pool:
        try:
            with scripted.planner.gate.shut():
                following = pool.submit(example.main)
                acts(1)
                assert not until(client.subgoal).active
            acts(2)
            until(lambda: client.subgoal().instruction == RED)
            robot.colour = RED
            acts(3)
            until(lambda: client.subgoal().instruction == GREEN)
            robot.colour = GREEN
            assert following.result(60) is None
        finally:
            with suppress(GoalreelError):  # there is no task any more
                client.cancel()
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("[")]
    assert printed == [list(action) for action in sent]
    assert all(len(action) == 2 for action in sent)


TREE = str(ROOT / "examples" / "behaviour_tree.py")
NODE = "/tree/goalreel"


@pytest.fixture(scope="module")
def scripted_client(ros_env):
    with GoalreelClient(server=NODE, timeout=60, args=[]) as client:
        yield client


@pytest.fixture(scope="module")
def scripted_node(scripted_client):
    """A process, active. The last test kills it."""
    with other(str(SUPPORT / "scripted_node.py"), "--ros-args", "-r", "__ns:=/tree") as process:
        scripted_client.lifecycle.configure()
        scripted_client.lifecycle.activate()
        scripted_client.wait_until_active(60)
        yield process


def grow(*words: str) -> Other:
    return Other(TREE, *words, f"--node={NODE}", "--ros-args", "--log-level", "info")


def ended(tree: Other) -> tuple[int, list[str]]:
    """Its status, and the last tree that it showed: the newest mark of each leaf, with what it said."""
    until(lambda: tree.process.poll() is not None, 120)
    tree.stop()
    first = max(i for i, line in enumerate(tree.lines) if re.search(r"do it \[", line))
    return tree.process.returncode, tree.lines[first:]


def test_a_behaviour_tree_picks_sub_goal_after_sub_goal(scripted_node, scripted_client):
    tree = grow("two blocks")
    for step in (0, 1):
        until(lambda step=step: any(f"block {step}" in line for line in tree.lines), 120)
        scripted_client.set_active_step(step, 1)
    code, shown = ended(tree)
    assert code == 0, "\n".join(tree.lines)
    assert any("ExecuteTask [✓]" in line for line in shown)


def test_a_policy_that_gets_nowhere_has_it_planned_again_and_is_given_up(scripted_node, scripted_client):
    tree = grow("two blocks", "--patience=0.5", "--replans=1")
    code, shown = ended(tree)
    assert code == 1, "\n".join(tree.lines)
    assert any("no re-plan is left" in line for line in shown)
    until(lambda: not scripted_client.subgoal().active)  # the task was cancelled
