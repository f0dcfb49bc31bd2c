"""Cuts where contact changes, on recordings made by hand and on real ones made harder."""

import numpy as np
import pytest
from support.arms import HOME, UP, A, Arm, B, C, Motions, names, near, planned, starts
from support.places import DATA
from support.robots import joints, made_by

from goalreel.datasets.source import Source
from goalreel.planners.kinematic.clauses import split_handovers
from goalreel.planners.kinematic.planner import KinematicPlanner
from goalreel.planners.kinematic.robot import infer_robot
from goalreel.types import Task


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


def test_a_goal_image_waits_for_a_slow_hand():
    """The arm does not go on with the thing, which would tell that it is held."""
    arm = Arm().take(A)
    start = arm.contacts[0]
    rows = np.array(arm.go(A, 2, 0.2).open().home().rows, np.float32)
    rows[start - 2 : start + 9, 3] = [1, 0.7, *np.linspace(0.5, 0.2, 9)]
    (first, _) = planned(Motions("put the cup in the box", rows)).segments[0].goal
    assert first >= start + 8


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
    assert [step.outcome for step in plan.steps] == ["done", "failed", "done", "done"]
    assert names(plan)[1] == "try to pick up the cup"
    assert [bool(step.doubts) for step in plan.steps] == [False, False, False, True]  # it may fall again
    assert near(starts(plan)[1:2], arm.contacts[:1])
    assert starts(plan)[2] < arm.contacts[1]  # it stayed behind when the hand rose, not when it opened


def test_a_hand_that_opens_halfway_between_two_grasps_holds_twice():
    arm = Arm().take(A).go(A + UP, 1.1, 0.4).go(A, 0.6, 0.8).go(A + 4 * UP, 1, 0.4).go(B, 0.6, 0.4).open()
    plan = arm.home().plan("put the cup in the box, then put the lid on the cup")
    assert near(starts(plan), [0, arm.contacts[0], 30, 41])


def test_without_a_height_a_hand_that_opens_elsewhere_had_lost_what_it_takes_again():
    arm = Arm().take(A).go(A + UP, 0.6, 0.4).go(C + UP, 1, 0.4).open().take(A).put(B).home()
    plan = arm.plan("put the cup in the box", dims=JOINTS)
    assert [step.outcome for step in plan.steps] == ["done", "failed", "done", "done"]
    assert starts(plan)[2] < arm.contacts[1]


@pytest.mark.parametrize(("dims", "is_told"), [(XYZ, True), (JOINTS, False)])
def test_a_height_tells_whether_a_thing_that_is_put_back_had_slipped(dims, is_told):
    plan = Arm().take(A).put(A).take(A).put(B).home().plan("put the block in the bowl", dims=dims)
    assert any("no height" in why for step in plan.steps for why in step.doubts) != is_told


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
    plan = Arm().take(A).open().home().plan("put the cup in the box")
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


HOME, THING, MIDDLE, BOX = (
    np.array(p) for p in ((0.3, 0, 0.3), (0.6, 0.2, 0), (0.5, -0.2, 0.25), (0.7, 0.1, 0))
)
OPEN, HELD, SHUT = 1.0, 0.4, 0.05
SIDES = ("left", "right")
ARM_JOINTS = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate", "gripper")

# (second, place, opening of the hand), between which an arm moves.
PICKS = ((0, HOME, OPEN), (1.5, THING, OPEN), (2, THING, HELD), (3, MIDDLE, HELD))
WAITS = ((0, HOME, OPEN), (3, HOME, OPEN), (4.2, MIDDLE, OPEN))
GIVES = (*PICKS, (5.3, MIDDLE, HELD), (5.7, MIDDLE, OPEN), (6.7, HOME, OPEN))
TAKES = (*WAITS, (4.7, MIDDLE, HELD), (6, MIDDLE, HELD), (7.5, BOX, HELD))
PUTS = (*TAKES, (8, BOX, HELD), (8.4, BOX, OPEN), (9.4, HOME, OPEN))
TAKES_BACK = (
    *(*GIVES, (8.2, BOX, OPEN), (8.7, BOX, HELD), (10, BOX, HELD)),
    *((11.2, THING, HELD), (12, THING, HELD), (12.4, THING, OPEN), (14, HOME, OPEN)),
)
GIVES_BACK = (*TAKES, (9.3, BOX, HELD), (9.7, BOX, OPEN), (11, HOME, OPEN))
MISSES = (*WAITS, (4.7, MIDDLE, SHUT), (8, MIDDLE, SHUT), (8.4, MIDDLE, OPEN), (9.4, HOME, OPEN))
MISSES_BRIEFLY = (*WAITS, (4.7, MIDDLE, SHUT), (5.1, MIDDLE, OPEN), (6.4, HOME, OPEN))
BOTH = (*PICKS[:3], (4, MIDDLE, HELD), (6, BOX, HELD), (7, BOX, HELD), (7.4, BOX, OPEN), (9, HOME, OPEN))
SETS_DOWN = (*PICKS, (5, BOX, HELD), (5.8, BOX, HELD), (6.2, BOX, OPEN), (7.2, HOME, OPEN))
LIFTS = ((6, MIDDLE, HELD), (8, BOX, HELD), (8.4, BOX, OPEN))
OTHER = (*WAITS[:2], (4, THING, OPEN), (4.5, THING, HELD), *LIFTS)


def rows(way, fps, rng):
    """An arm's six joints and gripper along a way; it stands still between equal places."""
    times, places, grips = (np.array(column, float) for column in zip(*way, strict=True))
    t = np.minimum(np.arange(round(14 * fps)) / fps, times[-1])
    i = np.clip(np.searchsorted(times, t, side="right") - 1, 0, len(times) - 2)
    share = (t - times[i]) / (times[i + 1] - times[i])
    share = (3 * share**2 - 2 * share**3)[:, None]
    places = places + rng.normal(0, 0.01, (1, 3))
    path = places[i] * (1 - share) + places[i + 1] * share
    grip = grips[i] * (1 - share[:, 0]) + grips[i + 1] * share[:, 0]
    return np.column_stack([joints(path), 0 * grip, grip])


def recordings(giver, taker, fps=20.0, first="right"):
    """Three recordings of two arms whose `first` one gives."""
    names = tuple(f"{side}_{name}" for side in SIDES for name in ARM_JOINTS)
    made = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        ways = (giver, taker) if first == "left" else (taker, giver)
        state = np.column_stack([rows(way, fps, rng) for way in ways]).astype(np.float32)
        made.append(made_by(state, state, names, names, fps))
    return made


def plan(made, instruction, granularity="event", **options):
    planner = KinematicPlanner({"it": made[0]}, granularity, infer_robot(made).layout, **options)
    return planner.plan([Task(id="it", instruction=instruction)])[0]


def doubts(found):
    return {doubt for step in found.steps for doubt in step.doubts}


@pytest.mark.parametrize("fps", [10.0, 20.0, 50.0])
@pytest.mark.parametrize(("first", "second"), [("left", "right"), ("right", "left")])
def test_a_handover_is_cut_named_and_shown_where_the_second_hand_holds_alone(fps, first, second):
    words = f"pick up the cube with the {first} arm and transfer it to the {second} arm"
    for takes, last in ((TAKES, "carry the cube"), (PUTS, "put down the cube")):
        found = plan(recordings(GIVES, takes, fps, first), words)
        assert [(step.name, step.auxiliary_text) for step in found.steps] == [
            ("pick up the cube", f"with the {first} hand"),
            (f"hand over the cube to the {second} hand", f"with the {first} hand"),
            (last, f"with the {second} hand"),
        ]
        assert found.steps[1].instruction == f"the cube is held in the {second} hand alone"
        assert not doubts(found)
        assert np.allclose([segment.end / fps for segment in found.segments[:-1]], (2.0, 5.5), atol=0.25)
        start, end = found.segments[1].goal
        assert 5.6 <= start / fps < end / fps <= 6.5


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("transfer the cube between the hands", ["hand over the cube", "put down the cube"]),
        ("hand over the cube, then put it in the box", ["hand over the cube", "put the cube in the box"]),
        (
            "with the right hand, pick up the cube, pass it to the left hand and place it in the box",
            ["hand over the cube to the left hand", "put the cube in the box"],
        ),
    ],
)
def test_words_of_a_handover_name_what_comes_before_and_after(words, names):
    found = plan(recordings(GIVES, PUTS), words, with_phases=True)
    assert [step.name for step in found.steps] == ["pick up the cube", *names]
    assert not doubts(found)
    assert names[0] in {phase.name for phase in found.phases}
    for granularity in ("subtask", "phase"):
        assert names[0] in {step.name for step in plan(recordings(GIVES, PUTS), words, granularity).steps}


def test_a_hand_may_close_before_the_other_has_let_go():
    soon = (*WAITS[:2], (5.8, THING, OPEN), (5.9, THING, HELD), *LIFTS[1:])
    words = "put the cube in the box, then put the lid on the box"
    found = plan(recordings(SETS_DOWN, soon), words, with_phases=True)
    assert near(starts(found), [0, 39, 121])


def test_a_thing_goes_there_and_back():
    made = recordings(TAKES_BACK, GIVES_BACK)
    words = "pick up the cup, hand it over to the left hand, hand it over to the right hand and put it down"
    found = plan(made, words)
    assert [step.auxiliary_text.split()[2] for step in found.steps] == ["right", "right", "left", "right"]
    assert [step.name for step in found.steps][1:3] == [f"hand over the cup to the {s} hand" for s in SIDES]
    assert not doubts(found)
    once = plan(made, "pick up the cup and hand it over to the left hand")
    assert any("2 times, and the words say once" in doubt for doubt in doubts(once))
    assert [s.end for s in once.segments] == [s.end for s in found.segments]


@pytest.mark.parametrize(
    ("words", "doubt"),
    [
        ("put the cube in the box", "two hands hold something at once"),
        ("hand over the cube to the right hand and put it in the box", "the right hand gives"),
        ("put the cup in the box, then hand over the cube", "when the words say"),
    ],
)
def test_a_handover_that_the_words_do_not_ask_for_is_cut_and_in_doubt(words, doubt):
    found = plan(recordings(GIVES, PUTS), words)
    assert any(abs(segment.end / 20 - 5.5) < 0.25 for segment in found.segments)
    assert all(any(doubt in why for why in step.doubts) for step in found.steps)
    assert not found.phases


@pytest.mark.parametrize("fps", [10.0, 50.0])
@pytest.mark.parametrize(
    ("first", "second"),
    [(GIVES, MISSES), (GIVES, MISSES_BRIEFLY), (BOTH, BOTH), (SETS_DOWN, OTHER), (BOTH, GIVES)],
)
def test_hands_that_miss_lift_together_or_hold_two_things_hand_nothing_over(first, second, fps):
    found = plan(recordings(first, second, fps), "pick up the cube and hand it over")
    assert all(any("the words say once" in why for why in step.doubts) for step in found.steps)
    assert not any("hand over" in step.name for step in found.steps)


@pytest.mark.parametrize(
    "words", ["hand it to the person", "move the block in hand", "transfer the cube", "move the left arm"]
)
def test_words_that_only_sound_like_a_handover_ask_for_none(words):
    assert split_handovers(words) == (words, [])
