"""Features of other names than lerobot's hold the state and the action too."""

import numpy as np
import pytest
from support.recordings import renamed

from goalreel.annotator.options import Options
from goalreel.annotator.questions import find_question
from goalreel.annotator.robot import read_robot, stored_layout
from goalreel.datasets.info_file import dimension_names, find_numbers
from goalreel.datasets.source import Source
from goalreel.errors import InputError


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
