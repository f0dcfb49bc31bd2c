"""Splits, scenes, instructions and predicates: everything that needs no physics."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from goalreel.tabletop import splits
from goalreel.tabletop.grammar import MAX_GOALS, sample_episode
from goalreel.tabletop.scene import (
    BOWL_FLOOR,
    COLOURS,
    DIRECTIONS,
    HALF,
    KINDS,
    WORKSPACE,
    SubGoal,
    find_spot,
    shows,
)

any_seed = st.integers(0, 999_999)


@given(any_seed)
def test_an_episode_is_well_formed(seed):
    episode = sample_episode(seed)
    assert episode == sample_episode(seed)
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
    for mission in episode.missions:
        assert mission.text.lower() in episode.instruction.lower()
        if len(mission.goals) == 1:
            assert mission.kind == "out_of" or mission.goals[0].object in mission.text
            assert mission.goals[0].target in mission.text
    layout = episode.scene.layout()
    for name, at in layout.items():
        assert all(low <= v <= high for v, (low, high) in zip(at[:2], WORKSPACE, strict=True)), "within reach"
        for other, there in layout.items():
            held = at[2] > HALF or there[2] > HALF
            assert name == other or held or np.linalg.norm(at[:2] - there[:2]) > 3 * HALF, "apart"
    for goal in episode.goals:
        assert not shows(layout, goal), "not before its turn"
        spot, room = find_spot(layout, goal)
        assert room > 0
        layout[goal.object] = spot
    assert all(shows(layout, goal) for goal in episode.goals)


@pytest.mark.lab
def test_every_kind_length_and_join_occurs():
    episodes = [sample_episode(seed) for seed in range(300)]
    assert {g.kind for e in episodes for g in e.goals} == set(KINDS)
    assert {len(e.goals) for e in episodes} == set(range(1, MAX_GOALS + 1))
    assert {m.kind for e in episodes for m in e.missions} >= {"sort", "tower", "clear_all"}
    assert {b.name.split()[0] for e in episodes for b in e.scene.bowls} == set(COLOURS)
    assert len({e.scene.look.table for e in episodes}) > 3
    assert len({e.instruction for e in episodes}) > 290


def test_splits_are_fixed_and_refuse_in_one_line():
    wanted = {"train": (0, 900_000), "validation": (900_000, 950_000), "test": (950_000, 1_000_000)}
    assert {name: range(*span) for name, span in wanted.items()} == splits.SEEDS
    assert splits.seeds("test", 3, first=10) == range(950_010, 950_013)
    for name, span in splits.SEEDS.items():
        assert splits.split_of(span[0]) == splits.split_of(span[-1]) == name
    for asked, says in ((("dev", 1, 0), "train, validation, test"), (("test", 0, 0), "at least one")):
        with pytest.raises(ValueError, match=rf"^.*{says}.*$"):
            splits.seeds(*asked)
    with pytest.raises(ValueError, match="50000 seeds"):
        splits.seeds("test", 2, 49_999)
    with pytest.raises(ValueError, match="outside"):
        splits.split_of(1_000_000)


@pytest.mark.parametrize(
    ("kind", "target", "there", "at", "expected"),
    [
        ("inside", "blue bowl", (0.5, 0.0, 0.0), (0.5, 0.0, BOWL_FLOOR + HALF), True),
        ("inside", "blue bowl", (0.5, 0.0, 0.0), (0.53, 0.0, BOWL_FLOOR + HALF), True),
        ("inside", "blue bowl", (0.5, 0.0, 0.0), (0.58, 0.0, BOWL_FLOOR + HALF), False),
        ("inside", "blue bowl", (0.5, 0.0, 0.0), (0.5, 0.0, 0.12), False),
        ("out_of", "blue bowl", (0.5, 0.0, 0.0), (0.5, 0.0, BOWL_FLOOR + HALF), False),
        ("out_of", "blue bowl", (0.5, 0.0, 0.0), (0.5, 0.2, HALF), True),
        ("out_of", "blue bowl", (0.5, 0.0, 0.0), (0.5, 0.2, 0.15), False),
        ("on", "blue block", (0.5, 0.2, HALF), (0.5, 0.2, 3 * HALF), True),
        ("on", "blue block", (0.5, 0.2, HALF), (0.52, 0.2, 3 * HALF), True),
        ("on", "blue block", (0.5, 0.2, HALF), (0.54, 0.2, 3 * HALF), False),
        ("on", "blue block", (0.5, 0.2, HALF), (0.5, 0.2, 5 * HALF), False),
        ("on", "blue block", (0.5, 0.2, HALF), (0.5, 0.25, HALF), False),
        ("left_of", "blue block", (0.5, 0.0, HALF), (0.5, -0.1, HALF), True),
        ("left_of", "blue block", (0.5, 0.0, HALF), (0.5, -0.1, 3 * HALF), False),
        ("left_of", "blue block", (0.5, 0.0, HALF), (0.5, -0.3, HALF), False),
        ("left_of", "blue block", (0.5, 0.0, HALF), (0.5, -0.04, HALF), False),
        ("left_of", "blue block", (0.5, 0.0, HALF), (0.56, -0.1, HALF), False),
    ],
)
def test_what_a_layout_shows(kind, target, there, at, expected):
    layout = {"red block": np.array(at), target: np.array(there)}
    assert shows(layout, SubGoal(kind, "red block", target)) is expected


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


def test_a_camera_reads_its_own_projection_back():
    from goalreel.tabletop.mjcf import FIXED

    for camera in FIXED.values():
        point = np.array([0.53, -0.11, 0.07])
        (pixel,) = camera.project(point[None], 128)
        np.testing.assert_allclose(camera.on_plane(pixel, point[2], 128), point, atol=1e-9)
