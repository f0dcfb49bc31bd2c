"""The camera of the goal images stands still, whatever it is called."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from goalreel.annotator.questions import find_question
from goalreel.datasets.source import Source, find_still_camera
from goalreel.errors import DatasetError
from goalreel.image import Image
from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.robot import Robot

SCENE = np.random.default_rng(0).integers(0, 255, (12, 40, 3)).repeat(20, 0).repeat(20, 1).astype(np.uint8)


@dataclass(frozen=True)
class Film:
    """An episode of 30 frames: `arm` crosses a still picture, `moving` follows the arm."""

    index: int

    def __len__(self) -> int:
        return 30

    def frames(self, camera: str, indices: list[int]) -> list[Image]:
        return [Image(self._picture(camera, i)) for i in indices]

    def _picture(self, camera: str, i: int) -> np.ndarray:
        if "moving" in camera:
            return SCENE[:, 15 * i : 15 * i + 200]
        picture = SCENE[:, :200].copy()
        if "plain" in camera:
            picture[80:] = 200
        if "frozen" in camera:
            return picture
        if "dark" in camera:
            return 0 * picture
        picture[:, 5 * i : 5 * i + 30] = 200
        return picture + np.uint8(i % 3)  # the light flickers


class Seen(Source):
    def episode(self, index):
        return Film(index)


def cameras(*names: str) -> Source:
    picture = {"dtype": "video", "shape": [240, 200, 3], "names": None}
    info = {"fps": 10, "features": {f"observation.images.{name}": picture for name in names}}
    rows = SimpleNamespace(indices=np.arange(5))
    return Seen(Path("x"), info, cast("object", rows), {})


def test_a_camera_on_the_arm_is_known_by_its_pictures():
    found = find_still_camera(cameras("moving", "still"))
    assert (found.value, found.confidence) == ("observation.images.still", "likely")
    assert "of moving" in found.reason


def test_of_still_cameras_the_first_by_name_is_taken():
    assert (
        find_still_camera(cameras("still_hand", "still_1", "still_2")).value == "observation.images.still_1"
    )
    for other in ("moving_top", "frozen_top", "dark_top"):
        assert find_still_camera(cameras(other, "still_wrist")).value == "observation.images.still_wrist"


@pytest.mark.parametrize(("name", "confidence"), [("frozen", "certain"), ("frozen_plain", "likely")])
def test_a_camera_over_a_plain_table_may_be_one_on_a_wrist_that_shows_its_gripper(name, confidence):
    found = find_still_camera(cameras(f"{name}_1", f"{name}_2"))
    assert (found.value, found.confidence) == (f"observation.images.{name}_1", confidence)


def test_where_none_stands_still_a_person_is_asked():
    found = find_still_camera(cameras("moving_1", "moving_2"))
    assert (found.value, found.confidence) == (None, "unknown")
    line = str(find_question(Robot(layout=Layout(), findings=(found,))))
    assert line.endswith("say --camera moving_1 or --camera moving_2")
    assert "\n" not in line


def test_the_only_camera_is_taken_and_said_to_move_if_it_does():
    for name, moves in (("moving", True), ("still", False)):
        found = find_still_camera(cameras(name))
        assert (found.value, found.confidence) == (f"observation.images.{name}", "likely")
        assert ("it moves with the robot" in found.reason) == moves


def test_real_cameras_on_a_wrist_move(real_dataset):
    source = Source.open(real_dataset)
    found = find_still_camera(source)
    assert found.value == source.camera(None)
    assert found.confidence == ("certain" if len(source.cameras) > 1 else "likely")


def test_without_pictures_the_name_decides():
    class Broken(Seen):
        def episode(self, index):
            raise DatasetError("no such file")

    source = cameras("moving_hand", "moving_top")
    found = find_still_camera(Broken(source.root, source.info, source.rows, source.tasks))
    assert (found.value, found.confidence) == ("observation.images.moving_top", "likely")
