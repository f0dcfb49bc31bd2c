"""Contact without a closing hand: it has words only where exactly one contact fits each clause."""

import numpy as np
import pytest
from support.arms import HOME, UP, A, Arm, B, C, Motions

from goalreel.planners.kinematic import KinematicPlanner
from goalreel.planners.kinematic.steps import StepOutcome
from goalreel.types import Task


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


def said(plan) -> list[tuple[str, StepOutcome]]:
    return [(step.name, step.outcome) for step in plan.steps]


def starts(plan):
    return [s.start for s in plan.segments]


def near(found, true, slack=4):
    return len(found) == len(true) and all(abs(a - b) <= slack for a, b in zip(found, true, strict=True))


@pytest.mark.parametrize("grip", [1.0, 0.2])
@pytest.mark.parametrize("ends", ["away", "there"])
def test_a_push_begins_where_the_hand_is_at_the_thing(grip, ends):
    """Whatever the shape of the hand, and whether it leaves or not; no grasp is claimed."""
    for instruction, thing in (("open the drawer", "the drawer"), ("push the cup to the left", "the cup")):
        arm = push(Arm(), A, B, grip)
        plan = (arm.home(grip) if ends == "away" else arm).plan(instruction)
        assert said(plan) == [(f"reach for {thing}", "done"), (instruction, "done")]
        assert not any(step.doubts for step in plan.steps)
        assert near(starts(plan), [0, arm.contacts[0]])


def test_a_press_begins_shortly_before_the_hand_turns_back():
    arm = press(Arm(), A).home()
    plan = arm.plan("press the button")
    assert said(plan) == [("reach for the button", "done"), ("press the button", "done")]
    assert near(starts(plan), [0, arm.contacts[0] - 5])
    assert plan.steps[0].doubts == ()


def test_a_hand_that_stays_where_it_arrives_may_have_pressed_nothing():
    plan = press(Arm(), A).go(A, 1, 1).plan("press the button")
    assert said(plan) == [("press the button", "done")]
    assert plan.steps[0].doubts


def test_each_of_two_touches_has_its_clause():
    arm = push(push(Arm(), A, B).go(B + UP, 0.6, 1), C, C + (A - B) / 2).home()
    plan = arm.plan("open the drawer, then push the cup to the left")
    assert [name for name, _ in said(plan)] == [
        "reach for the drawer",
        "open the drawer",
        "reach for the cup",
        "push the cup to the left",
    ]
    assert near(starts(plan), [0, *arm.contacts[:3]])
    assert not any(step.doubts for step in plan.steps)
    assert len(arm.plan("open the drawer, then push the cup to the left", "subtask").steps) == 2


def test_a_touch_before_and_after_a_grasp():
    after = push(Arm().take(A).put(B).go(B + UP, 0.6, 1), C, C + (A - B) / 2).home()
    plan = after.plan("put the cup in the drawer, then close the drawer")
    assert [name for name, _ in said(plan)] == [
        "pick up the cup",
        "put the cup in the drawer",
        "reach for the drawer",
        "close the drawer",
    ]
    assert near(starts(plan), [0, *after.contacts[:3]])
    assert not any(step.doubts for step in plan.steps)
    before = push(Arm(), C, C + (A - B) / 2).go(B + UP, 1, 1).take(A).put(B).home()
    plan = before.plan("open the drawer, then put the cup in the drawer")
    assert [name for name, _ in said(plan)][1:3] == ["open the drawer", "pick up the cup"]
    assert near(starts(plan), [0, *before.contacts[:3]])
    assert not any(step.doubts for step in plan.steps)


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
    assert not any(name.startswith(("reach", "grasp")) for name, _ in said(plan))


def test_without_a_height_no_touch_is_seen():
    plan = push(Arm(), A, B).home().plan("open the drawer", dims=("a.pos", "b.pos", "c.pos", "gripper.pos"))
    assert said(plan) == [("open the drawer", "done")]
    assert plan.steps[0].doubts


def test_a_pull_may_be_a_touch_and_a_push_a_grasp_that_drags():
    for instruction in ("pull the drawer", "pull the drawer open by the handle", "turn the knob"):
        plan = push(Arm(), A, B).home().plan(instruction)
        assert said(plan)[0][0].startswith("reach for the ")
        assert not any(step.doubts for step in plan.steps)
    arm = Arm().go(A + UP, 1, 1).go(A, 0.6, 1).close().go(B, 1, 0.4).open().home()
    plan = arm.plan("push the cup to the left")
    assert [name for name, _ in said(plan)] == ["reach for the cup", "push the cup to the left"]
    assert not any(step.doubts for step in plan.steps)


@pytest.mark.parametrize("told", [True, False])
def test_a_hand_that_stands_presses_if_its_command_goes_on(told):
    """A place that is commanded lies ahead of the hand as long as something holds it back."""
    arm = press(Arm(), A).go(A, 1, 1)
    state = np.array(arm.rows, np.float32)
    ahead = np.vstack([state[2:], np.repeat(state[-1:], 2, 0)])
    if told:
        ahead[arm.contacts[0] :, 2] -= 0.06
    recording = Motions("press the button", state, commands=ahead)
    plan = KinematicPlanner({"it": recording}).plan([Task(id="it", instruction="press the button")])[0]
    assert [step.name for step in plan.steps] == ["reach for the button", "press the button"][-1 - told :]
    assert bool(plan.steps[-1].doubts) is not told


def test_a_handle_is_reached_where_the_hand_is_first_low():
    """It comes down forwards and pulls back slowly, so that it neither turns nor stands."""
    arm = Arm().go(A + 2 * UP, 1, 1)
    arm.go(A + UP / 2, 0.5, 1).go(A, 0.5, 1)
    arm.contacts.append(len(arm.rows))
    plan = arm.go(B, 1, 1).plan("open the drawer")
    assert near(starts(plan), [0, arm.contacts[0]])


def test_what_is_lifted_is_met_where_the_hand_turns_upwards_and_the_words_stay_in_doubt():
    """The hand rises with it, so that a rise is no end. But nothing shows that the thing came along."""
    arm = press(Arm(), A)
    for height in (0.6, 0.1, 0.8, 0.2, 1.5):  # it loses the thing twice, and takes it again
        arm.go(A + (B - A) * height / 8 + UP * height, 0.8, 1)
    for instruction, name in (
        ("lift the handle", "lift the handle"),
        ("pull the lever up", "pull the lever up"),
        ("pull up the blind", "pull the blind up"),
    ):
        plan = arm.plan(instruction)
        assert said(plan)[1:] == [(name, "done")]
        assert near(starts(plan), [0, arm.contacts[0]])
        assert all(step.doubts for step in plan.steps)
    assert len(Arm().go(A + UP, 1, 1).plan("lift the handle").steps) == 1


def test_one_grasp_explains_a_pull_or_a_fold():
    arm = Arm().take(A).put(B).home()
    for instruction in ("fold the towel", "pull the tissue out of the box"):
        assert not any(step.doubts for step in arm.plan(instruction).steps)
    twice = Arm().take(A).put(B).take(A).put(B).home()
    assert all(step.doubts for step in twice.plan("fold the towel").steps)


ALONG = np.array([0.15, 0, 0])


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
    reach = Arm().go(A - ALONG + UP, 0.8, 1).go(A - ALONG, 0.6, 1)
    level = reach.go(A, 0.6, 1).go(A - ALONG, 0.6, 1).home().plan(instruction)
    doubts = [doubt for step in level.steps for doubt in step.doubts]
    assert len(doubts) == len(level.steps) * bool(way)
    assert all(f"the hand does not go {way}" in doubt for doubt in doubts)
    assert not any(step.doubts for step in STEEP.plan(instruction).steps)


STEEP = Arm().go(A + UP, 1, 1).go(A, 0.6, 1).go(A + UP, 1, 1).home()


@pytest.mark.parametrize(
    "instruction", ["push the lamp to the left", "slide the lamp", "push the lamp towards the plate"]
)
def test_a_hand_that_only_goes_down_and_up_contradicts_a_push_along(instruction):
    assert all("does not go sideways" in step.doubts[0] for step in STEEP.plan(instruction).steps)
    along = Arm().go(A - ALONG + UP, 0.8, 1).go(A - ALONG, 0.6, 1).go(A, 0.6, 1).go(A + UP, 0.6, 1).home()
    assert not any(step.doubts for step in along.plan(instruction).steps)


@pytest.mark.parametrize(
    "instruction",
    ["press both buttons", "open the doors", "push three blocks to the left", "close all drawers"],
)
def test_one_touch_of_several_things_is_in_doubt(instruction):
    along = Arm().go(A - ALONG + UP, 0.8, 1).go(A - ALONG, 0.6, 1).go(A, 0.6, 1).go(A + UP, 0.6, 1).home()
    for arm in (STEEP, along):
        assert all(step.doubts for step in arm.plan(instruction).steps)
