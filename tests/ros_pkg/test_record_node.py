"""Record a real goalreel node: what it publishes becomes a dataset with its goal images."""

import json
import signal
import time

import numpy as np
import pytest
from support.ros import Other
from support.ros_bench import BLUE, GREEN, RED, Robot, rgb, seen
from support.wait import until
from typer.testing import CliRunner

from goalreel.cli.main import app
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel_interfaces.action import ExecuteTask
from goalreel_interfaces.msg import SubGoal

pytestmark = pytest.mark.process

TOPICS = (
    "/image",
    "/goalreel/subgoal",
    "/goalreel/storyboard",
    "/goalreel/progress",
    "/goalreel/markers",
    "/goalreel/subgoal/image/compressed",
    "/diagnostics",
)
COLOURS = (RED, GREEN, BLUE)
TASK = " ".join(COLOURS)


@pytest.fixture(scope="module")
def recorded(node, tmp_path_factory):
    """One task from its first frame to its end; the scene obeys each sub-goal after a while."""
    bag = tmp_path_factory.mktemp("node") / "bag"
    recorder = Other("-m", "goalreel_ros.record", "--out", str(bag), *TOPICS)
    robot = Robot()
    robot.film()
    until(lambda: sum("recording /" in line for line in recorder.lines) == len(TOPICS))
    until(lambda: robot.watchers() == 2)  # the node and the recorder
    goals = robot.listen(SubGoal, "goalreel/subgoal")
    handle = robot.send(ExecuteTask, "execute_task", task=TASK)
    for wanted in COLOURS:
        until(lambda: goals and goals[-1].active and goals[-1].instruction == wanted)  # noqa: B023
        time.sleep(0.4)
        robot.colour = wanted
    robot.result(handle)
    until(lambda: not goals[-1].active)
    time.sleep(1.0)
    assert recorder.stop(signal.SIGINT) == 0, recorder.lines
    robot.close()
    return bag


def test_the_task_is_an_episode_with_every_sub_goal_at_its_frames(recorded, tmp_path):
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["bag2lerobot", str(recorded), "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["steps"] == {"verified": 3}
    source = Source.open(out)
    assert source.indices == (0,)
    episode = source.episode(0)
    assert episode.instruction == TASK
    assert source.cameras == ("observation.images.camera", "observation.images.subgoal")
    board = Records(out / FOLDER, "").outline(0)
    assert [s.step.instruction for s in board.steps] == list(COLOURS)
    assert [s.step.prompt for s in board.steps] == [f"paint {c}" for c in COLOURS]
    assert all(s.attempts[0].verdict.reasoning == "I looked." for s in board.steps)
    ends = [s.segment.end for s in board.steps]
    assert [s.segment.start for s in board.steps] == [0, *ends[:-1]]
    assert ends[-1] == len(episode)
    for step, wanted in zip(board.steps, COLOURS, strict=True):
        frames = [step.segment.start, step.segment.end - 1]
        for goal in episode.frames("observation.images.subgoal", frames):
            assert np.abs(seen(goal.pixels).astype(int) - rgb(wanted)).max() < 40
        (last,) = episode.frames("observation.images.camera", frames[1:])
        assert np.abs(seen(last.pixels).astype(int) - rgb(wanted)).max() < 40
    made = json.loads((out / "meta" / "bag.json").read_text())["episodes"][0]
    assert [m.startswith("server:") for m in made["models"][0]] == [True] * 3
