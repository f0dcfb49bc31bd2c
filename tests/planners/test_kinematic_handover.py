"""A thing that goes from one hand of a robot to the other: cuts, names, doubts and goal images."""

import numpy as np
import pytest
from support.robots import joints, made_by

from goalreel.planners.kinematic import KinematicPlanner
from goalreel.planners.kinematic.clauses import split_handovers
from goalreel.planners.kinematic.robot import infer_robot
from goalreel.types import Task

HOME, THING, MIDDLE, BOX = (
    np.array(p) for p in ((0.3, 0, 0.3), (0.6, 0.2, 0), (0.5, -0.2, 0.25), (0.7, 0.1, 0))
)
OPEN, HELD, SHUT = 1.0, 0.4, 0.05
SIDES = ("left", "right")
JOINTS = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate", "gripper")

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
OTHER = (
    *WAITS[:2],
    (4, THING, OPEN),
    (4.5, THING, HELD),
    (6, MIDDLE, HELD),
    (8, BOX, HELD),
    (8.4, BOX, OPEN),
)


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
    names = tuple(f"{side}_{name}" for side in SIDES for name in JOINTS)
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
    made = recordings(first, second, fps)
    found = plan(made, "pick up the cube and hand it over")
    assert all(any("the words say once" in why for why in step.doubts) for step in found.steps)
    assert not any("hand over" in step.name for step in found.steps)


@pytest.mark.parametrize(
    "words", ["hand it to the person", "move the block in hand", "transfer the cube", "move the left arm"]
)
def test_words_that_only_sound_like_a_handover_ask_for_none(words):
    assert split_handovers(words) == (words, [])
