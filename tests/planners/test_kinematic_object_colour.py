"""Naming what was moved by its colour: on painted pictures, and on recordings made of them."""

import numpy as np
import pytest
from support.arms import planned

from goalreel.image import Image
from goalreel.planners.kinematic.clauses import read
from goalreel.planners.kinematic.naming import COLOUR_NOTE, OpenClause, open_clause
from goalreel.planners.kinematic.scene import (
    NAMES,
    ObjectMove,
    find_moved_object,
    median_picture,
    name_colours,
)

RGB = {
    "red": (215, 30, 30),
    "orange": (245, 120, 10),
    "yellow": (245, 215, 30),
    "green": (30, 155, 50),
    "blue": (30, 80, 220),
    "purple": (140, 40, 170),
    "pink": (245, 150, 175),
    "brown": (110, 65, 30),
    "black": (15, 15, 15),
    "white": (250, 250, 248),
    "grey": (120, 122, 125),
}
TABLE = (150, 155, 148)
HERE, THERE = (20, 20), (70, 60)
SEEDS = (901_227, 901_251, 901_255, 901_289)


def paint(*things, arm=None, noise=3, seed=0):
    """A 96 x 96 table. A thing is (colour, corner, edge) or (colour, corner, edge, "bowl"), a thick square
    ring; `arm` is the corner of a white gripper."""
    picture = np.full((96, 96, 3), TABLE, np.int16)
    for colour, (x, y), edge, *hollow in things:
        inside = picture[y + 3 : y + edge - 3, x + 3 : x + edge - 3].copy()
        picture[y : y + edge, x : x + edge] = RGB[colour]
        if hollow:
            picture[y + 3 : y + edge - 3, x + 3 : x + edge - 3] = inside
    if arm:
        picture[: arm[1] + 9, arm[0] - 2 : arm[0] + 12] = (225, 225, 225)
    picture += np.random.default_rng(seed).normal(0, noise, picture.shape).astype(np.int16)
    return np.clip(picture, 0, 255).astype(np.uint8)


def scene(rest, moved, start=HERE, goal=THERE):
    """(before, carry, after): the arm comes from the right edge, carries, and goes back there."""
    arms = [(80, 5), (60, 5), (40, 5), start]
    ways = [start, *((round(a), round(b)) for a, b in np.linspace(start, goal, 5)), goal]
    before = [paint(*rest, (*moved[:1], start, *moved[1:]), arm=a, seed=i) for i, a in enumerate(arms)]
    carry = [paint(*rest, (*moved[:1], w, *moved[1:]), arm=w, seed=10 + i) for i, w in enumerate(ways)]
    after = [
        paint(*rest, (*moved[:1], goal, *moved[1:]), arm=a, seed=20 + i)
        for i, a in enumerate([goal, (40, 5), (60, 5), (80, 5)])
    ]
    return np.stack(before), np.stack(carry), np.stack(after)


def bowl(colour, around):
    return (colour, (around[0] - 7, around[1] - 7), 22, "bowl")


@pytest.mark.parametrize("colour", RGB)
@pytest.mark.parametrize("light", [0.85, 1.0, 1.05])
def test_plain_colours_have_their_plain_names(colour, light):
    patch = np.clip(np.array([[RGB[colour]]]) * light, 0, 255).astype(np.uint8)
    assert NAMES[name_colours(patch)[0, 0]] == colour


@pytest.mark.parametrize("rgb", [(40, 200, 190), (250, 180, 20), (230, 20, 80), (160, 190, 40)])
def test_colours_between_two_words_have_none(rgb):
    assert NAMES[name_colours(np.array([[rgb]], np.uint8))[0, 0]] == ""


@pytest.mark.parametrize("colour", ["red", "orange", "yellow", "green", "blue", "purple", "pink", "brown"])
def test_what_moved_and_out_of_what_and_into_what(colour):
    rim, other = ("blue", "green") if colour in ("red", "orange", "yellow") else ("yellow", "orange")
    stays = "red" if colour != "red" else "purple"
    rest = [bowl(rim, HERE), bowl(other, THERE), (stays, (5, 75), 8)]
    assert find_moved_object(*scene(rest, (colour, 8))) == ObjectMove(colour, rim, other)


def test_what_cannot_be_told_is_nothing():
    moved = find_moved_object(*scene([("green", (34, 20), 8)], ("red", 8)))
    assert moved == ObjectMove("red", "", ""), "no bowl surrounds it"
    still = np.stack([paint(("red", HERE, 8), seed=i) for i in range(4)])
    for pictures in (
        *(scene([], (hueless, 8)) for hueless in ("black", "white", "grey")),
        scene([], ("red", 3)),
        (still, still, still),
    ):
        assert find_moved_object(*pictures) is None


def test_two_things_that_moved_leave_it_open():
    first, second = scene([], ("red", 8)), scene([], ("blue", 8), (20, 45), (50, 75))
    table = np.array(TABLE)
    both = [
        np.where(np.abs(b - table.astype(int)).max(-1, keepdims=True) > 40, b, a)
        for a, b in zip(first, second, strict=True)
    ]
    assert find_moved_object(*first).colour == "red"
    assert find_moved_object(*second).colour == "blue"
    assert find_moved_object(*both) is None


def test_a_thing_of_two_colours_has_none():
    def halved(pictures):
        pictures = pictures.copy()
        red = (np.abs(pictures.astype(int) - RGB["red"]).max(-1)) < 20
        for picture, mask in zip(pictures, red, strict=True):
            top = mask & (np.cumsum(mask.any(1))[:, None] <= 4)
            picture[top] = RGB["blue"]
        return pictures

    assert find_moved_object(*map(halved, scene([], ("red", 8)))) is None


def test_a_thing_that_was_only_taken_out_of_sight_is_not_named():
    before, carry, _ = scene([], ("red", 8))
    after = np.stack([paint(seed=30 + i) for i in range(4)])
    assert find_moved_object(before, carry, after) is None


def test_a_camera_that_moves_shows_nothing():
    before, carry, after = scene([bowl("blue", THERE)], ("red", 8))
    assert find_moved_object(before, carry, np.rot90(255 - after, axes=(1, 2))) is None


def test_the_background_did_not_move_the_other_way():
    """A brown table vanishes under the thing and comes up where it stood: what moved is told by when."""
    pictures = [
        np.where(np.abs(p - np.array(TABLE)).max(-1, keepdims=True) < 20, np.uint8([110, 65, 30]), p)
        for p in (s.astype(np.int16) for s in scene([], ("yellow", 8)))
    ]
    assert find_moved_object(*(p.astype(np.uint8) for p in pictures)).colour == "yellow"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("sort the blocks by colour", OpenClause("block", "", "in", own_colour=True)),
        ("sort the cups by color", OpenClause("cup", "", "in", own_colour=True)),
        (
            "put every block that has a bowl of its own colour into that bowl",
            OpenClause("block", "bowl", "in", own_colour=True),
        ),
        ("sort the toys into the boxes of their own colour", OpenClause("toy", "box", "in", own_colour=True)),
        ("clear the red bowl", OpenClause("", "bowl", "out of", place_name="the red bowl")),
        ("clear all the bowls", OpenClause("", "bowl", "out of")),
        ("empty every bowl", OpenClause("", "bowl", "out of")),
        ("take the blocks out of the bowls", OpenClause("block", "bowl", "out of")),
        ("put all the blocks in the box", OpenClause("block", "box", "in", place_name="the box")),
    ],
)
def test_what_a_clause_leaves_open(text, found):
    assert open_clause(read(text)[0]) == found


@pytest.mark.parametrize(
    "text",
    [
        "put the red block in the bowl",
        "pick up the bottle",
        "fold the towel",
        "put all the red blocks in the box",
        "clear the table",
        "sort the blocks",
        "sort the blocks by size",
        "build a house",
        "close the laptop",
    ],
)
def test_what_is_named_or_unknown_is_not_open(text):
    assert open_clause(read(text)[0]) is None


def close(text, seen, *more):
    clause = open_clause(read(text)[0]).complete(seen, (text, *more))
    return clause and clause.name


def test_an_open_clause_is_closed_only_by_what_was_seen_and_said():
    sort = "sort the blocks by colour"
    assert (
        close(sort, ObjectMove("red", "", "red"), "clear the red bowl") == "put the red block in the red bowl"
    )
    assert close(sort, ObjectMove("red", "", "blue"), "clear the red bowl") is None
    assert close(sort, ObjectMove("red", "", ""), "clear the red bowl") is None
    assert close(sort, ObjectMove("red", "", "red")) is None
    assert close(sort, ObjectMove("red", "", "red"), "use the red bowl or the blue box") is None
    clear, cup = "clear the red bowl", "take the blue cup"
    assert (
        close(clear, ObjectMove("pink", "red", ""), "lift the blue toy")
        == "take the pink toy out of the red bowl"
    )
    assert close(clear, ObjectMove("pink", "red", "")) is None
    assert close(clear, ObjectMove("pink", "blue", ""), "lift the blue toy") is None
    assert close(clear, ObjectMove("pink", "", ""), "lift the blue toy") is None
    assert close(clear, ObjectMove("pink", "red", ""), "lift the blue toy", "lift the red pen") is None
    assert close("clear all the bowls", ObjectMove("pink", "", ""), "lift the blue toy") is None
    assert close(clear, ObjectMove("pink", "red", ""), cup) is None, "a cup is no thing but a place"


class Painted:
    """A recording of one pick-and-place of a red block out of a blue bowl into a red one."""

    id, fps = "it", 10.0
    state_names, action_names = ("x", "y", "z", "gripper"), ()

    def __init__(self, instruction, moved="red", stays=("green", (5, 75), 8)):
        before, carry, after = scene([bowl("blue", HERE), bowl("red", THERE), stays], (moved, 8))
        self.instruction = instruction
        spans = ((before, 20, 1.0), (carry, 30, 0.2), (after, 20, 1.0))
        self.pictures = [s[i * len(s) // n] for s, n, _ in spans for i in range(n)]
        x = np.concatenate([np.linspace(0, 0.3, 20), np.linspace(0.3, 0.7, 30), np.linspace(0.7, 1, 20)])
        z = np.concatenate(
            [np.linspace(0.3, 0, 20), 0.2 * np.sin(np.linspace(0, np.pi, 30)), np.linspace(0, 0.3, 20)]
        )
        grip = np.concatenate([np.full(n, g) for _, n, g in spans])
        self.state = np.stack([x, x, z, grip], 1).astype(np.float32)
        self.action = np.zeros((70, 0), np.float32)
        self.timestamps = np.arange(70, dtype=np.float32) / self.fps
        self.looked = []

    def frames(self, camera, indices):
        self.looked += indices
        return [Image(self.pictures[i], frame=f"{camera}#{i}") for i in indices]


def plan(recording, granularity="subtask", **options):
    return planned(recording, granularity, **options)


@pytest.mark.parametrize(
    ("instruction", "name"),
    [
        ("sort the blocks by colour", "put the red block in the red bowl"),
        ("clear the blue bowl", "take the red block out of the blue bowl"),
        ("empty every bowl", "take the red block out of the blue bowl"),
    ],
)
def test_with_a_camera_the_step_is_named_and_says_why(instruction, name):
    step = plan(Painted(instruction), camera="front", words=["put the green block in the red bowl"]).steps[0]
    assert (step.name, step.auxiliary_text) == (name, COLOUR_NOTE)
    assert step.instruction == name.replace("put ", "").replace("take ", "").replace(" block ", " block is ")
    phases = plan(
        Painted(instruction), "phase", camera="front", words=["lift the green block, use the red bowl"]
    )
    assert phases.steps[0].name == "reach for the red block"
    assert all(s.auxiliary_text == COLOUR_NOTE for s in phases.steps)


def test_unsure_is_as_without_a_camera():
    for moved, words in (("white", ["put the green block in the red bowl"]), ("red", [])):
        recording = Painted("sort the blocks by colour", moved)
        assert plan(recording, camera="front", words=words) == plan(recording)
        assert recording.looked


def test_pictures_are_looked_at_only_where_the_words_leave_it_open():
    recording = Painted("put the block in the bowl")
    assert plan(recording, camera="front") == plan(recording)
    blind = Painted("sort the blocks by colour")
    plan(blind)
    assert not recording.looked
    assert not blind.looked


@pytest.mark.slow
def test_the_tabletop_is_named_rightly_or_as_without_a_camera(tmp_path):
    """Validation seeds with sorting, clearing one bowl and clearing all of them. Two orange bowls among the
    seven sub-tasks stay unsure: the rim's pale edge looks brown."""
    pytest.importorskip("mujoco")
    pytest.importorskip("lerobot")
    from goalreel.datasets.source import Source
    from goalreel.tabletop.record import record

    truth = record(tmp_path / "data", SEEDS, cameras=("front",), size=128)
    source = Source.open(tmp_path / "data")
    options = {"camera": source.camera(None), "words": tuple(source.tasks.values())}
    named = 0
    for episode, true in zip(map(source.episode, source.indices), truth.episodes, strict=True):
        blind, seeing = plan(episode), plan(episode, **options)
        assert seeing.segments == blind.segments
        for old, new, segment in zip(blind.steps, seeing.steps, true.segments, strict=True):
            assert new == old or (new.name, new.auxiliary_text) == (segment.text, COLOUR_NOTE)
            named += new != old
    assert named >= 5


@pytest.mark.parametrize("levels", [5, 256])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16])
def test_the_median_picture_is_that_of_numpy(levels, dtype):
    rng = np.random.default_rng(levels)
    for count in range(1, 40):
        pictures = rng.integers(0, levels, (count, 4, 5, 3)).astype(dtype)
        unchanged = pictures.copy()
        median = median_picture(pictures)
        assert median.dtype == dtype
        assert (median == np.median(pictures, axis=0).astype(dtype)).all()
        assert (pictures == unchanged).all()
