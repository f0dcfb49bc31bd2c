"""An arm that does not move as it is told meets something, in any unit and at any rate."""

import numpy as np
import pytest
from support.arms import Motions

from goalreel.planners.kinematic import KinematicPlanner
from goalreel.types import Task

SECONDS, MEETS_S = 5, 3.0


def drawer(fps, told, meets_s=MEETS_S, noise=0.0):
    """An arm goes straight on and shuts a drawer, which all but stops it from `meets_s` on.

    No turn, no stop and no picture shows where it meets the drawer.
    """
    n, rng = round(SECONDS * fps), np.random.default_rng(0)
    time = np.arange(n) / fps
    way = np.array([0.8, 0.5, -0.3])
    command = way * np.sin(np.pi * time / SECONDS)[:, None] * 0.2
    state, velocity = np.zeros((n, 3)), np.zeros(3)
    for i in range(1, n):
        share = 0.1 if time[i] >= meets_s else 1.0
        velocity += (command[i - 1] * share - velocity) * min(1, 8 / fps)
        state[i] = state[i - 1] + velocity / fps
    if told == "place":
        command = state + command / 4
    if told == "next state":
        command = np.vstack([state[1:], state[-1:]])
    state += rng.normal(size=state.shape) * noise
    hand = np.ones((n, 1))
    rows, commands = (np.hstack([v, hand]).astype(np.float32) for v in (state, command))
    return Motions("close the drawer", rows, fps=fps, commands=commands)


def plan(recording):
    task = Task(id="it", instruction=recording.instruction)
    return KinematicPlanner({"it": recording}).plan([task])[0]


@pytest.mark.parametrize("told", ["velocity", "place"])
@pytest.mark.parametrize("fps", [10, 30])
def test_a_recording_is_cut_where_the_arm_does_not_follow_and_its_words_stay_in_doubt(told, fps):
    steps = plan(drawer(fps, told))
    assert [step.name for step in steps.steps] == ["reach for the drawer", "close the drawer"]
    assert all(step.doubts for step in steps.steps)
    assert abs(steps.segments[1].start / fps - MEETS_S) <= 0.3


@pytest.mark.parametrize(
    "recording",
    [
        drawer(10, "velocity", meets_s=SECONDS),
        drawer(10, "velocity", meets_s=0.5),
        drawer(10, "next state"),
        drawer(30, "velocity", noise=0.003),
    ],
    ids=[
        "nothing is met",
        "it begins in the first second",
        "the command is the next state",
        "it follows badly",
    ],
)
def test_where_the_command_tells_nothing_there_is_no_cut(recording):
    steps = plan(recording)
    assert [step.name for step in steps.steps] == ["close the drawer"]
    assert steps.steps[0].doubts
