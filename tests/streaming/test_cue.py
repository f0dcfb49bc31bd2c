"""The cue of labelled episodes, from a dataset to the engine's parameter."""

import numpy as np
import pytest
from support.recordings import make_dataset
from support.subtasks import add_subtasks

from goalreel.streaming.cue import ExamplesCue

TASK = "put the red block in the blue bowl"


def state(seed: int) -> np.ndarray:
    """Reach for 3 s, close, carry for 3 s, open, and leave for 2 s, at 10 Hz."""
    t = np.arange(80 + seed) / 10
    x = np.interp(t, [0, 2.5, 3, 6, 8], [0, 1, 1, -1, 0])
    closed = np.interp(t, [2.9, 3.1, 5.9, 6.1], [0, 1, 1, 0])
    return np.stack([x, closed], axis=1) + np.random.default_rng(seed).normal(0, 0.01, (len(t), 2))


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    root = tmp_path_factory.mktemp("cue") / "labelled"
    names = ("x.pos", "gripper.pos")
    make_dataset(root, states=[state(i) for i in range(3)], names=names, dtype="image", task=TASK)
    add_subtasks(root, dict.fromkeys(range(3), (30, 60)), ["grasp it", "put it in", "leave"])
    return root


@pytest.fixture
def clock():
    return [0.0]


def test_the_numbers_of_a_robot_say_which_step_is_done(labelled, clock):
    cue = ExamplesCue(labelled, lambda: clock[0])
    assert cue.describe(0) == "no cue: there is no task"
    cue.begin(TASK, 3)
    assert cue.describe(0) == "no cue: the robot sends no x, gripper"
    said = []
    for x, gripper in state(7)[:50]:
        cue.push({"x": x, "another": 5.0})  # a driver each, as some robots have
        cue.push({"gripper": gripper})
        said.append(cue.is_left(0))
        clock[0] += 0.1
    assert said.index(True) == pytest.approx(30, abs=5)
    assert said == sorted(said)
    assert (cue.is_left(1), cue.describe(1)) == (False, "step 2 is under way")
    clock[0] += 2
    assert cue.describe(1).startswith("no cue: the robot sends no")


def test_where_there_is_no_cue_the_reason_is_said(labelled, clock):
    cue = ExamplesCue(labelled, lambda: clock[0])
    cue.begin(TASK, 2)
    assert cue.describe(0) == "no cue: the plan has 2 steps and the labelled episodes 3"
    cue.begin("open the door", 3)
    assert cue.describe(0) == "no cue: no labelled episode has such an instruction"
    cue.begin("put the green block in the blue bowl", 3)
    for _ in range(30):
        cue.push({"x": -9.0, "gripper": 5.0})
        clock[0] += 0.1
    assert cue.describe(0) == "no cue: the robot moves unlike them"
    cue.enter(1)
    cue.push({"x": 1.0, "gripper": 1.0})
    assert cue.is_left(0)
