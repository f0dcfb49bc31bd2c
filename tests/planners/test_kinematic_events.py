"""Cuts where contact changes, on recordings made by hand and on real ones made harder."""

import numpy as np
import pytest
from support.arms import HOME, UP, A, Arm, B, C, Motions, names, near, planned, starts
from support.places import DATA

from goalreel.datasets.source import Source


def test_each_closing_and_each_opening_but_the_last_is_a_cut():
    arm = Arm().take(A).put(B).take(C).put(A).home()
    plan = arm.plan("put the cup in the box, then put the lid on the cup")
    cup, lid = ["pick up the cup", "put the cup in the box"], ["pick up the lid", "put the lid on the cup"]
    assert names(plan) == [*cup, *lid]
    assert near(starts(plan), [0, *arm.contacts[:3]])


@pytest.mark.parametrize(("granularity", "fps"), [("event", 10.0), ("event", 5.0), ("phase", 10.0)])
def test_a_goal_image_comes_from_where_its_claim_is_true(granularity, fps):
    """A thing is held from contact on until the hand opens, and lies in its place once the hand is open."""
    arm = Arm().take(A).put(B).take(C).put(A).home()
    recording = Motions(
        "put the cup in the box, then put the lid on the cup", np.array(arm.rows, np.float32), fps=fps
    )
    plan = planned(recording, granularity)
    goals = [s.goal for s in plan.segments if s.goal]
    grasped, let_go, grasped_again, _ = arm.contacts
    (held, opened), (put, taken), (held_again, opened_again) = goals[:3]
    assert grasped < held < opened <= let_go + 4
    assert let_go <= put < taken <= grasped_again
    assert grasped_again < held_again < opened_again
    assert (opened - held, taken - put) == (round(0.5 * fps), round(fps)), "in seconds, whatever the rate"
    assert plan.segments[-1].goal is None, "the last one: its own end"


def test_the_last_retreat_is_a_step_where_it_is_asked_for():
    arm = Arm().take(A).put(B).home()
    recording = Motions("put the cup in the box", np.array(arm.rows, np.float32))
    plan = planned(recording, last_retreat=True)
    assert names(plan) == ["pick up the cup", "put the cup in the box", "retreat from the cup"]
    assert near(starts(plan), [0, *arm.contacts])
    assert near(starts(arm.plan(recording.instruction)), [0, arm.contacts[0]])


def test_words_throw_no_cut_away():
    """Neither "fold" nor a sentence without a known verb says anything of grasping."""
    arm = Arm().take(A).put(B).home()
    for instruction, said in (
        ("fold the towel", ["grasp the towel", "fold the towel"]),
        ("wipe the table", ["close the hand", "wipe the table"]),
        ("do the laundry", ["close the hand", "do the laundry"]),
        ("clear the bowl", ["pick up something", "clear the bowl"]),
        ("pick up the cup", ["pick up the cup", "put down the cup"]),
        ("put it in the box", ["close the hand", "put it in the box"]),
        ("抓起杯子", ["close the hand", "抓起杯子"]),
    ):
        plan = arm.plan(instruction)
        assert names(plan) == said
        assert near(starts(plan), [0, arm.contacts[0]])


def squeeze(arm, to, seconds, grip):
    """Go on closing a little with every frame."""
    first = len(arm.rows)
    arm.go(to, seconds, grip)
    for i, row in enumerate(arm.rows[first:], 1):
        row[3] = arm.rows[first - 1][3] + (grip - arm.rows[first - 1][3]) * i / (len(arm.rows) - first)
    return arm


XYZ, JOINTS = ("x", "y", "z", "gripper"), ("a.pos", "b.pos", "c.pos", "gripper.pos")


@pytest.mark.parametrize("dims", [XYZ, JOINTS])
def test_a_hold_begins_before_the_last_squeeze(dims):
    """The hand closes fast, stands, and presses a soft thing together for two seconds."""
    arm = squeeze(Arm().take(A), A, 2, 0.1).put(B, 0.1).home()
    plan = arm.plan("put the sponge in the box", dims=dims)
    assert near(starts(plan), [0, arm.contacts[0]])


def test_a_hold_begins_with_the_lift():
    """The fingers sink in at full speed while the arm rises already."""
    arm = Arm().go(A + UP, 1, 1).go(A, 0.6, 1)
    arm.contacts.append(len(arm.rows))
    squeeze(squeeze(arm, A, 0.6, 0.5), A + 2 * UP, 1.2, 0).go(B + UP, 1, 0).go(B, 0.6, 0).open().home()
    plan = arm.plan("put the sponge in the box")
    assert 4 <= starts(plan)[1] - arm.contacts[0] <= 10


def test_a_hand_that_is_stopped_holds_although_other_joints_close_later():
    """The command says since when: fingers around a thing give way, and close on as it moves."""
    arm = Arm().take(A)
    start = arm.contacts[0]
    squeeze(squeeze(arm, A, 0.5, 0.8), A + UP, 0.6, 0.2).go(B + UP, 1, 0.2).go(B, 0.6, 0.2).open().home()
    state = np.array(arm.rows, np.float32)
    state[start : start + 5, 3] = 1 - 0.1 * np.arange(5)
    told = np.where(np.arange(len(state)) < start, 1.0, -1.0)
    told[arm.contacts[1] :] = 1.0
    action = np.column_stack([state[:, :3], told]).astype(np.float32)
    plan = planned(Motions("put the cup in the box", state, XYZ, XYZ, commands=action))
    assert near(starts(plan), [0, start + 5])


def test_what_is_taken_again_where_it_was_had_slipped():
    arm = Arm().take(A).go(A + UP, 0.6, 0.4).go(B + UP, 1, 0.4).open().take(A).put(B).home()
    plan = arm.plan("put the cup in the box")
    outcomes = [step.outcome for step in plan.steps]
    assert outcomes == ["done", "failed", "done", "done"]
    assert names(plan)[1] == "try to pick up the cup"
    assert [bool(step.doubts) for step in plan.steps] == [False, False, False, True]  # it may fall again
    assert near(starts(plan)[1:2], arm.contacts[:1])
    assert starts(plan)[2] < arm.contacts[1]  # it stayed behind when the hand rose, not when it opened


def drop(arm, b):
    """Carry it above `b` and let it fall, as into a box."""
    return arm.go(arm.rows[-1][:3] + UP, 0.6, 0.4).go(b + UP, 1, 0.4).open()


@pytest.mark.parametrize("dims", [XYZ, JOINTS])
@pytest.mark.parametrize(
    "arm",
    [
        Arm().take(A).put(B).take(A).put(B).take(A).put(B).take(A).put(B).home(),
        Arm().take(A).put(A).take(A).put(B).home(),
        Arm().take(A).put(B).take(A).put(B + UP / 3).take(A).put(B + UP / 1.5).home(),
        Arm().take(A).put(B).take(B).put(A).take(A).put(B).home(),
        drop(drop(drop(Arm().take(A), B).take(A), B).take(A), B).home(),
    ],
    ids=["the same again and again", "put back", "stacked", "there and back", "dropped into a box"],
)
def test_what_was_carried_and_let_go_is_no_slip(arm, dims):
    """Nothing shows that it stayed behind, although the next grasp is at the same place."""
    plan = arm.plan("put the block in the bowl", dims=dims)
    assert all(step.outcome == "done" for step in plan.steps)
    assert near(starts(plan), [0, *arm.contacts[:-1]])


def test_a_hand_that_closes_in_passing_or_relaxes_at_the_end_grasps_nothing():
    """Half closed, in passing, on the way there; and for seconds on the way home."""
    arm = Arm().go(A + UP, 0.5, 1).go(B + UP, 0.5, 0.5).go(A + UP, 0.5, 1).take(A).put(B)
    arm.home().go(HOME + UP, 1, 0.6).go(HOME, 1, 0.6)
    for granularity, grasps in (("event", "pick up"), ("phase", "grasp")):
        plan = arm.plan("put the cup in the box", granularity)
        assert sum(name.startswith(grasps) for name in names(plan)) == 1
        assert all(step.outcome == "done" for step in plan.steps)


def test_what_the_hand_never_lets_go_is_not_put():
    plan = Arm().take(A).go(A + UP, 0.6, 0.4).go(B + UP, 1, 0.4).plan("put the cup in the box")
    assert names(plan) == ["pick up the cup", "carry the cup"]
    assert plan.steps[1].instruction == "the cup is held in the gripper"


def test_a_single_grasp_that_carried_nothing_is_a_try():
    arm = Arm().take(A).open().home()
    plan = arm.plan("put the cup in the box")
    assert [step.outcome for step in plan.steps] == ["done", "failed"]
    assert not any("box" in step.name or "box" in step.instruction for step in plan.steps)


@pytest.mark.parametrize(
    "instruction", ["press the button", "push the cup to the left", "wipe the table", "fold the towel"]
)
@pytest.mark.parametrize(
    "arm",
    [
        Arm().go(A + UP, 1, 1).go(A, 0.6, 1).close(0.2).open().home(),
        Arm().go(A + UP, 1, 1).go(A, 0.6, 1).go(A, 0.3, 1).close(0.2).go(A, 2, 0.2).open().home(),
        Arm().go(HOME, 0.5, 0.2).go(A, 2, 0.2).go(B, 1, 0.2).home(0.2),
        Arm().go(A + UP, 1, 0.2).go(A, 0.6, 0.2).go(B, 1, 0.2).home(0.2).open(),
    ],
    ids=["a finger's press", "a long press", "closed in place at the start", "closed on the way"],
)
def test_a_hand_that_changes_its_shape_grasps_nothing(arm, instruction):
    """It presses, or is closed before it goes to push: that is no grasp, and no try in vain."""
    plan = arm.plan(instruction)
    assert names(plan)[-1] == instruction
    assert all(name.startswith("reach for") for name in names(plan)[:-1])
    assert all(step.outcome == "done" for step in plan.steps)


@pytest.mark.parametrize("index", [2, 3])
def test_the_hand_of_many_joints_relaxes_without_a_grasp(index):
    """The recordings end while it does; here it stays so for two seconds more."""
    episode = Source.open(DATA / "real/g1_inspire").episode(index)
    state = np.concatenate([episode.state, np.repeat(episode.state[-1:], 60, axis=0)])
    plan = planned(Motions(episode.instruction, state, episode.state_names, fps=episode.fps), "phase")
    assert sum(name.startswith("grasp") for name in names(plan)) == 1
