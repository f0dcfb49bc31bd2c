"""Splits, scenes, instructions and predicates: everything that needs no physics."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalreel.tabletop import splits
from goalreel.tabletop.grammar import JOINS, MAX_GOALS, join, listed, sample_episode
from goalreel.tabletop.scene import (
    BOWL_FLOOR,
    COLOURS,
    DIRECTIONS,
    HALF,
    KINDS,
    WORKSPACE,
    SubGoal,
    find_spot,
    inside,
    on,
    shows,
)

any_seed = st.integers(0, 999_999)


@given(any_seed)
def test_an_episode_is_well_formed(seed):
    episode = sample_episode(seed)
    assert episode == sample_episode(seed)
    check_names(episode)
    check_words(episode)
    check_goals_in_turn(episode)
    check_places(episode)


def check_names(episode):
    assert 1 <= len(episode.goals) <= MAX_GOALS
    blocks = {b.name for b in episode.scene.blocks}
    bowls = {b.name for b in episode.scene.bowls}
    assert len(blocks) == len(episode.scene.blocks) >= 3
    assert len(bowls) == len(episode.scene.bowls) >= 1
    for goal in episode.goals:
        assert goal.object in blocks
        assert goal.target in blocks | bowls - {goal.object}
        assert goal.object in goal.text
        assert goal.target in goal.text
    assert len({goal.object for goal in episode.goals}) == len(episode.goals)


def check_words(episode):
    """The instruction names what it is about."""
    for mission in episode.missions:
        assert mission.text.lower() in episode.instruction.lower()
        if len(mission.goals) == 1 and mission.kind != "out_of":
            assert mission.goals[0].object in mission.text
        if len(mission.goals) == 1:
            assert mission.goals[0].target in mission.text


def check_goals_in_turn(episode):
    """No goal holds before its turn, and all hold at the end."""
    layout = episode.scene.layout()
    for goal in episode.goals:
        assert not shows(layout, goal)
        spot, room = find_spot(layout, goal)
        assert room > 0
        layout[goal.object] = spot
        assert shows(layout, goal)
    assert all(shows(layout, goal) for goal in episode.goals)


def check_places(episode):
    """Objects start apart and within reach."""
    layout = episode.scene.layout()
    for name, at in layout.items():
        assert all(low <= v <= high for v, (low, high) in zip(at[:2], WORKSPACE, strict=True))
        for other, there in layout.items():
            held = at[2] > HALF or there[2] > HALF
            assert name == other or held or np.linalg.norm(at[:2] - there[:2]) > 3 * HALF


@pytest.mark.lab
def test_every_kind_length_and_join_occurs():
    episodes = [sample_episode(seed) for seed in range(300)]
    assert {g.kind for e in episodes for g in e.goals} == set(KINDS)
    assert {len(e.goals) for e in episodes} == set(range(1, MAX_GOALS + 1))
    assert {m.kind for e in episodes for m in e.missions} >= {"sort", "tower", "clear_all"}
    assert {b.name.split()[0] for e in episodes for b in e.scene.bowls} == set(COLOURS)
    assert len({e.scene.look.table for e in episodes}) > 3
    assert len({e.instruction for e in episodes}) > 290


def test_clauses_join_into_readable_sentences():
    assert {join(["put a", "put b", "put c"], style) for style in range(JOINS)} == {
        "put a, then put b, then put c",
        "first put a, then put b, and finally put c",
        "put a; then put b; then put c",
        "Put a. Then put b. Then put c",
    }
    assert join(["put a", "put b"], 1) == "first put a, then put b"
    assert join(["put a"], 1) == "put a"
    assert (
        listed(["red block", "blue block", "green block"]) == "red block, the blue block and the green block"
    )


def test_splits_are_fixed_and_disjoint():
    assert {
        "train": range(0, 900_000),
        "validation": range(900_000, 950_000),
        "test": range(950_000, 1_000_000),
    } == splits.SEEDS
    assert splits.seeds("test", 3, first=10) == range(950_010, 950_013)
    for name, span in splits.SEEDS.items():
        assert splits.split_of(span[0]) == splits.split_of(span[-1]) == name


@pytest.mark.parametrize(
    ("split", "count", "first", "says"),
    [
        ("dev", 1, 0, "train, validation, test"),
        ("test", 0, 0, "at least one"),
        ("test", 2, 49_999, "50000 seeds"),
    ],
)
def test_splits_refuse_in_one_line(split, count, first, says):
    with pytest.raises(ValueError, match=says) as refused:
        splits.seeds(split, count, first)
    assert "\n" not in str(refused.value)


def test_seeds_outside_every_split_are_refused():
    with pytest.raises(ValueError, match="outside"):
        splits.split_of(1_000_000)


BOWL = np.array([0.5, 0.0, 0.0])
BLOCK = np.array([0.5, 0.2, HALF])


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ((0.5, 0.0, BOWL_FLOOR + HALF), True),
        ((0.53, 0.0, BOWL_FLOOR + HALF), True),
        ((0.58, 0.0, BOWL_FLOOR + HALF), False),
        ((0.5, 0.0, 0.12), False),
    ],
)
def test_inside(at, expected):
    assert inside({"red block": np.array(at), "blue bowl": BOWL}, "red block", "blue bowl") is expected


@pytest.mark.parametrize(
    ("at", "expected"),
    [((0.5, 0.2, 3 * HALF), True), ((0.52, 0.2, 3 * HALF), True), ((0.54, 0.2, 3 * HALF), False),
     ((0.5, 0.2, 5 * HALF), False), ((0.5, 0.25, HALF), False)],
)  # fmt: skip
def test_on(at, expected):
    assert on({"red block": np.array(at), "blue block": BLOCK}, "red block", "blue block") is expected


@pytest.mark.parametrize("kind", DIRECTIONS)
def test_beside_is_as_the_front_camera_sees_it(kind):
    from goalreel.tabletop.mjcf import FIXED

    target = np.array([0.5, 0.0, HALF])
    block = target + 0.1 * np.array([*DIRECTIONS[kind], 0])
    layout = {"red block": block, "blue block": target}
    assert shows(layout, SubGoal(kind, "red block", "blue block"))
    others = [k for k in DIRECTIONS if k != kind]
    assert not any(shows(layout, SubGoal(k, "red block", "blue block")) for k in others)
    (column, row), (there_column, there_row) = FIXED["front"].project(np.stack([block, target]), 128)
    seen = {
        "left_of": column < there_column - 5,
        "right_of": column > there_column + 5,
        "in_front_of": row > there_row + 5,
        "behind": row < there_row - 5,
    }
    assert [k for k, is_so in seen.items() if is_so] == [kind]


def test_beside_needs_the_table_and_a_fitting_distance():
    goal = SubGoal("left_of", "red block", "blue block")
    for at in ((0.5, -0.1, 3 * HALF), (0.5, -0.3, HALF), (0.5, -0.04, HALF), (0.56, -0.1, HALF)):
        assert not shows({"red block": np.array(at), "blue block": np.array([0.5, 0.0, HALF])}, goal)


def test_out_of_means_resting_elsewhere():
    goal = SubGoal("out_of", "red block", "blue bowl")
    for at, expected in (
        ((0.5, 0.0, BOWL_FLOOR + HALF), False),
        ((0.5, 0.2, HALF), True),
        ((0.5, 0.2, 0.15), False),
    ):
        assert shows({"red block": np.array(at), "blue bowl": BOWL}, goal) is expected


def test_a_camera_reads_its_own_projection_back():
    from goalreel.tabletop.mjcf import FIXED

    for camera in FIXED.values():
        point = np.array([0.53, -0.11, 0.07])
        (pixel,) = camera.project(point[None], 128)
        np.testing.assert_allclose(camera.on_plane(pixel, point[2], 128), point, atol=1e-9)
