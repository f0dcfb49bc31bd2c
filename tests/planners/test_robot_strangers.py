"""Robots whose numbers are named and written otherwise: none is misread, and what is thin is asked for."""

import numpy as np
import pytest
from support.robots import Made, joints, pick_and_place

from goalreel.annotator.robot import missing_robot_info
from goalreel.planners.kinematic.robot import infer_robot
from goalreel.planners.kinematic.roles import find_position, named_hands

XYZ = ("x", "y", "z")
FINGERS = ("thumb_cmc.pos", "index_pip.pos", "middle_pip.pos", "ring_pip.pos", "pinky_pip.pos")


def ways(count=6, seed=11, **options):
    """The arm's places and how open its hand is, (n, 5), of several episodes."""
    rng = np.random.default_rng(seed)
    return [pick_and_place(rng, width=rng.uniform(0.3, 0.5), **options) for _ in range(count)]


def made(state, action=None, names=(), names_of_action=None):
    state = np.asarray(state, np.float32)
    action = state[:, :0] if action is None else np.asarray(action, np.float32)
    shared = names if action.shape == state.shape else ()
    return Made(state, action, tuple(names), tuple(shared if names_of_action is None else names_of_action))


@pytest.mark.parametrize(
    ("names", "hands", "position"),
    [
        (("hand_x", "hand_y", "hand_z", "gripper"), [[3]], (0, 1, 2)),
        (("gripper_x", "gripper_y", "gripper_z", "gripper_yaw", "gripper_open"), [[4]], (0, 1, 2)),
        (("handle_x", "handle_y", "handle_z", *XYZ, "gripper"), [[6]], (3, 4, 5)),
        (("object_x", "object_y", "object_z", "eef_x", "eef_y", "eef_z", "gripper"), [[6]], (3, 4, 5)),
        (("bowl_x", "bowl_y", "bowl_z", "tcp_pos_x", "tcp_pos_y", "tcp_pos_z", "gripper"), [[6]], (3, 4, 5)),
        (("imu_acc_x", "imu_acc_y", "imu_acc_z", *XYZ, "gripper"), [[6]], (3, 4, 5)),
        (("eefPosX", "eefPosY", "eefPosZ", "gripper"), [[3]], (0, 1, 2)),
        (("j0", "j1", "quaternion_x", "quaternion_y", "quaternion_z", "gripper"), [[5]], None),
        (("j0", "j1", "euler_x", "euler_y", "euler_z", "torque_0", "gripper"), [[6]], None),
        (FINGERS, [[0, 1, 2, 3, 4]], None),
        (("j0", "vacuum"), [[1]], None),
        (("j0", "gripper", "gripper_temperature", "finger_tactile_0"), [[1]], None),
    ],
)
def test_what_is_no_hand_and_no_place_of_it_is_not_taken_for_one(names, hands, position):
    assert named_hands(names, len(names)) == hands
    found, vertical = find_position(names, len(names), hands[0])
    assert vertical == (None if position is None else position[2])
    assert position in (None, found)


def test_rates_and_torques_are_no_part_of_the_arm():
    names = ("j0", "j1", "j0_vel", "torque_1", "gripper")
    assert find_position(names, 5, [4]) == ((0, 1), None)


@pytest.mark.parametrize("form", ["j{}_{}", "robot{1}_j{0}", "arm_{1}.j{0}"])
def test_the_hands_of_two_arms_are_two_however_they_are_told_apart(form):
    names = [form.format(joint, arm) for arm in "01" for joint in (*range(5), "gripper")]
    recordings = []
    for first, second in zip(ways(), ways(seed=5), strict=True):
        left = np.vstack([first, np.repeat(first[-1:], len(second), 0)])
        right = np.vstack([np.repeat(second[:1], len(first), 0), second])
        parts = [part for arm in (left, right) for part in (joints(arm[:, :3]), arm[:, 3:4])]
        recordings.append(made(np.hstack(parts), names=names))
    robot = infer_robot(recordings)
    assert {(hand.gripper, hand.position) for hand in robot.hands} == {
        ((5,), tuple(range(5))),
        ((11,), tuple(range(6, 11))),
    }
    assert {hand.closed for hand in robot.hands} <= {"low", None}


def test_a_joint_by_name_is_no_gripper_though_it_goes_between_two_levels():
    recordings = [
        made(np.hstack([joints(w[:, :3]), w[:, 3:4]]), names=("a", "b", "c", "d", "e", "wrist"))
        for w in ways()
    ]
    assert infer_robot(recordings).layout.gripper != (5,)


@pytest.mark.parametrize(("sign", "vertical"), [(1, 2), (-1, None)])
def test_an_axis_that_falls_where_the_hand_carries_is_no_height(sign, vertical):
    recordings = [made(w[:, :4] * (1, 1, sign, 1), names=(*XYZ, "gripper")) for w in ways()]
    robot = infer_robot(recordings)
    assert robot.layout.vertical == vertical
    assert any("falls between" in f.reason for f in robot.findings) == (vertical is None)


def test_steps_of_an_action_are_no_places():
    def steps(way):
        return np.vstack([np.diff(way[:, :3], axis=0), np.zeros((1, 3))])

    names = (*XYZ, "gripper")
    recordings = [
        made(w[:, :0], np.hstack([steps(w), w[:, 4:5] < 0.9]), names_of_action=names) for w in ways()
    ]
    robot = infer_robot(recordings)
    assert robot.layout.position == ()
    assert "position" in {f.field for f in robot.unknown}
    places = [made(w[:, :0], w[:, :4], names_of_action=names) for w in ways()]
    assert infer_robot(places).layout.position == (0, 1, 2)


def test_two_robots_in_one_dataset_are_asked_for():
    """Some of its episodes close at the other end, by their own commands."""
    recordings = []
    for i, w in enumerate(ways(8)):
        hand, told = 1 - w[:, 3:].T if i % 4 == 1 else w[:, 3:].T
        state, action = (np.column_stack([w[:, :3], column]) for column in (hand, told))
        recordings.append(made(state, action, (*XYZ, "gripper")))
    robot = infer_robot(recordings)
    assert robot.layout.closed is None
    assert "annotate them apart" in (
        missing_robot_info(robot.model_copy(update={"findings": robot.unknown})) or ""
    )


def test_a_leader_that_opens_further_than_its_follower_does_not_turn_the_hand_round():
    """Thin things hardly stop the hand, so the only gap between command and state is at the open end."""
    recordings = []
    for _ in range(6):
        w = pick_and_place(np.random.default_rng(len(recordings)), starts_closed=True, width=0.06)
        told = np.where(w[:, 4] > 0.5, 1.14 * w[:, 4], w[:, 3])
        state, action = (np.column_stack([joints(w[:, :3]), column]) for column in (w[:, 3], told))
        recordings.append(made(state, action, (*(f"j{i}" for i in range(5)), "gripper")))
    assert infer_robot(recordings).layout.closed in ("low", None)


def test_fingers_that_go_either_way_are_read_alike_in_all_episodes():
    """The thumb goes against the fingers, and is the widest in some episodes alone."""
    recordings = []
    for i, w in enumerate(ways(8)):
        joints_of_hand = (1 - w[:, 3:4]) * (-1.0 if i % 2 else -0.35, 0.8, 0.9, 0.8)
        names = (*XYZ, "thumb", "index", "middle", "pinky")
        recordings.append(made(np.hstack([w[:, :3], joints_of_hand]), names=names))
    robot = infer_robot(recordings)
    assert robot.layout.gripper == (4, 5, 6)
    assert robot.layout.closed in ("high", None)
