"""examples/follow_subgoals.py beside a real node, with a real ACT checkpoint."""

import json
import signal

import cv2
import numpy as np
import pytest
from support.act_policy import save_act
from support.places import ROOT
from support.ros import Other
from support.ros_bench import GREEN, RED
from support.wait import until

pytestmark = pytest.mark.process


def test_a_policy_follows_the_node(client, robot, tmp_path):
    film = cv2.VideoWriter(str(tmp_path / "film.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (64, 48))
    for _ in range(3000):
        film.write(np.full((48, 64, 3), 90, np.uint8))
    film.release()
    script = str(ROOT / "examples" / "follow_subgoals.py")
    follower = Other(
        script, str(save_act(tmp_path / "policy")), str(tmp_path / "film.avi"), f"{RED}, {GREEN}"
    )
    until(lambda: client.subgoal().active or follower.process.poll() is not None, 120)
    assert follower.process.poll() is None, "\n".join(follower.lines)
    until(lambda: [line for line in follower.lines if line.startswith("[")])
    robot.colour = RED
    until(lambda: client.subgoal().instruction.startswith(GREEN) or follower.process.poll() is not None)
    robot.colour = GREEN
    until(lambda: follower.process.poll() is not None)
    assert follower.stop(signal.SIGTERM) == 0, "\n".join(follower.lines)
    actions = [json.loads(line) for line in follower.lines if line.startswith("[")]
    assert all(len(action) == 2 for action in actions)
    assert len({tuple(action) for action in actions}) > 1, "another goal, another action"
