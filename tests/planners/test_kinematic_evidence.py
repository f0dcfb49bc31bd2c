"""Words are more than a guess only where instruction and motion explain each other."""

from dataclasses import replace

import numpy as np
import pytest
from support.arms import UP, A, Arm, B, C, Motions, planned, sentences

from goalreel.planners.kinematic.description import CLOSES, OPENS


def brings(grip):
    """A hand that is closed on a thing from the start, and sets it down."""
    arm = Arm()
    arm.rows[0][3] = grip
    return arm.go(A, 1, grip).open().go(B, 1, 1.0).close().go(A, 1, 0.4)


ONCE = Arm().take(A).put(B).home()
TWICE = Arm().take(A).put(B).take(C).put(A).home()
ARMS = {
    "ONCE": ONCE,
    "TWICE": TWICE,
    "SLIP": Arm().take(A).go(A + UP, 0.6, 0.4).go(B + UP, 1, 0.4).open().take(A).put(B).home(),
    "LIFT": Arm().take(A).go(A + UP, 0.6, 0.4).go(A, 0.6, 0.4).open().home(),
    "DRAG": Arm().take(A).go(B, 1.5, 0.4).open().home(),
    "AGAIN": Arm().take(A).put(B).take(B).put(C).home(),
    "BRINGS": brings(0.4).open().home(),
    "BRINGS_NARROW": brings(0.1).open().home(),
}


def doubts(plan) -> tuple[str, ...]:
    """The doubts of a plan's first step, which are those of every step; a later one may have more."""
    first = plan.steps[0].doubts
    assert all(set(first) <= set(step.doubts) for step in plan.steps)
    return first


@pytest.mark.parametrize(("arm", "instruction", "reason"), sentences("doubted"))
def test_what_the_motion_does_not_explain_is_in_doubt(arm, instruction, reason):
    assert any(reason in doubt for doubt in doubts(plan_told(ARMS[arm], instruction)))


@pytest.mark.parametrize(("instruction", "first", "second"), sentences("one of several"))
def test_one_of_several_things_is_named_as_one(instruction, first, second):
    plan = TWICE.plan(instruction)
    assert doubts(plan) == ()
    assert [step.name for step in plan.steps[:2]] == [first, second]


@pytest.mark.parametrize(
    ("arm", "instruction", "reason"),
    [row for row in sentences("doubted") if row[0] in ("SLIP", "AGAIN", "LIFT", "BRINGS")],
)
def test_places_are_compared_without_a_height_too(arm, instruction, reason):
    turned = np.array([[0.6, 0.5, -0.62], [-0.3, 0.86, 0.4], [0.74, -0.06, 0.67]])
    state = np.array(ARMS[arm].rows, np.float32)
    state[:, :3] = state[:, :3] @ turned.T
    recording = Motions(instruction, state, ("shoulder", "elbow", "wrist", "gripper"))
    assert any(reason in doubt for doubt in doubts(planned(recording, layout="closed=low")))


@pytest.mark.parametrize(
    ("instruction", "tool"),
    [
        ("pick up the hammer and hammer the nail", "hammer"),
        ("pick up the stick and push the thermos with it", "stick"),
        ("push the thermos with the stick", "stick"),
        ("wipe the table with the cloth", "cloth"),
        ("pick up the lid and close the box", "lid"),
    ],
)
def test_the_tool_that_the_words_name_is_taken_and_what_is_done_with_it_takes_time(instruction, tool):
    first, last = plan_told(ONCE, instruction).steps
    assert (first.name, first.doubts, last.doubts) == (f"grasp the {tool}", (), ())
    first, last = plan_told(Arm().take(A).go(A + UP, 0.6, 0.4), instruction).steps
    assert not first.doubts
    assert "does not show" in last.doubts[0]
    assert all(step.doubts for step in plan_told(TWICE, instruction).steps)


def test_a_hand_that_closes_while_the_arm_goes_down_to_a_thing_takes_it():
    near = Arm()
    near.rows = [[*(A + UP * (1 - t)), 1 - 0.6 * t] for t in np.linspace(0, 1, 11)]
    plan = plan_told(near.go(A, 0.3, 0.4).go(A + UP, 1, 0.4).go(B + UP, 1, 0.4), "put the cup in the box")
    assert [(step.name, len(step.doubts)) for step in plan.steps] == [
        ("pick up the cup", 0),
        ("carry the cup", 0),
    ]


def test_what_the_hand_does_is_said_where_the_words_are_in_doubt():
    plan = TWICE.plan("wipe the table")
    free, held = "the arm moves with the hand open", "the arm moves with the hand closed"
    assert [phase.name for phase in plan.phases] == [*(free, CLOSES, held, OPENS) * 2, free]
    assert (plan.phases[0].segment.start, plan.phases[-1].segment.end) == (0, len(TWICE.rows))
    closings = [phase.segment for phase in plan.phases if phase.name == CLOSES]
    for contact, closing in zip(TWICE.contacts[::2], closings, strict=True):
        assert abs(closing.start - contact) <= 2
        assert contact < closing.end <= contact + 5
    assert TWICE.plan("put the two cups in the box").phases == (), "words that are not in doubt say more"


@pytest.mark.parametrize("noise", [0, 1e-5, 1e-3])
@pytest.mark.parametrize("instruction", ["put the cup in the box", "pick up the cup", "fold the towel"])
def test_an_arm_that_stands_still_moves_nothing(noise, instruction):
    """Its own noise looks like a way, as far as its arm ever goes."""
    state = np.array(ONCE.rows, np.float32)
    state[:, :3] = A + noise * np.random.default_rng(0).normal(size=(len(state), 3))
    plan = planned(Motions(instruction, state), layout="closed=low")
    assert all(any("arm is not seen to move" in doubt for doubt in step.doubts) for step in plan.steps)


def plan_told(arm: Arm, instruction: str, granularity="event"):
    """The plan of a recording of which a person says which end is closed."""
    return planned(Motions(instruction, np.array(arm.rows, np.float32)), granularity, "closed=low")


def commanded(arm: Arm, squeeze: float) -> Motions:
    """A recording with commands that close further than the hand does where it holds something."""
    state = np.array(arm.rows, np.float32)
    action = state.copy()
    action[:, 3] -= squeeze * (state[:, 3] < 0.9)
    names = ("x", "y", "z", "gripper")
    recording = Motions("put the cup in the box", state, names, names)
    return replace(recording, commands=action)


def test_a_command_that_squeezes_tells_which_end_is_closed():
    assert doubts(planned(commanded(ONCE, 0.2))) == ()
    closed_first = commanded(brings(0.4), 0.2)
    found = planned(closed_first)
    assert found.segments == planned(closed_first, layout="closed=low").segments
    assert not any("which end" in doubt for doubt in doubts(found))


def test_an_end_that_nothing_tells_is_in_doubt_until_a_person_says_it():
    once = Arm().take(A).home(0.4)
    reasons = doubts(once.plan("put the cup in the box"))
    assert any("which end of the gripper is closed is not known" in doubt for doubt in reasons)
    recording = Motions("pick up the cup", np.array(once.rows, np.float32))
    assert not any("which end" in doubt for doubt in doubts(planned(recording, layout="closed=low")))


def test_two_hands_that_move_are_in_doubt_and_one_that_rests_is_not():
    state = np.array(ONCE.rows, np.float32)
    other = np.linspace(1, 0, len(state), dtype=np.float32)[:, None]
    names = ("x", "y", "z", "left_gripper", "right_gripper")
    both = Motions("put the cup in the box", np.hstack([state, other]), names)
    assert any("two hands" in doubt for doubt in doubts(planned(both)))
    rests = replace(both, state=np.hstack([state, 0.1 * other]))
    assert doubts(planned(rests)) == ()


@pytest.mark.parametrize(("arm", "instruction"), sentences("explained"))
def test_words_that_the_motion_explains_are_not_in_doubt(arm, instruction):
    assert doubts(ARMS[arm].plan(instruction)) == ()


@pytest.mark.parametrize("ending", [" and return to the home position", ". Then move back to the start."])
def test_a_last_request_to_go_home_needs_no_contact(ending):
    instruction = f"put the pear in the plate{ending}"
    for arm in (ONCE, Arm().take(A).put(B)):  # no name says that the arm goes there
        plan = plan_told(arm, instruction)
        assert {step.doubts for step in plan.steps} == {()}
        assert [step.name for step in plan.steps] == ["pick up the pear", "put the pear in the plate"]


def test_without_an_arm_or_a_gripper_that_moves_nothing_is_explained():
    recording = Motions("put the cup in the box", np.array(ONCE.rows, np.float32)[:, 3:], ("gripper",))
    assert any("arm is not seen to move" in doubt for doubt in doubts(planned(recording)))
    still = Arm().go(A, 1, 1.0).go(B, 1, 1.0).plan("put the cup in the box")
    assert any("no gripper" in doubt for doubt in doubts(still))
