"""Contact without a closing hand: it has words only where exactly one contact fits each clause."""

import numpy as np
import pytest
from support.arms import HOME, UP, A, Arm, B, C, Motions, names, near, planned, starts


def push(arm: Arm, a, b, grip=1.0) -> Arm:
    """Go down at `a` and along to `b`."""
    arm.go(a + UP, 1, grip).go(a, 0.6, grip)
    arm.contacts.append(len(arm.rows))
    arm.go(b, 1, grip)
    arm.contacts.append(len(arm.rows))
    return arm


def press(arm: Arm, a, grip=1.0) -> Arm:
    arm.go(a + UP, 1, grip).go(a, 0.6, grip)
    arm.contacts.append(len(arm.rows))
    return arm


def assert_steps(plan, said, frames=None):
    """Steps of these names, which all come off, begin at these frames and are in no doubt."""
    assert [(step.name, step.outcome, step.doubts) for step in plan.steps] == [(n, "done", ()) for n in said]
    assert frames is None or near(starts(plan), frames)


PUSH, SHUT = "push the cup to the left", "open the drawer"


@pytest.mark.parametrize("grip", [1.0, 0.2])
@pytest.mark.parametrize("ends", ["away", "there"])
def test_a_push_begins_where_the_hand_is_at_the_thing(grip, ends):
    """Whatever the shape of the hand, and whether it leaves or not; no grasp is claimed."""
    for instruction, thing in ((SHUT, "the drawer"), (PUSH, "the cup")):
        arm = push(Arm(), A, B, grip)
        plan = (arm.home(grip) if ends == "away" else arm).plan(instruction)
        assert_steps(plan, [f"reach for {thing}", instruction], [0, arm.contacts[0]])


JOINTS = ("a.pos", "b.pos", "c.pos", "gripper.pos")
PRESSES = ["reach for the button", "press the button"]


@pytest.mark.parametrize("dims", [("x", "y", "z", "gripper"), JOINTS])
def test_a_press_begins_shortly_before_the_hand_turns_back(dims):
    """In joints it is seen where the arm goes back as it came."""
    arm = press(Arm(), A).go(A + UP, 0.6, 1).home()
    assert_steps(arm.plan("press the button", dims=dims), PRESSES, [0, arm.contacts[0] - 5])
    assert press(Arm(), A).go(B, 1, 1).home().plan("press the button", dims=JOINTS).steps[0].doubts


def test_an_arm_that_stands_to_close_its_hand_presses_with_it_then():
    arm = Arm().go(C + UP, 1, 1).close()
    plan = press(arm.go(C + UP, 0.5, 0.4), A, 0.4).home(0.4).plan("press the button")
    assert names(plan) == PRESSES


def test_each_of_two_touches_has_its_clause():
    arm = push(push(Arm(), A, B).go(B + UP, 0.6, 1), C, C + (A - B) / 2).home()
    plan = arm.plan(f"{SHUT}, then {PUSH}")
    assert_steps(plan, ["reach for the drawer", SHUT, "reach for the cup", PUSH], [0, *arm.contacts[:3]])
    assert len(arm.plan(f"{SHUT}, then {PUSH}", "subtask").steps) == 2


def test_a_touch_before_and_after_a_grasp():
    put, close = ["pick up the cup", "put the cup in the drawer"], "close the drawer"
    after = push(Arm().take(A).put(B).go(B + UP, 0.6, 1), C, C + (A - B) / 2).home()
    plan = after.plan("put the cup in the drawer, then close the drawer")
    assert_steps(plan, [*put, "reach for the drawer", close], [0, *after.contacts[:3]])
    before = push(Arm(), C, C + (A - B) / 2).go(B + UP, 1, 1).take(A).put(B).home()
    plan = before.plan("open the drawer, then put the cup in the drawer")
    assert_steps(plan, ["reach for the drawer", SHUT, *put], [0, *before.contacts[:3]])


@pytest.mark.parametrize(
    ("instruction", "arm"),
    [
        ("open the drawer", push(push(Arm(), A, B).go(B + UP, 0.6, 1), C, B).home()),
        ("open the drawer, then close the drawer", push(Arm(), A, B).home()),
        ("open the drawer", Arm().go(HOME + UP, 1, 1).go(A + 3 * UP, 1, 1).home()),
        ("put the cup in the drawer, then close the drawer", Arm().take(A).put(B).home()),
        ("close the drawer, then put the cup in the drawer", Arm().take(A).put(B).home()),
        ("wipe the table", push(Arm(), A, B).home()),
        ("push the thermos with the stick", push(Arm(), A, B).home()),
        ("push the cup to the left", Arm().take(A).put(B).home()),
        ("fold the towel", push(Arm(), A, B).home()),
        ("press the button", press(press(Arm(), A).go(A + UP, 0.6, 1), C).home()),
        ("close the drawer, then press the button", push(Arm(), A, B).home()),
    ],
)
def test_what_does_not_fit_is_silent(instruction, arm):
    """More or fewer touches than clauses, none at all, a tool, a lift for a push, a push for a fold."""
    plan = arm.plan(instruction)
    assert all(step.doubts for step in plan.steps)
    assert not any(step.name.startswith(("reach", "grasp")) for step in plan.steps)


def test_a_pull_may_be_a_touch_and_a_push_a_grasp_that_drags():
    for instruction, thing in (("pull the drawer", "drawer"), ("turn the knob", "knob")):
        assert_steps(push(Arm(), A, B).home().plan(instruction), [f"reach for the {thing}", instruction])
    arm = Arm().go(A + UP, 1, 1).go(A, 0.6, 1).close().go(B, 1, 0.4).open().home()
    assert_steps(arm.plan(PUSH), ["reach for the cup", PUSH])


@pytest.mark.parametrize("told", [True, False])
def test_a_hand_that_stands_presses_if_its_command_goes_on(told):
    """A place that is commanded lies ahead of the hand as long as something holds it back."""
    arm = press(Arm(), A).go(A, 1, 1)
    state = np.array(arm.rows, np.float32)
    ahead = np.vstack([state[2:], np.repeat(state[-1:], 2, 0)])
    if told:
        ahead[arm.contacts[0] :, 2] -= 0.06
    plan = planned(Motions("press the button", state, commands=ahead))
    assert [step.name for step in plan.steps] == ["reach for the button", "press the button"][-1 - told :]
    assert bool(plan.steps[-1].doubts) is not told


def test_a_handle_is_reached_where_the_hand_is_first_low():
    """It comes down forwards and pulls back slowly, so that it neither turns nor stands."""
    arm = Arm().go(A + 2 * UP, 1, 1)
    arm.go(A + UP / 2, 0.5, 1).go(A, 0.5, 1)
    arm.contacts.append(len(arm.rows))
    plan = arm.go(B, 1, 1).plan("open the drawer")
    assert near(starts(plan), [0, arm.contacts[0]])


def test_what_is_lifted_is_met_where_the_hand_turns_upwards():
    """The hand rises with it, so that a rise is no end."""
    arm = press(Arm(), A)
    for height in (0.6, 0.1, 0.8, 0.2, 1.5):  # it loses the thing twice, and takes it again
        arm.go(A + (B - A) * height / 8 + UP * height, 0.8, 1)
    for thing, name in (("handle", "lift the handle"), ("lever", "pull the lever up")):
        assert_steps(arm.plan(name), [f"reach for the {thing}", name], [0, arm.contacts[0]])
    assert len(Arm().go(A + UP, 1, 1).plan("lift the handle").steps) == 1


SIDE = np.array([0.15, 0, 0])
STEEP = Arm().go(A + UP, 1, 1).go(A, 0.6, 1).go(A + UP, 1, 1).home()
LEVEL = Arm().go(A - SIDE + UP, 0.8, 1).go(A - SIDE, 0.6, 1).go(A, 0.6, 1).go(A + UP, 0.6, 1).home()


@pytest.mark.parametrize(
    ("instruction", "way"),
    [
        ("push the handle down", "down"),
        ("pull the handle up", "up"),
        ("lift the lever", "up"),
        ("slide the lamp upwards", "up"),
        ("roll up the towel", ""),
    ],
)
def test_a_hand_that_goes_along_contradicts_up_and_down(instruction, way):
    """A towel may be rolled up on a table."""
    reach = Arm().go(A - SIDE + UP, 0.8, 1).go(A - SIDE, 0.6, 1)
    level = reach.go(A, 0.6, 1).go(A - SIDE, 0.6, 1).home().plan(instruction)
    doubts = [doubt for step in level.steps for doubt in step.doubts]
    assert len(doubts) == len(level.steps) * bool(way)
    assert all(f"the hand does not go {way}" in doubt for doubt in doubts)
    assert not any(step.doubts for step in STEEP.plan(instruction).steps)


@pytest.mark.parametrize(
    "instruction", ["push the lamp to the left", "slide the lamp", "push the lamp towards the plate"]
)
def test_a_hand_that_only_goes_down_and_up_contradicts_a_push_along(instruction):
    assert all("does not go sideways" in step.doubts[0] for step in STEEP.plan(instruction).steps)
    assert not any(step.doubts for step in LEVEL.plan(instruction).steps)


@pytest.mark.parametrize(
    "instruction",
    ["press both buttons", "open the doors", "push three blocks to the left", "close all drawers"],
)
def test_one_touch_of_several_things_is_in_doubt(instruction):
    for arm in (STEEP, LEVEL):
        assert all(step.doubts for step in arm.plan(instruction).steps)


# An arm that does not move as it is told meets something, in any unit and at any rate.


SECONDS, MEETS_S = 5, 3.0


def drawer(fps, told, meets_s=MEETS_S, noise=0.0):
    """An arm goes straight on and shuts a drawer, which all but stops it from `meets_s` on.

    No turn, no stop and no picture shows where it meets the drawer.
    """
    n, rng = round(SECONDS * fps), np.random.default_rng(0)
    time = np.arange(n) / fps
    command = np.array([0.8, 0.5, -0.3]) * np.sin(np.pi * time / SECONDS)[:, None] * 0.2
    state, velocity = np.zeros((n, 3)), np.zeros(3)
    for i in range(1, n):
        share = 0.1 if time[i] >= meets_s else 1.0
        velocity += (command[i - 1] * share - velocity) * min(1, 8 / fps)
        state[i] = state[i - 1] + velocity / fps
    if told == "place":
        command = state + command / 4
    if told == "next state":
        command = np.vstack([state[1:], state[-1:]])
    if told == "late":
        command = np.vstack([state[:1], state[:1], state[:-2]])
    state += rng.normal(size=state.shape) * noise
    hand = np.ones((n, 1))
    rows, commands = (np.hstack([v, hand]).astype(np.float32) for v in (state, command))
    return Motions("close the drawer", rows, fps=fps, commands=commands)


def steps_of(recording):
    """Each step's first frame, name and doubts."""
    plan = planned(recording, layout="closed=low")
    return [(s.start, step.name, step.doubts) for step, s in zip(plan.steps, plan.segments, strict=True)]


@pytest.mark.parametrize("told", ["velocity", "place"])
@pytest.mark.parametrize("fps", [10, 30])
def test_a_recording_is_cut_where_the_arm_does_not_follow_and_its_words_stay_in_doubt(told, fps):
    first, second = steps_of(drawer(fps, told))
    assert (first[1], second[1]) == ("reach for the drawer", "close the drawer")
    assert first[2]
    assert second[2]
    assert abs(second[0] / fps - MEETS_S) <= 0.3


@pytest.mark.parametrize(
    "recording",
    [
        drawer(10, "velocity", meets_s=SECONDS),
        drawer(10, "velocity", meets_s=0.5),
        drawer(10, "next state"),
        drawer(10, "late"),
        drawer(30, "velocity", noise=0.003),
    ],
    ids=[
        "nothing is met",
        "it begins in the first second",
        "the command is the next state",
        "the command repeats the state",
        "badly followed",
    ],
)
def test_where_the_command_tells_nothing_there_is_no_cut(recording):
    ((_, name, doubts),) = steps_of(recording)
    assert name == "close the drawer"
    assert doubts


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


TAP = ((1.5, DOWN), (2, ALONG))


@pytest.mark.parametrize("share", [0.3, 0.4])
def test_a_touch_is_named_where_the_arm_turns_at_a_thing_and_is_held_back_there(share):
    first, second = steps_of(follow("turn off the tap", TAP, [(1.5, share)]))
    assert first == (0, "reach for the tap", ())
    assert second[1:] == ("turn off the tap", ())
    assert abs(second[0] - 15) <= 3


@pytest.mark.parametrize(
    ("legs", "hindrances"),
    [(TAP, []), (TAP, [(2.5, 0.4)]), (((1.5, -DOWN), (2, ALONG), (1, DOWN)), [(1.5, 0.4)])],
    ids=["nothing holds it back", "held back elsewhere", "up in the air"],
)
def test_one_sign_of_a_touch_names_nothing(legs, hindrances):
    assert all(doubts for _, _, doubts in steps_of(follow("turn off the tap", legs, hindrances)))


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
    "hindrances", [[], [(2.6, 0.3)], [(4.2, 0.3)]], ids=["nothing", "as it is taken", "on its way"]
)
def test_a_tool_that_is_not_seen_to_meet_anything_works_all_the_while(hindrances):
    steps = steps_of(follow("pick up the hook and pull the cup with it", HOOK, hindrances, TAKES))
    assert [name for _, name, _ in steps] == ["grasp the hook", "pull the cup with the hook"]
    assert not any(doubts for _, _, doubts in steps)
