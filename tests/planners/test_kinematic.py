"""The kinematic planner on recordings made by hand, whose cuts are known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from support.arms import HOME, UP, Motions, names, planned, starts
from support.places import DATA, SHARED

from goalreel.errors import InputError
from goalreel.planners.kinematic.planner import KinematicPlanner, Layout
from goalreel.types import Plan, Task
from goalreel_lab.real_labels import boundary_score, cuts_of, kinematic_plans, read_labels

XYZ = ("x", "y", "z", "gripper")


def fake(instruction, state, **more):
    return Motions(instruction, np.asarray(state, np.float32), **more)


def places(count, fps=10.0, slow=1.0, seed=0):
    """State x, y, z, gripper (1 open) of `count` pick-and-places, and where each but the first begins."""
    rng = np.random.default_rng(seed)
    rows, cuts = [[*HOME, 1.0]], []

    def go(to, seconds, grip):
        here = np.array(rows[-1][:3])
        for t in np.linspace(0, 1, max(2, round(seconds * slow * fps)) + 1)[1:]:
            rows.append([*(here + (np.asarray(to) - here) * t), grip])

    for k in range(count):
        if k:
            cuts.append(len(rows))
        a, b = (np.array([*rng.uniform((0.4, -0.3), (0.7, 0.3)), 0.02]) for _ in range(2))
        for to, seconds, grip in ((a + UP, 1.0, 1.0), (a, 0.6, 1.0), (a, 0.5, 0.4), (a + UP, 0.6, 0.4)):
            go(to, seconds, grip)
        for to, seconds, grip in ((b + UP, 1.2, 0.4), (b, 0.6, 0.4), (b, 0.5, 1.0), (b + UP, 0.5, 1.0)):
            go(to, seconds, grip)
        go(HOME, 0.8, 1.0)
    return np.array(rows), cuts


def plan(recording, granularity="subtask", layout=None):
    return planned(recording, granularity, layout)


THREE = "put the red block in the bowl, then stack the blue block on the green block, then close the lid"
PUTS = "put the red cup in the box, then put the blue cup in the box, then put the pink cup in the box"


def assert_covers(p, frames):
    assert p.segments[0].start == 0
    assert p.segments[-1].end == frames
    assert all(a.end == b.start for a, b in zip(p.segments, p.segments[1:], strict=False))


@pytest.mark.parametrize(("fps", "slow"), [(4.0, 0.7), (4.0, 2.0), (10.0, 1.0), (30.0, 2.0), (50.0, 0.7)])
def test_one_clause_a_grasp(fps, slow):
    state, cuts = places(3, fps, slow)
    p = plan(fake(PUTS, state, fps=fps))
    assert names(p) == [f"put the {c} cup in the box" for c in ("red", "blue", "pink")]
    assert np.abs(np.array(starts(p)[1:]) - cuts).max() <= 0.5 * fps
    assert_covers(p, len(state))


def hand_of_joints(state):
    rng = np.random.default_rng(0)
    fingers = state[:, 3:] * rng.uniform(0.7, 1.0, 5) + rng.normal(0, 0.003, (len(state), 5))
    joints = ("x", "y", "z", *(f"kRightHand{f}" for f in ("Pinky", "Ring", "Middle", "Index", "Thumb")))
    return fake(PUTS, np.concatenate([state[:, :3], np.clip(fingers, 0, 1)], axis=1), state_names=joints)


def two_hands(state):
    noise = np.random.default_rng(0).normal(0, 1e-4, state.shape)
    idle = np.tile([0.1, 0.2, 0.3, 0.9], (len(state), 1)) + noise
    sides = tuple(f"{side}_{name}" for side in ("left", "right") for name in XYZ)
    return fake(PUTS, np.concatenate([idle, state], axis=1), state_names=sides)


def commanded(state, action, names, action_names):
    return fake(PUTS, state, state_names=names, action_names=action_names, commands=action.astype(np.float32))


READINGS = {
    "closed at the low end": lambda s: fake(PUTS, s),
    "closed at the high end": lambda s: fake(PUTS, s * [1, 1, 1, -1] + [0, 0, 0, 1]),
    "unnamed dimensions, found by behaviour": lambda s: fake(PUTS, s[:, [3, 2, 0, 1]], state_names=()),
    "the gripper in the action only": lambda s: commanded(s[:, :3], s[:, 3:], XYZ[:3], ("gripper",)),
    "actions only": lambda s: commanded(s[:, :0], s, (), XYZ),
    "a gripper that stands still in the state": lambda s: commanded(
        np.column_stack([s[:, :3], np.ones(len(s))]), s, XYZ, XYZ
    ),
    "of two hands the one that moves": two_hands,
    "a hand of many joints": hand_of_joints,
    "mirrored fingers": lambda s: fake(
        PUTS, np.concatenate([s, -s[:, 3:]], axis=1), state_names=(*XYZ, "gripper")
    ),
}


@pytest.mark.parametrize("reading", READINGS)
def test_the_gripper_is_found_wherever_it_is(reading):
    state, cuts = places(3)
    assert np.abs(np.array(starts(plan(READINGS[reading](state)))[1:]) - cuts).max() <= 5


def test_a_recording_that_starts_closed_needs_to_be_told():
    state, cuts = places(3)
    state[:8, 3] = 0.4
    told = plan(fake(PUTS, state), layout=Layout(closed="low"))
    assert np.abs(np.array(starts(told)[1:]) - cuts).max() <= 5


def test_a_layout_overrides_what_would_be_found():
    state, cuts = places(3)
    decoy = np.concatenate([np.sign(np.sin(np.arange(len(state)) / 5))[:, None], state], axis=1)
    recording = fake(PUTS, decoy, state_names=("gripper", "a", "b", "c", "d"))
    wrong = plan(recording)
    right = plan(recording, layout=Layout.parse("gripper=4,position=1:4,vertical=3,closed=low"))
    assert np.abs(np.array(starts(right)[1:]) - cuts).max() <= 5
    assert starts(wrong) != starts(right)


def test_several_things_in_one_clause_are_counted():
    state, _ = places(3)
    p = plan(fake("sort the blocks by colour", state))
    assert names(p) == [f"sort the blocks by colour ({k} of 3)" for k in (1, 2, 3)]
    assert p.steps[2].instruction == "the blocks have been sorted by colour"
    assert p.steps[0].instruction.startswith("1 of 3 things done")


def test_fewer_grasps_than_clauses_are_cut_at_pauses():
    one, _ = places(1)
    push = np.array([[0.3 + 0.2 * np.sin(t), 0.0, 0.3, 1.0] for t in np.linspace(0, np.pi, 40)])
    still = np.repeat(one[-1:], 15, 0)
    p = plan(fake("put the cup in the box, then push the button", np.concatenate([one, still, push])))
    assert names(p) == ["put the cup in the box", "push the button"]
    assert len(one) - 2 <= starts(p)[1] <= len(one) + 17


def test_picking_up_ends_when_the_hand_has_closed():
    state, _ = places(1)
    p = plan(fake("pick up the bottle", state))
    assert names(p) == ["pick up the bottle", "put down the bottle"]
    closed = int(np.argmax(state[:, 3] < 0.5))
    assert 0 <= starts(p)[1] - closed <= 5
    both = plan(fake("pick up the bottle and place it on the shelf", state))
    assert names(both) == ["pick up the bottle", "put the bottle on the shelf"]


def test_phases_of_a_placing():
    state, _ = places(1)
    p = plan(fake("put the cup in the box", state), "phase")
    assert [n.split()[0] for n in names(p)] == ["reach", "grasp", "lift", "move", "place", "retreat"]
    assert np.abs(np.array(starts(p)) - [0, 17, 19, 27, 39, 46]).max() <= 2
    assert_covers(p, len(state))


@pytest.mark.parametrize(
    ("recording", "words"),
    [
        (fake("fold it", np.full((5, 4), np.nan)), "NaN or infinite at frame 0"),
        (fake(" . ", np.zeros((5, 4))), "no words"),
        (fake("fold it", np.zeros((5, 0)), state_names=()), "neither observation.state nor action"),
        (fake("fold it", np.zeros((0, 4))), "no frame"),
    ],
)
def test_what_cannot_be_planned_is_a_failure_in_one_line(recording, words):
    answer = plan(recording)
    assert answer.stage == "plan"
    assert words in answer.message
    assert "\n" not in answer.message


def test_a_bad_layout_is_a_failure_and_others_still_get_plans():
    state, _ = places(1)
    good = fake("put the cup in the box", state)
    bad = replace(fake("fold it", np.full((5, 4), np.inf)), id="bad")
    tasks = [Task(id=i, instruction="put the cup in the box") for i in ("it", "bad", "gone")]
    answers = KinematicPlanner({"it": good, "bad": bad}).plan(tasks)
    assert isinstance(answers[0], Plan)
    assert "NaN or infinite" in answers[1].message
    assert "no recording 'gone'" in answers[2].message
    outside = plan(good, layout=Layout(gripper=(9,)))
    assert "dimension 9" in outside.message


def test_layouts_are_read_from_text():
    assert Layout.parse("gripper=14:17+20, position=0:3") == Layout(
        gripper=(14, 15, 16, 20), position=(0, 1, 2)
    )
    assert Layout.parse("closed=high,source=action,vertical=2").source == "action"
    for wrong in ("gripper=x", "hand=3", "closed=shut", "gripper=-1", "gripper"):
        with pytest.raises(InputError, match="cannot be read: write it like"):
            Layout.parse(wrong)


def wander(seed, frames):
    """An arm that goes anywhere, and a hand that closes and opens on the way."""
    rng = np.random.default_rng(seed)
    state = np.cumsum(rng.normal(size=(frames, 4)), axis=0)
    state[:, 3] = np.cumsum(rng.random(frames) < 0.08) % 2
    return state.astype(np.float32)


@settings(max_examples=2 * settings.default.max_examples)
@given(
    state=hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 60), st.integers(1, 6)),
        elements=st.floats(-3, 3, width=32) | st.sampled_from([0.0, 1.0]),
    )
    | st.builds(wander, st.integers(0, 10**6), st.integers(20, 200)),
    instruction=st.sampled_from(
        [
            PUTS,
            THREE,
            "sort the blocks",
            "pick up the cup",
            "close it",
            "clear the bowl, then push it",
            "wobble",
        ]
    ),
    granularity=st.sampled_from(["event", "subtask", "phase"]),
    named=st.booleans(),
    fps=st.sampled_from([1.0, 4.0, 10.0, 60.0]),
)
def test_whatever_the_signal_the_segments_cover_the_episode(state, instruction, granularity, named, fps):
    labels = ("x", "y", "z", "gripper", "left_gripper", "joint")[: state.shape[1]] if named else ()
    recording = fake(instruction, state, state_names=labels, fps=fps)
    p = plan(recording, granularity)
    assert isinstance(p, Plan)
    assert_covers(p, len(state))
    assert plan(recording, granularity) == p


LABELS = DATA / "real/labels.json"


def test_the_labels_of_gr1_fit_its_episodes():
    labels = read_labels(DATA / "real/gr1_sim.json").datasets["gr1_sim"]
    assert next((e.frames, [v.frame for v in e.events]) for e in labels.episodes) == (416, [248, 396])
    root = SHARED / "gr1_sim"
    if not root.is_dir():
        pytest.skip("needs the shared recordings of real robots")
    plans = kinematic_plans(root, "event")
    score = boundary_score(cuts_of(plans), labels, retreats_apart=False)
    assert (score.matched, score.predicted, score.true) == (5, 5, 5)


def test_events_are_where_contact_changes(real_motions):
    """No cut that the labels do not have, most of those that they have, and no granularity nearer to them."""
    labels = read_labels(LABELS).datasets[real_motions.name]
    scores = {
        g: boundary_score(cuts_of(kinematic_plans(real_motions, g)), labels, retreats_apart=False)
        for g in ("event", "subtask", "phase")
    }
    assert scores["event"].precision.value == 1
    assert scores["event"].recall.value >= 0.8
    assert scores["event"].f1.value >= max(s.f1.value for s in scores.values())
    assert len({s.true for s in scores.values()}) == 1
