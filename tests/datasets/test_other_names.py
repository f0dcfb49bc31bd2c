"""What a dataset calls otherwise than lerobot is found: its still camera, its state and its action."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from support.recordings import renamed

from goalreel.annotator.options import Options
from goalreel.annotator.questions import find_question
from goalreel.annotator.robot import read_robot, stored_layout
from goalreel.datasets.info_file import dimension_names, find_numbers
from goalreel.datasets.source import Source, find_still_camera
from goalreel.errors import DatasetError, InputError
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
    still = find_still_camera(cameras("still_hand", "still_1", "still_2"))
    assert still.value == "observation.images.still_1"
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


def features(**dims: int) -> dict:
    return {
        name.replace("__", "."): {"dtype": "float32", "shape": [n], "names": None} for name, n in dims.items()
    }


@pytest.mark.parametrize(
    ("dims", "state", "action"),
    [
        ({"observation__state": 7, "state": 7, "action": 7}, ("observation.state",), ("action",)),
        ({"state": 7, "actions": 7}, ("state",), ("actions",)),
        ({"observation__qpos": 7, "action": 7}, ("observation.qpos",), ("action",)),
        ({"state__arm": 6, "state__hand": 1, "action__arm": 6}, ("state.arm", "state.hand"), ("action.arm",)),
        ({"states__joint": 7, "states__joint_velocity": 7}, ("states.joint",), ()),
        ({"reward": 1}, (), ()),
    ],
)
def test_features_are_found_by_their_usual_names(dims, state, action):
    found = find_numbers(features(**dims))
    assert (found.state, found.action) == (state, action)


def test_the_parts_of_a_joined_state_are_named_after_their_features():
    both = features(observation__state__arm=2, observation__state__left_gripper=1)
    assert dimension_names(both, tuple(both)) == ("arm_0", "arm_1", "left_gripper")
    assert dimension_names(both, ("observation.state.arm",)) == ()


def test_the_parts_of_two_arms_keep_their_side():
    joints = {"dtype": "float32", "shape": [2], "names": ["joint", "gripper"]}
    parts = {f"observation.state.{side}": joints for side in ("left", "right")}
    assert dimension_names(parts, tuple(parts)) == (
        "left_joint", "left_gripper", "right_joint", "right_gripper",
    )  # fmt: skip
    apart = features(state__left__gripper=1, state__right__gripper=1)
    assert dimension_names(apart, tuple(apart)) == ("left_gripper", "right_gripper")
    pose = {"end": {"dtype": "float32", "shape": [2, 3]}, "gripper": {"dtype": "float32", "shape": [1]}}
    assert len(dimension_names(pose, tuple(pose))) == 7


def test_a_dataset_with_other_names_is_read_as_the_one_with_lerobots(video_dataset, tmp_path):
    plain, names = Source.open(video_dataset), {"observation.state": "state", "action": "actions"}
    other = Source.open(renamed(video_dataset, tmp_path / "x", names))
    assert np.array_equal(other.episode(0).state, plain.episode(0).state)
    assert np.array_equal(other.episode(0).action, plain.episode(0).action)
    assert other.episode(0).state_names == plain.episode(0).state_names
    robot = read_robot(other)
    assert robot.layout == read_robot(plain).layout
    found = {f.field: f.value for f in robot.findings}
    assert (found["state"], found["action"]) == ("state", "actions")


def test_features_of_any_name_are_mapped_by_the_layout(video_dataset, tmp_path):
    names = {"observation.state": "robot", "action": "told"}
    source = Source.open(renamed(video_dataset, tmp_path / "x", names))
    robot = read_robot(source)
    assert str(find_question(robot)) == (
        "the robot's state is not known (there is neither observation.state nor action, and robot, told "
        "holds numbers: state=NAME,action=NAME names both): say --layout state=robot or --layout state=told"
    )
    options = Options(layout="state=robot,action=told")
    context = options.recorded(source)
    assert context.layout is not None
    assert context.layout.gripper == (3,)
    assert str(context.layout).endswith("state=robot,action=told")
    assert source.episode(0).state.shape == (12, 4)
    again = Source.open(source.root)
    settings = {"layout": options.layout, "robot": {"layout": str(context.layout), "findings": []}}
    assert stored_layout(again, settings) == context.layout
    assert again.episode(0).state.shape == (12, 4)
    with pytest.raises(InputError, match=r"state=joints is no feature of numbers: .* has robot, told"):
        Options(layout="state=joints").recorded(source)
