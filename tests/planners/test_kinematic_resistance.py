"""An arm that does not move as it is told meets something, in any unit and at any rate."""

import numpy as np
import pytest
from support.arms import Motions

from goalreel.planners.kinematic import KinematicPlanner, Layout
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
    return KinematicPlanner({"it": recording}, layout=Layout(closed="low")).plan([task])[0]


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


DOWN, ALONG, BACK, STAY = (np.array(v) for v in ((0, 0.04, -0.15), (0, 0.15, 0), (0.2, 0, 0.05), (0, 0, 0)))


def follow(instruction, legs, hindrances=(), hand=None):
    """An arm of 10 fps goes along legs of (seconds, velocity), slowly turning from one to the next.

    Each hindrance is (seconds, share): for 0.3 s from then on, only that share of the command has an effect.
    """
    command = np.concatenate([np.tile(velocity, (round(10 * s), 1)) for s, velocity in legs])
    n, state, velocity = len(command), np.tile([0.3, 0.0, 0.3], (len(command), 1)), np.zeros(3)
    for i in range(1, n):
        share = next((share for at, share in hindrances if at <= i / 10 < at + 0.3), 1.0)
        velocity = velocity + (command[i - 1] * share - velocity) * 0.6
        state[i] = state[i - 1] + velocity / 10
    hand = np.ones(n) if hand is None else np.interp(np.arange(n) / 10, *zip(*hand, strict=True))
    rows, commands = (np.column_stack([v, hand]).astype(np.float32) for v in (state, command))
    return Motions(instruction, rows, commands=commands)


def steps_of(recording):
    """Each step's first frame, name and doubts."""
    answer = plan(recording)
    return [(s.start, step.name, step.doubts) for step, s in zip(answer.steps, answer.segments, strict=True)]


TAP = ((1.5, DOWN), (2, ALONG))


@pytest.mark.parametrize("share", [0.3, 0.4])
def test_a_touch_is_named_where_the_arm_turns_at_a_thing_and_is_held_back_there(share):
    first, second = steps_of(follow("turn off the tap", TAP, [(1.5, share)]))
    assert first == (0, "reach for the tap", ())
    assert second[1:] == ("turn off the tap", ())
    assert abs(second[0] - 15) <= 3


@pytest.mark.parametrize(
    ("legs", "hindrances"),
    [
        (TAP, []),
        (TAP, [(2.5, 0.4)]),
        (((1.5, -DOWN), (2, ALONG), (1, DOWN)), [(1.5, 0.4)]),
    ],
    ids=["nothing holds it back", "held back elsewhere", "up in the air"],
)
def test_one_sign_of_a_touch_names_nothing(legs, hindrances):
    assert all(doubts for _, _, doubts in steps_of(follow("turn off the tap", legs, hindrances)))


def test_an_arm_that_something_lets_go_is_not_held_back():
    (only,) = steps_of(follow("close the drawer", ((4, ALONG + DOWN / 2),), [(2.0, 2.0)]))
    assert only[:2] == (0, "close the drawer")
    assert only[2]


HOOK = ((1.5, DOWN), (1, STAY), (1, -DOWN), (1.5, ALONG), (2, BACK))
TAKES = [(0, 1), (1.6, 1), (2.0, 0.4), (7, 0.4)]


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_a_tool_works_from_where_it_turns_and_is_held_back(share):
    steps = steps_of(follow("pick up the hook and pull the cup with it", HOOK, [(5.1, share)], TAKES))
    assert [(name, doubts) for _, name, doubts in steps] == [
        ("grasp the hook", ()),
        ("carry the hook", ()),
        ("pull the cup with the hook", ()),
    ]
    assert abs(steps[2][0] - 51) <= 3


@pytest.mark.parametrize(
    "hindrances",
    [[], [(2.6, 0.3)], [(4.2, 0.3)]],
    ids=["nothing", "as it is taken", "on its way"],
)
def test_a_tool_that_is_not_seen_to_meet_anything_leaves_its_work_in_doubt(hindrances):
    steps = steps_of(follow("pick up the hook and pull the cup with it", HOOK, hindrances, TAKES))
    assert [name for _, name, _ in steps] == ["grasp the hook", "pull the cup with the hook"]
    assert not steps[0][2]
    assert steps[1][2]
