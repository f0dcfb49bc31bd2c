"""A touch that only the pictures show: a drawn arm, and a drawn door that it shuts on its way."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from support.arms import Motions, planned

from goalreel.image import Image

N, AT = 60, 30
"""Frames, and the frame at which the hand is at the door."""
JOINTS = ("a.pos", "b.pos", "c.pos", "gripper.pos")


@dataclass(frozen=True)
class Fingers(Motions):
    """A hand that is told to close at frame 20; its fingers take until `stop`, and the arm until 50."""

    stop: int = 20

    def frames(self, camera, indices):
        return [Image(self.paint(i), frame=f"{camera}#{i}") for i in indices]

    def paint(self, i):
        picture = np.full((96, 128, 3), 120, np.uint8)
        left = 60 + max(0, i - 50)
        picture[30:50, left : left + 10] = 220
        gap = 10 if i < self.stop else 4
        for side in (left - gap, left + 6 + gap):
            picture[50:66, side : side + 4] = 20
        return picture


@dataclass(frozen=True)
class Film(Motions):
    """A recording of joints, whose hand goes straight through the picture; `door` is its left edge."""

    door: tuple[int, ...] = ()
    decoded: list[int] = field(default_factory=list)

    def frames(self, camera, indices):
        self.decoded.extend(indices)
        return [Image(self.paint(i), frame=f"{camera}#{i}") for i in indices]

    def paint(self, i):
        rows, columns = np.indices((96, 128))
        picture = np.full((96, 128, 3), (150, 120, 90), np.int16)
        picture[(rows // 8 + columns // 8) % 2 == 0] += 12
        left = self.door[i]
        picture[40:80, left : left + 14] = (40, 60, 110)
        hand = hand_at(i)
        picture[:60, hand - 5 : hand + 5] = (230, 232, 235)
        picture += np.random.default_rng(i).normal(0, 3, picture.shape).astype(np.int16)
        return np.clip(picture, 0, 255).astype(np.uint8)


def hand_at(i):
    return 15 + round(1.5 * i)


def film(instruction, door):
    """The joints grow evenly, so the motion alone shows no contact."""
    even = np.linspace(0, 1, N)
    state = np.stack([even, 0.5 * even, -even, np.ones(N)], axis=1).astype(np.float32)
    return Film(instruction, state, JOINTS, door=tuple(door))


PUSHED = [max(65, hand_at(i) + 5) for i in range(N)]
"""The hand meets the door at frame 30, and pushes it."""
STILL = [65] * N
BY_ITSELF = [65 + (20 if i >= 20 else 0) for i in range(N)]
"""It falls shut while the hand is still far away."""


def plan(recording, camera="front"):
    return planned(recording, camera=camera)


def test_a_door_that_is_shut_on_the_way_is_seen():
    found = plan(film("close the door", PUSHED))
    assert [step.name for step in found.steps] == ["reach for the door", "close the door"]
    assert abs(found.segments[1].start - AT) <= 4
    assert not any(step.doubts for step in found.steps)


def test_a_push_from_afar_begins_where_the_thing_is_seen_to_move():
    """The hand is down at frame 10, and goes on to the door; where nothing is seen, its way tells."""
    i = np.arange(N)
    state = np.stack([i / 100, 0 * i, np.maximum(0, 0.3 - 0.03 * i), 1 + 0 * i], axis=1).astype(np.float32)
    for door, start in ((PUSHED, AT), (STILL, 10)):
        found = plan(Film("push the door", state, door=tuple(door)))
        assert [step.name for step in found.steps] == ["reach for the door", "push the door"]
        assert abs(found.segments[1].start - start) <= 4


@pytest.mark.parametrize("door", [STILL, BY_ITSELF], ids=["nothing moves", "it moves by itself"])
def test_what_the_arm_is_not_seen_to_move_stays_in_doubt(door):
    found = plan(film("close the door", door))
    assert [step.name for step in found.steps] == ["close the door"]
    assert found.steps[0].doubts


@pytest.mark.parametrize(
    ("stop", "camera", "contact"), [(22, "front", 22), (42, "front", 42), (42, None, 49)]
)
def test_contact_of_a_hand_that_is_only_told_is_where_the_pictures_show_it(stop, camera, contact):
    """Without a picture, a thing is held where the arm goes on with it: a guess, which is said."""
    way = np.clip(np.r_[np.arange(20), np.full(30, 20), np.arange(20, 50)], 0, 40) / 40
    closes = np.r_[np.zeros(20), np.ones(60)]
    state = np.stack([way, 0.5 * way, -way], axis=1).astype(np.float32)
    commands = np.column_stack([state, closes]).astype(np.float32)
    recording = Fingers(
        "pick up the cup", state, JOINTS[:3], (*JOINTS[:3], "gripper"), commands=commands, stop=stop
    )
    found = planned(recording, layout="gripper=3,source=action,closed=high", camera=camera)
    assert abs(found.segments[0].end - contact) <= 2
    assert ["slow fingers" in doubt for doubt in found.steps[0].doubts] == [True] * (camera is None)


@pytest.mark.parametrize(
    "instruction", ["put the cup in the box", "close the door, then press the button", "wipe the table"]
)
def test_pictures_are_not_decoded_where_they_could_not_tell(instruction):
    recording = film(instruction, PUSHED)
    assert plan(recording).steps[0].doubts
    assert recording.decoded == []
    assert plan(film("close the door", PUSHED), camera=None).steps[0].doubts
